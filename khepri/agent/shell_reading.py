"""Says which commands a shell line runs, behind everything that runs a command for somebody else.

What is only known when the line runs is not guessed at: the reading says how sure it is. What a program does of its
own accord, a script or a Makefile for one, is not followed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Final

from khepri.agent.known_programs import (
    CODE_MODULES,
    GIT_HELPER,
    MORE_POWER,
    QUIET,
    QUIET_GIT,
    RUNS_SCRIPTS,
    RUNS_TARGETS,
    SUBSCRIPT,
    is_harmless_output,
    loads_more,
)
from khepri.agent.shell_words import Assignment, SimpleCommand, Word, parse_line
from khepri.agent.wrappers import (
    CODE_FIRST,
    CODE_OPTIONS,
    PATHS,
    RENAMING,
    SHELLS,
    WRAPPERS,
    Wrapper,
)

_MOST_DEPTH: Final = 6
_MOST_WORDS: Final = 200
"""More than a pattern has."""
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)\+?=")
_NO_WORD: Final = re.compile(r"[^\w./~@%+:-]+")
_ATTACHED: Final = re.compile(r"(?<![\w-])-[A-Za-z](?=[A-Za-z./])|:")
"""What may stand before a command within a word: the letter of an option, or a colon as in ``EXEC:a``."""
_NO_TARGET: Final = re.compile(r"[=\s]|^-")
_FIND_ACTIONS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_GIT: Final = Wrapper(
    flags="pP",
    valued="C",
    long_flags=frozenset({"--no-pager", "--paginate", "--bare", "--no-replace-objects", "--literal-pathspecs"}),
    long_valued=frozenset({"--git-dir", "--work-tree", "--namespace"}),
)


class Clarity(IntEnum):
    """How well it is known what a line runs; the higher one is the darker."""

    CLEAR = 0
    """The commands are all of it."""
    PARTLY = 1
    """What it may run besides is among the guesses."""
    OPAQUE = 2
    """It may run anything."""


@dataclass(frozen=True)
class Reading:
    """What a line runs."""

    commands: tuple[tuple[Word, ...], ...] = ()
    """The words of each command, its name first, which is literal."""
    guesses: tuple[tuple[Word, ...], ...] = ()
    """The same for what may be one, or what only a denial speaks of: the wrapper of a command."""
    clarity: Clarity = Clarity.CLEAR

    def __add__(self, other: "Reading") -> "Reading":
        return Reading(self.commands + other.commands, self.guesses + other.guesses, max(self.clarity, other.clarity))


_OPAQUE: Final = Reading(clarity=Clarity.OPAQUE)


def read_line(line: str) -> Reading:
    """Return what a shell line runs."""
    return _line(line, 0)


def _line(line: str, depth: int) -> Reading:
    parsed = parse_line(line) if depth <= _MOST_DEPTH else None
    if parsed is None:
        return _OPAQUE
    reading = Reading(clarity=Clarity.CLEAR if all(map(is_harmless_output, parsed.written)) else Clarity.PARTLY)
    for command in parsed.commands:
        reading += _command(command, depth)
    return reading


def _command(command: SimpleCommand, depth: int) -> Reading:
    reading = _words(command.words, depth)
    for variable in command.assigned:
        reading += _set(variable, command.words)
    return reading


def _set(variable: Assignment, words: Sequence[Word]) -> Reading:
    """Return what may be run besides because a variable is set for some words."""
    if not loads_more(variable):
        return Reading()
    guesses = _hidden([variable.value])
    if variable.name in PATHS:
        guesses += _suffixes(words)
    return Reading(guesses=guesses, clarity=Clarity.PARTLY)


def _words(words: Sequence[Word], depth: int) -> Reading:
    """Return what the words of one command run."""
    if not words:
        return Reading()
    if not words[0].is_literal or depth > _MOST_DEPTH:
        return _OPAQUE
    name = words[0].text.rpartition("/")[2]
    wrapper = WRAPPERS.get(name)
    own = Reading((tuple(words),))
    seen = own if name in MORE_POWER else Reading(guesses=(tuple(words),))
    if name in SHELLS:
        return seen + _shell(name, words, depth)
    if wrapper is not None and _is_wrapped(wrapper, words):
        return seen + _behind(name, wrapper, words, depth)
    if name in (".", "source"):
        return own + _sourced(words[1:])
    if name in RENAMING:
        return own + _OPAQUE
    if name in ("eval", "trap"):
        lines = words[1:] if name == "eval" else words[1:2]
        return seen + _joined(lines, depth)
    if name == "find":
        return own + _found(words, depth)
    if name == "git":
        return _git(words)
    if _holds_code(name, words):
        return own + Reading(guesses=_suffixes(words[1:]), clarity=Clarity.PARTLY)
    if name in QUIET or name.rstrip("0123456789.") in RUNS_SCRIPTS:
        return own + _worked_out(words[1:])
    if name in RUNS_TARGETS:
        return own + Reading(guesses=_hidden([word for word in words[1:] if _NO_TARGET.search(word.text)]))
    return own + Reading(guesses=_hidden(words[1:]))


def _worked_out(words: Sequence[Word]) -> Reading:
    """Return what the words of a quiet program may run all the same, or make others run."""
    reading = Reading(guesses=_suffixes([word for word in words if SUBSCRIPT.search(word.text)]))
    for name in (following.text for word, following in pairwise(words) if word.text == "-v"):
        reading += _set(Assignment(name, Word("", False)), [])
    for word in words:
        if match := _ASSIGNMENT.match(word.text):
            reading += _set(Assignment(match[1], Word(word.text[match.end() :], word.is_literal)), [])
    return reading


def _sourced(words: Sequence[Word]) -> Reading:
    """Return what a shell runs that reads a script; nothing more is known of a file's."""
    if not words or not words[0].is_literal or words[0].text.startswith(("/dev/", "/proc/")):
        return _OPAQUE
    return Reading(guesses=(tuple(words),))


