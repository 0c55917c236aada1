"""Says which commands a shell line runs, behind everything that runs a command for somebody else.

What is only known when the line runs is not guessed at: the reading says how sure it is. What a program does of its
own accord, a script or a Makefile for one, is not followed.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

from khepri.agent.code_words import code_of, stays_inside
from khepri.agent.interpreters import INTERPRETERS
from khepri.agent.known_programs import (
    GIT_HELPER,
    GIT_RUNNING,
    GOES,
    MORE_POWER,
    QUIET,
    QUIET_GIT,
    RUNS_SCRIPTS,
    RUNS_TARGETS,
    SUBSCRIPT,
    is_harmless_output,
    loads_more,
    runs_value,
)
from khepri.agent.option_words import GIT_OPTIONS, LINE_BEHIND, after_options
from khepri.agent.readings import OPAQUE, Clarity, Reading, clarity_of, hidden, suffixes
from khepri.agent.shell_words import Assignment, SimpleCommand, Word, parse_line
from khepri.agent.wrappers import BASH, PATHS, RENAMING, SHELLS, UNLIKE_SH, WRAPPERS, Wrapper

_MOST_DEPTH: Final = 6
_ASSIGNMENT: Final = re.compile(r"([A-Za-z_]\w*)\+?=")
_NO_TARGET: Final = re.compile(r"[=\s]|^-")
_FIND_ACTIONS: Final = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


@dataclass(frozen=True)
class _Place:
    """Where a command stands."""

    depth: int = 0
    """How many lines and wrappers it stands in."""
    given: Word | None = None
    """What these give it on its standard input."""
    in_bash: bool = True
    """False if another shell may read the line."""

    def deeper(self) -> "_Place":
        return replace(self, depth=self.depth + 1)

    def with_given(self, words: Sequence[Word]) -> Sequence[Word]:
        return words if self.given is None else [*words, self.given]


def read_line(line: str, *, in_bash: bool = True) -> Reading:
    """Return what a shell line runs.

    Args:
        line: The line.
        in_bash: False if another shell may run it, which knows nothing but what POSIX says.
    """
    return _line(line, _Place(in_bash=in_bash))


def _line(line: str, place: _Place) -> Reading:
    parsed = parse_line(line) if place.depth <= _MOST_DEPTH else None
    if parsed is None or (parsed.is_for_bash and not place.in_bash):
        return OPAQUE
    reading = Reading(clarity=Clarity.CLEAR if all(map(is_harmless_output, parsed.written)) else Clarity.PARTLY)
    for command in parsed.commands:
        reading += _command(command, place)
    return reading


def _command(command: SimpleCommand, place: _Place) -> Reading:
    reading = _words(command.words, replace(place, given=command.given) if command.given else place)
    for variable in command.assigned:
        reading += _set(variable, command.words)
    return reading


def _set(variable: Assignment, words: Sequence[Word]) -> Reading:
    """Return what may be run besides because a variable is set for some words."""
    if not loads_more(variable):
        return Reading()
    guesses = hidden([variable.value])
    if variable.name in PATHS:
        guesses += suffixes(words)
    return Reading(guesses=guesses, clarity=Clarity.PARTLY)


def _words(words: Sequence[Word], place: _Place) -> Reading:
    """Return what the words of one command run."""
    if not words:
        return Reading()
    if not words[0].is_literal or place.depth > _MOST_DEPTH:
        return OPAQUE
    name = words[0].text.rpartition("/")[2]
    wrapper = WRAPPERS.get(name)
    own = Reading((tuple(words),))
    seen = own if name in MORE_POWER else Reading(guesses=(tuple(words),))
    if name in SHELLS:
        return seen + _shell(name, words, place)
    if wrapper is not None and _is_wrapped(wrapper, words):
        return seen + _behind(name, wrapper, words, place if name == "env" else replace(place, in_bash=False))
    if name in (".", "source"):
        return own + _sourced(words[1:])
    if name in RENAMING:
        return own + OPAQUE
    if name in ("eval", "trap"):
        lines = words[1:] if name == "eval" else words[1:2]
        return seen + _joined(lines, place)
    if name == "find":
        return own + _found(words, place)
    if name == "git":
        return _git(words)
    code = code_of(name, words, place.given)
    if code is not None:
        return own + code
    if name in GOES and not (words[1:] and all(map(stays_inside, words[1:]))):
        return own + Reading(clarity=Clarity.PARTLY)
    if name in QUIET or name.rstrip("0123456789.") in RUNS_SCRIPTS:
        return own + _worked_out(words[1:])
    if name in RUNS_TARGETS:
        return own + Reading(guesses=hidden([word for word in words[1:] if _NO_TARGET.search(word.text)]))
    clarity = Clarity.PARTLY if runs_value(name, words) else Clarity.CLEAR
    guesses = hidden(place.with_given(words[1:]))
    return own + Reading(guesses=guesses, clarity=max(clarity, _given_to_shell(words, place)))


def _given_to_shell(words: Sequence[Word], place: _Place) -> Clarity:
    """Return how clear it is what is run where an unknown program is given what is not seen, and a shell's name."""
    names = {word.text.rpartition("/")[2] for word in words[1:]}
    reads = any(name in SHELLS or name.rstrip("0123456789.") in INTERPRETERS for name in names)
    is_unseen = place.given is not None and not place.given.is_literal
    return Clarity.OPAQUE if reads and is_unseen else Clarity.CLEAR


