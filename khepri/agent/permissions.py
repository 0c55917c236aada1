"""What may be done without asking, what must be asked, and what is never done.

A rule is a verdict and a pattern: ``edit src/**`` for files that are written, ``command pytest*`` for commands that are
run. The strictest rule that matches decides, so that a denial holds in every mode. Rules come from the user's file and
from the repository's, which can only forbid; nothing that a model, a file or a tool says is ever looked at here.
"""

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from pathspec import GitIgnoreSpec

from khepri.agent.readings import Clarity
from khepri.agent.shell_reading import read_line
from khepri.agent.shell_words import Word
from khepri.repo.shell import is_bash


class Verdict(IntEnum):
    """What a rule says; the higher one is the stricter."""

    ALLOW = 0
    """Done without asking."""
    ASK = 1
    """Asked first."""
    DENY = 2
    """Never done."""


@dataclass(frozen=True)
class Rule:
    """One line of a rules file."""

    verdict: Verdict
    action: str
    """``edit`` or ``command``."""
    pattern: str
    """For ``edit`` a pattern of ``.gitignore``; for ``command`` the beginning of a command, with ``*`` and ``?``."""
    source: str
    """Where it stands, for people."""


@dataclass(frozen=True)
class Ruling:
    """What the rules say of one thing."""

    verdict: Verdict
    rule: Rule | None
    """The rule that decided; None for the default."""
    is_sure: bool = True
    """False if a command cannot be told to be another one than the rule speaks of."""

    @property
    def reason(self) -> str:
        """The rule in words."""
        if self.rule is None:
            return "no rule speaks of it"
        doubt = "" if self.is_sure else "it cannot be told that this is none of those that the rules deny: "
        return f"{doubt}{self.rule.verdict.name.lower()} {self.rule.action} {self.rule.pattern!r} in {self.rule.source}"


class Permissions:
    """The rules in force. Immutable; any thread."""

    def __init__(self, rules: Sequence[Rule] = (), *, is_approved: bool = False) -> None:
        """Take the rules.

        Args:
            rules: Those of the user and of the repository.
            is_approved: True if the user said yes beforehand: what would be asked is done.
        """
        self._rules = tuple(rules)
        self._default = Verdict.ALLOW if is_approved else Verdict.ASK
        self._is_approved = is_approved

    def edit(self, path: str) -> Ruling:
        """Return whether a file may be written, by its POSIX path from the root."""
        found = [rule for rule in self._rules if rule.action == "edit" and _matches_path(rule.pattern, path)]
        return self._ruling(found)

    def command(self, command: str) -> Ruling:
        """Return whether a shell command may be run; every command in it counts, also behind ``sudo`` or ``sh -c``.

        Where it is not clear what a line runs, or what the shell makes of a variable or a pattern in it, no rule
        allows it, and it is denied if it may be something denied.
        """
        reading = read_line(command, in_bash=is_bash())
        denials = [rule for rule in self._of("command") if rule.verdict is Verdict.DENY]
        possible = denials
        if reading.clarity is not Clarity.OPAQUE:
            parts = (*reading.commands, *reading.guesses)
            possible = [rule for rule in denials if any(_may_match(rule, part) for part in parts)]
        rulings = [
            self._ruling([rule for rule in self._of("command") if _matches(rule, part)]) for part in reading.commands
        ]
        if possible and all(ruling.verdict is not Verdict.DENY for ruling in rulings):
            rulings.append(Ruling(Verdict.DENY, possible[0], is_sure=False))
        elif reading.clarity is not Clarity.CLEAR or not rulings:
            rulings.append(self._ruling([]))
        return max(rulings, key=lambda ruling: ruling.verdict)

    def _of(self, action: str) -> list[Rule]:
        return [rule for rule in self._rules if rule.action == action]

    def _ruling(self, found: Sequence[Rule]) -> Ruling:
        strictest = max(found, key=lambda rule: rule.verdict, default=None)
        if strictest is None:
            return Ruling(self._default, None)
        if strictest.verdict is Verdict.ASK and self._is_approved:
            return Ruling(Verdict.ALLOW, strictest)
        return Ruling(strictest.verdict, strictest)


def _matches(rule: Rule, words: Sequence[Word]) -> bool:
    line = " ".join((_name(rule, words[0].text), *(word.text for word in words[1:])))
    pattern = _pattern(rule)
    if rule.verdict is Verdict.ALLOW and not all(word.is_literal for word in words):
        # What the shell makes of a word is known to a rule only if it allows everything, or says that very word.
        return pattern in ("*", line)
    if _is_glob(pattern):
        return fnmatch.fnmatchcase(line, pattern)
    return line == pattern or line.startswith(f"{pattern} ")


def _may_match(rule: Rule, words: Sequence[Word]) -> bool:
    """Return True if some words match, or may do once it is known what a variable or an output in them is."""
    pattern = _pattern(rule)
    if _is_glob(pattern):
        return _matches(rule, words)
    for place, part in enumerate(pattern.split()):
        if place >= len(words):
            return False
        if not words[place].is_literal:
            return True
        if (words[place].text if place else _name(rule, words[0].text)) != part:
            return False
    return True


def _pattern(rule: Rule) -> str:
    first, space, rest = rule.pattern.partition(" ")
    return f"{_name(rule, first)}{space}{rest}"


def _name(rule: Rule, written: str) -> str:
    """Return what of a program's name is compared: a rule allows the very path, and denies it in any place."""
    return written if rule.verdict is Verdict.ALLOW else written.rpartition("/")[2]


def _is_glob(pattern: str) -> bool:
    return any(mark in pattern for mark in "*?[")


def _matches_path(pattern: str, path: str) -> bool:
    return GitIgnoreSpec.from_lines([pattern]).match_file(path)