def _is_wrapped(wrapper: Wrapper, words: Sequence[Word]) -> bool:
    return not wrapper.subcommand or any(word.text == wrapper.subcommand for word in words[1:])


def _behind(name: str, wrapper: Wrapper, words: Sequence[Word], depth: int) -> Reading:
    """Return what a wrapper runs."""
    if wrapper.subcommand:
        place = next(at for at, word in enumerate(words) if at and word.text == wrapper.subcommand)
        words = words[place:]
    rest, lines, is_known = _after_options(wrapper, words[1:])
    if not is_known:
        return Reading(guesses=_suffixes(words[1:]), clarity=_clarity(words[1:]))
    reading = Reading()
    own = words[1 : len(words) - len(rest[wrapper.own_words :])]
    if wrapper.writes and not all(map(_stays_inside, own)):
        reading = Reading(clarity=Clarity.PARTLY)
    if lines and name == "env":
        # The words of the line come before those that follow it, and may begin with options again.
        return _joined([words[0], *lines, *rest], depth)
    rest = rest[wrapper.own_words :]
    if wrapper.line_options:
        # Some take their options behind their own words as well.
        late, more, is_known = _after_options(wrapper, rest)
        if more:
            lines, rest = [*lines, *more], late if is_known else []
    for line in lines:
        reading += _joined([line], depth)
    if lines:
        return reading
    if wrapper.joins:
        return _joined(rest, depth) + _words(rest, depth + 1)
    while rest and (match := _ASSIGNMENT.match(rest[0].text)):
        reading += _set(Assignment(match[1], Word(rest[0].text[match.end() :], rest[0].is_literal)), rest[1:])
        rest = rest[1:]
    if not rest:
        return _OPAQUE if wrapper.opens_shell else Reading((tuple(words),))
    if wrapper.adds_words:
        mark = _mark(words[1 : len(words) - len(rest)])
        rest = [*(Word(word.text, word.is_literal and mark not in word.text) for word in rest), Word("{}", False)]
    return reading + _words(rest, depth + 1)


def _stays_inside(option: Word) -> bool:
    """Return False for an option or a word with a file outside of the repository."""
    value = re.sub(r"\A-(?:-[\w-]+=|[A-Za-z]+(?=[/~.]))", "", option.text)
    return is_harmless_output(Word(value, option.is_literal))


def _mark(options: Sequence[Word]) -> str:
    """Return the text in the place of which ``xargs`` puts what it read."""
    for place, option in enumerate(options):
        match = re.fullmatch(r"-[0rtxpo]*[IJi](.*)|--replace(?:=(.*))?", option.text)
        if match:
            following = options[place + 1].text if place + 1 < len(options) and "i" not in option.text[:2] else ""
            return match[1] or match[2] or following or "{}"
    return "{}"


def _shell(name: str, words: Sequence[Word], depth: int) -> Reading:
    """Return what ``sh -c LINE`` runs, or ``sh SCRIPT``: a command of the shell's name that may be the script's."""
    rest, lines, is_known = _after_options(SHELLS[name], words[1:], lines_behind="c")
    if not is_known:
        return _OPAQUE
    if lines is not None and _LINE_BEHIND in lines:
        return _joined(rest[:1], depth) if rest else _OPAQUE
    return Reading((tuple(words),)) + _sourced(rest)


_LINE_BEHIND: Final = Word("-c", True)