def _worked_out(words: Sequence[Word]) -> Reading:
    """Return what the words of a quiet program may run all the same, or make others run."""
    reading = Reading(guesses=suffixes([word for word in words if SUBSCRIPT.search(word.text)]))
    for name in (following.text for word, following in pairwise(words) if word.text == "-v"):
        reading += _set(Assignment(name, Word("", False)), [])
    for word in words:
        if match := _ASSIGNMENT.match(word.text):
            reading += _set(Assignment(match[1], Word(word.text[match.end() :], word.is_literal)), [])
    return reading


def _sourced(words: Sequence[Word]) -> Reading:
    """Return what a shell runs that reads a script; nothing more is known of a file's."""
    if not words or not words[0].is_literal or words[0].text.startswith(("/dev/", "/proc/")):
        return OPAQUE
    return Reading(guesses=(tuple(words),), clarity=Clarity.CLEAR if stays_inside(words[0]) else Clarity.PARTLY)


def _is_wrapped(wrapper: Wrapper, words: Sequence[Word]) -> bool:
    return not wrapper.subcommand or any(word.text == wrapper.subcommand for word in words[1:])


def _behind(name: str, wrapper: Wrapper, words: Sequence[Word], place: _Place) -> Reading:
    """Return what a wrapper runs."""
    if wrapper.subcommand:
        words = words[next(at for at, word in enumerate(words) if at and word.text == wrapper.subcommand) :]
    rest, lines, is_known = after_options(wrapper, words[1:])
    if not is_known:
        seen = place.with_given(words[1:])
        return Reading(guesses=suffixes(seen), clarity=max(clarity_of(words[1:]), _given_to_shell(words, place)))
    reading = Reading()
    own = words[1 : len(words) - len(rest[wrapper.own_words :])]
    if any(word.may_be_several for word in own):
        return OPAQUE
    if wrapper.names_files and not all(map(stays_inside, own)):
        reading = Reading(clarity=Clarity.PARTLY)
    if lines and name == "env":
        # The words of the line come before those that follow it, and may begin with options again.
        return reading + _joined([words[0], *lines, *rest], place)
    rest = rest[wrapper.own_words :]
    if wrapper.line_options:
        # Some take their options behind their own words as well.
        late, more, is_known = after_options(wrapper, rest)
        if more:
            lines, rest = [*lines, *more], late if is_known else []
    for line in lines:
        reading += _joined([line], place)
    if lines:
        return reading
    if wrapper.joins and rest:
        return _joined(rest, place) + _words(rest, place.deeper())
    while rest and (match := _ASSIGNMENT.match(rest[0].text)):
        if rest[0].may_be_several:
            return OPAQUE
        reading += _set(Assignment(match[1], Word(rest[0].text[match.end() :], rest[0].is_literal)), rest[1:])
        rest = rest[1:]
    if not rest:
        return OPAQUE if wrapper.opens_shell else Reading((tuple(words),))
    if wrapper.adds_words:
        mark = _mark(words[1 : len(words) - len(rest)])
        rest = [*(Word(word.text, word.is_literal and mark not in word.text) for word in rest), Word("{}", False)]
    return reading + _words(rest, place.deeper())


