"""What may be done without asking, what must be asked, and what is never done.

A rule is a verdict and a pattern: ``edit src/**`` for files that are written, ``command pytest*`` for commands that are
run. The strictest rule that matches decides, so that a denial holds in every mode. Rules come from the user's file and
from the repository's, which can only forbid; nothing that a model, a file or a tool says is ever looked at here.
"""

import fnmatch
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from pathspec import GitIgnoreSpec

_MOST_DEPTH: Final = 5
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash"})
_SEPARATORS: Final = frozenset({"&&", "||", ";", "|", "&", "|&", "\n", "(", ")"})
_WRAPPERS: Final = {
    # Each with those of its options that take a word of their own.
    "env": frozenset({"-u", "--unset", "-C", "--chdir", "-S"}),
    "sudo": frozenset({"-u", "--user", "-g", "--group", "-h", "--host", "-p", "-C", "-D", "-R", "-T"}),
    "doas": frozenset({"-u", "-C"}),
    "timeout": frozenset({"-s", "--signal", "-k", "--kill-after"}),
    "nice": frozenset({"-n", "--adjustment"}),
    "ionice": frozenset({"-c", "-n", "-p"}),
    "nohup": frozenset[str](),
    "setsid": frozenset[str](),
    "stdbuf": frozenset({"-i", "-o", "-e"}),
    "time": frozenset({"-f", "-o"}),
    "command": frozenset[str](),
    "exec": frozenset({"-a"}),
    "builtin": frozenset[str](),
    "xargs": frozenset({"-n", "-P", "-I", "-d", "-L", "-s", "-a", "-E"}),
    "busybox": frozenset[str](),
    "chrt": frozenset[str](),
    "taskset": frozenset[str](),
    "unshare": frozenset[str](),
    "flock": frozenset({"-w", "--timeout", "-E"}),
}
_LEADING_WORDS: Final = {"timeout": 1, "chrt": 1, "taskset": 1, "flock": 1}
"""Wrappers that take so many words of their own before the command."""


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

    @property
    def reason(self) -> str:
        """The rule in words."""
        if self.rule is None:
            return "no rule speaks of it"
        return f"{self.rule.verdict.name.lower()} {self.rule.action} {self.rule.pattern!r} in {self.rule.source}"


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
        """Return whether a shell command may be run; every command in it counts, also behind ``sudo`` or ``sh -c``."""
        parts = commands_in(command)
        if parts is None:
            # What cannot be understood is never allowed by a rule, and denied if any denied word is in it.
            denied = [
                rule
                for rule in self._of("command")
                if rule.verdict is Verdict.DENY and _words_of(rule) & set(_raw(command))
            ]
            return self._ruling(denied)
        rulings = [
            self._ruling([rule for rule in self._of("command") if _matches(rule.pattern, part)]) for part in parts
        ]
        return max(rulings, key=lambda ruling: ruling.verdict, default=self._ruling([]))

    def _of(self, action: str) -> list[Rule]:
        return [rule for rule in self._rules if rule.action == action]

    def _ruling(self, found: Sequence[Rule]) -> Ruling:
        strictest = max(found, key=lambda rule: rule.verdict, default=None)
        if strictest is None:
            return Ruling(self._default, None)
        if strictest.verdict is Verdict.ASK and self._is_approved:
            return Ruling(Verdict.ALLOW, strictest)
        return Ruling(strictest.verdict, strictest)


def commands_in(command: str, depth: int = 0) -> tuple[tuple[str, ...], ...] | None:
    """Return the commands that a shell line runs, each without what is wrapped around it.

    Returns:
        The words of each command; None if the line cannot be understood: substitutions, unfinished quotes, variables in
        the place of a command, and wrappers in wrappers beyond reason.
    """
    if depth > _MOST_DEPTH or re.search(r"`|\$\(|<\(|>\(|<<", command):
        return None
    try:
        lexer = shlex.shlex(command.replace("\n", " ; "), posix=True, punctuation_chars=";&|()")
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return None
    found: list[tuple[str, ...]] = []
    current: list[str] = []
    for word in [*words, ";"]:
        if word in _SEPARATORS or set(word) <= set(";&|()"):
            if current:
                inner = _unwrapped(current, depth)
                if inner is None:
                    return None
                found += inner
            current = []
        else:
            current.append(word)
    return tuple(found)


def _unwrapped(words: list[str], depth: int) -> tuple[tuple[str, ...], ...] | None:
    """Take assignments and wrappers off a command; what they leave may again be a whole line."""
    while words:
        name = words[0].rpartition("/")[2]
        if _ASSIGNMENT.match(words[0]):
            words = words[1:]
        elif name in _WRAPPERS:
            words = _after_wrapper(name, words[1:])
            if name == "env" and words and words[0] == "-S":
                return commands_in(" ".join(words[1:]), depth + 1)
        elif name in _SHELLS:
            return _shell(words, depth)
        elif name == "eval":
            return commands_in(" ".join(words[1:]), depth + 1)
        elif "$" in words[0]:
            return None
        else:
            return (((name, *words[1:])),)
    return ()


def _after_wrapper(name: str, words: list[str]) -> list[str]:
    with_value = _WRAPPERS[name]
    place = 0
    while place < len(words) and words[place].startswith("-") and len(words[place]) > 1:
        if words[place] == "--":
            place += 1
            break
        if name == "env" and words[place] in ("-S", "--split-string"):
            return ["-S", *words[place + 1 :]]
        place += 2 if words[place] in with_value else 1
    return words[place + _LEADING_WORDS.get(name, 0) :]


def _shell(words: list[str], depth: int) -> tuple[tuple[str, ...], ...] | None:
    """Understand ``sh -c LINE``; a script by its name is a command of that name."""
    for place, word in enumerate(words[1:], start=1):
        if re.fullmatch(r"-[a-z]*c[a-z]*", word):
            return commands_in(words[place + 1], depth + 1) if place + 1 < len(words) else None
        if not word.startswith(("-", "+")):
            return ((words[0].rpartition("/")[2], *words[1:]),)
    return None


def _matches(pattern: str, words: tuple[str, ...]) -> bool:
    line = " ".join(words)
    if any(mark in pattern for mark in "*?["):
        return fnmatch.fnmatchcase(line, pattern)
    return line == pattern or line.startswith(f"{pattern} ")


def _matches_path(pattern: str, path: str) -> bool:
    return GitIgnoreSpec.from_lines([pattern]).match_file(path)


def _words_of(rule: Rule) -> set[str]:
    first = rule.pattern.split(" ")[0].rstrip("*?")
    return {first} if first else set()


def _raw(command: str) -> list[str]:
    return [word.rpartition("/")[2] for word in re.split(r"[^\w./-]+", command)]