def _after_options(
    wrapper: Wrapper, words: Sequence[Word], lines_behind: str = ""
) -> tuple[Sequence[Word], list[Word], bool]:
    """Take options off.

    Args:
        wrapper: Which options there are.
        words: What follows the name.
        lines_behind: Letters of options that say that the first word behind all options is a line.

    Returns:
        The words behind the options, the values that are lines, and False if an option is none of the known.
    """
    lines: list[Word] = []
    place = 0
    while place < len(words):
        text, is_literal = words[place].text, words[place].is_literal
        if not is_literal:
            return words[place:], lines, True
        if text == "--":
            place += 1
            break
        plus = bool(lines_behind) and text.startswith("+")
        if not (text.startswith("-") or plus):
            break
        place += 1
        following = words[place] if place < len(words) else None
        if text.startswith("--"):
            option, has_value, value = text.partition("=")
            if option not in wrapper.long_flags | wrapper.long_valued:
                return words, lines, False
            if option in wrapper.long_valued and not has_value:
                place += 1
                if option in wrapper.line_options and following:
                    lines.append(following)
            elif option in wrapper.line_options:
                lines.append(Word(value, True))
            continue
        for at, letter in enumerate(text[1:], start=2):
            if letter in lines_behind:
                lines.append(_LINE_BEHIND)
            elif letter in wrapper.attached:
                break
            elif letter in wrapper.valued:
                value_word = Word(text[at:], True) if text[at:] else following
                place += not text[at:]
                if f"-{letter}" in wrapper.line_options and value_word:
                    lines.append(value_word)
                break
            elif letter not in wrapper.flags:
                return words, lines, False
    return words[place:], lines, True


def _joined(words: Sequence[Word], depth: int) -> Reading:
    """Return what words run that a shell reads as one line."""
    if not all(word.is_literal for word in words):
        return _OPAQUE
    return _line(" ".join(word.text for word in words), depth + 1)


def _found(words: Sequence[Word], depth: int) -> Reading:
    """Return what ``find`` runs for what it finds."""
    reading = Reading()
    for place, word in enumerate(words):
        if word.text in _FIND_ACTIONS:
            action = words[place + 1 :]
            end = next((at for at, each in enumerate(action) if each.text in (";", "+")), len(action))
            reading += _words([*action[:end], Word("{}", False)], depth + 1)
    return reading


def _git(words: Sequence[Word]) -> Reading:
    rest, _, is_known = _after_options(_GIT, words[1:])
    own = Reading(((words[0], *rest),))
    if rest and (rest[0].text not in QUIET_GIT or any(GIT_HELPER.match(word.text) for word in rest)):
        own += Reading(guesses=_hidden(rest[1:]))
    # An alias or a helper that is set on the command line may be any command.
    return own if is_known else own + Reading(guesses=_suffixes(words[1:], "git"), clarity=_clarity(words[1:]))


def _holds_code(name: str, words: Sequence[Word]) -> bool:
    if name in CODE_FIRST:
        return True
    letters = CODE_OPTIONS.get(name.rstrip("0123456789."))
    if letters is None:
        return False
    for place, word in enumerate(words[1:], start=2):
        if re.match(r"-[A-Za-z]*m$", word.text):
            return any(following.text in CODE_MODULES for following in words[place : place + 1])
        if re.match(rf"-[A-Za-z]*[{letters}]|--(?:eval|print|execute|run)\b", word.text):
            return True
    return False


def _clarity(words: Sequence[Word]) -> Clarity:
    return Clarity.PARTLY if all(word.is_literal for word in words) else Clarity.OPAQUE


def _suffixes(words: Sequence[Word], name: str = "") -> tuple[tuple[Word, ...], ...]:
    """Return everything in some words that looks as if a command might begin with it, or the rest of ``name``."""
    pieces = [Word(piece, True) for word in words for piece in _NO_WORD.split(word.text) if piece]
    named = [Word(name, True)] if name else []
    return tuple(
        (*first, *pieces[at : at + _MOST_WORDS])
        for at in range(len(pieces))
        for first in ([], named)[: 1 + bool(named)]
    )


def _hidden(words: Sequence[Word]) -> tuple[tuple[Word, ...], ...]:
    """Return everything in the words of a program of unknown habits that may be a command which it runs."""
    found = _suffixes(words)
    if any(_ATTACHED.search(word.text) for word in words):
        found += _suffixes([Word(_ATTACHED.sub(" ", word.text), True) for word in words])
    calls = [each for each in found if each[0].text.rpartition("/")[2] == "git"]
    return (*found, *((each[0], *_after_options(_GIT, each[1:])[0]) for each in calls))
