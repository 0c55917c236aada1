"""What is known of the commands that a line runs, and what is guessed where it is not known."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

from khepri.agent.option_words import GIT_OPTIONS, after_options
from khepri.agent.shell_words import Word

_MOST_WORDS: Final = 200
"""More than a pattern has."""
_NO_WORD: Final = re.compile(r"[^\w./~@%+:-]+")
_ATTACHED: Final = re.compile(r"(?<![\w-])-[A-Za-z](?=[A-Za-z./])|:")
"""What may stand before a command within a word: the letter of an option, or a colon as in ``EXEC:a``."""


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


OPAQUE: Final = Reading(clarity=Clarity.OPAQUE)


def clarity_of(words: Sequence[Word]) -> Clarity:
    """Return how well it is known what is run that is named in some words, nobody knows where."""
    return Clarity.PARTLY if all(word.is_literal for word in words) else Clarity.OPAQUE


def suffixes(words: Sequence[Word], name: str = "") -> tuple[tuple[Word, ...], ...]:
    """Return everything in some words that looks as if a command might begin with it, or the rest of ``name``."""
    pieces = [Word(piece, True) for word in words for piece in _NO_WORD.split(word.text) if piece]
    named = [Word(name, True)] if name else []
    return tuple(
        (*first, *pieces[at : at + _MOST_WORDS])
        for at in range(len(pieces))
        for first in ([], named)[: 1 + bool(named)]
    )


def hidden(words: Sequence[Word]) -> tuple[tuple[Word, ...], ...]:
    """Return everything in the words of a program of unknown habits that may be a command which it runs."""
    found = suffixes(words)
    if any(_ATTACHED.search(word.text) for word in words):
        found += suffixes([Word(_ATTACHED.sub(" ", word.text), True) for word in words])
    calls = [each for each in found if each[0].text.rpartition("/")[2] == "git"]
    return (*found, *((each[0], *after_options(GIT_OPTIONS, each[1:])[0]) for each in calls))