def _mark(options: Sequence[Word]) -> str:
    """Return the text in the place of which ``xargs`` puts what it read."""
    for place, option in enumerate(options):
        match = re.fullmatch(r"-[0rtxpo]*[IJi](.*)|--replace(?:=(.*))?", option.text)
        if match:
            following = options[place + 1].text if place + 1 < len(options) and "i" not in option.text[:2] else ""
            return match[1] or match[2] or following or "{}"
    return "{}"


def _shell(name: str, words: Sequence[Word], place: _Place) -> Reading:
    """Return what ``sh -c LINE`` runs, or ``sh SCRIPT``: a command of the shell's name that may be the script's."""
    rest, lines, is_known = after_options(SHELLS[name], words[1:], lines_behind="c")
    if not is_known or any(word.may_be_several for word in words[1 : len(words) - len(rest)]):
        return OPAQUE
    if lines is not None and LINE_BEHIND in lines:
        if not rest or name in UNLIKE_SH:
            return OPAQUE
        return _joined(rest[:1], replace(place, in_bash=name in BASH))
    return Reading((tuple(words),)) + _sourced(rest)


def _joined(words: Sequence[Word], place: _Place) -> Reading:
    """Return what words run that a shell reads as one line."""
    if not all(word.is_literal for word in words):
        return OPAQUE
    return _line(" ".join(word.text for word in words), place.deeper())


def _found(words: Sequence[Word], place: _Place) -> Reading:
    """Return what ``find`` runs for what it finds."""
    reading = Reading()
    for at, word in enumerate(words):
        if word.text in _FIND_ACTIONS:
            action = words[at + 1 :]
            end = next((number for number, each in enumerate(action) if each.text in (";", "+")), len(action))
            reading += _words([*action[:end], Word("{}", False)], place.deeper())
    return reading


def _git(words: Sequence[Word]) -> Reading:
    rest, _, is_known = after_options(GIT_OPTIONS, words[1:])
    if any(word.may_be_several for word in words[1 : len(words) - len(rest)]):
        return OPAQUE
    own = Reading(((words[0], *rest),))
    if rest and _git_runs(rest):
        own += Reading(clarity=Clarity.PARTLY)
    if rest and (rest[0].text not in QUIET_GIT or any(GIT_HELPER.match(word.text) for word in rest)):
        own += Reading(guesses=hidden(rest[1:]))
    if not all(map(stays_inside, words[1 : len(words) - len(rest)])):
        # Another repository may have its own programs in its configuration.
        own += Reading(clarity=Clarity.PARTLY)
    # An alias or a helper that is set on the command line may be any command.
    return own if is_known else own + Reading(guesses=suffixes(words[1:], "git"), clarity=clarity_of(words[1:]))


def _git_runs(words: Sequence[Word]) -> bool:
    """Return True if a command of git may run what its words, an alias or its configuration say."""
    name = words[0].text
    if name in QUIET_GIT:
        return any(GIT_HELPER.match(word.text) for word in words[1:])
    if name in GIT_RUNNING:
        return any(GIT_RUNNING[name].match(word.text) for word in words[1:])
    return words[0].is_literal
