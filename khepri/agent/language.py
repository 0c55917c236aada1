"""Tells in which language a question is, so that a small model can be told to answer in it.

It follows the language of what it reads last, and Khepri's own words to it are English. Only the words that hold
sentences together count: names of code look the same in every language.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Language:
    """A language that an answer can be in."""

    name: str
    """As it is named in English."""
    opening: str = ""
    """What stands before the name of a file at the beginning of an answer, and is not English; empty if unknown."""
    words: str = ""
    """The words that hold its sentences together."""


ENGLISH: Final = Language(
    "English",
    "In",
    "a about all an and any are as at be by can could do does explain find for from give has have how i if in into is "
    "it its list me my no not of on only or should show tell than that the then there these this to was what when "
    "where which who why will with would you your",
)
_OTHERS: Final = (
    Language(
        "French",
        "Dans",
        "au avec ce cette comment dans de des du elle en est et explique fait fonctionne il la le les mon où par pas "
        "pour pourquoi qu quand que quel quelle quelles quels qui se sont sur trouve un une à",
    ),
    Language(
        "German",
        "In der Datei",
        "auf aus das dem den der des die ein eine einen erkläre für geht gibt hat ich im ist kann macht man mit nach "
        "nicht sind steht und von wann warum was welche welcher welches wenn wer werden wie wird wo wozu zu zum",
    ),
    Language(
        "Spanish",
        "En",
        "con cuando cuál cuándo cómo de del dónde el en es esta este está explica funciona hace hay la las lo los "
        "para por que quién qué se sin son un una y",
    ),
    Language(
        "Italian",
        "Nel file",
        "che chi come con cos cosa da dei del della delle di dove e fa funziona gli i il in la le lo nel nella non "
        "per perché quale quali quando si sono spiega trova un una viene è",
    ),
    Language(
        "Portuguese",
        "Em",
        "as com como da das de do dos e em está explica faz funciona na no nos não o onde os para por porque quais "
        "qual quando que quem se são um uma é",
    ),
    Language(
        "Dutch",
        "In het bestand",
        "dat de deze een en er het hoe ik in is kan met naar niet op te uit van voor waar waarom wanneer wat welke "
        "wie worden wordt zijn",
    ),
)
_UNKNOWN: Final = Language("the language of the question")
_CODE: Final = re.compile(r"`[^`]*`|\S*[\w)][./_(:]\w\S*|\S*[a-z][A-Z]\S*")
_WORD: Final = re.compile(r"\b[^\W\d_]+\b")
_LEAST_WORDS: Final = 2


def language_of(question: str) -> Language:
    """Return the language to answer in; English where nothing tells."""
    prose = [word.lower() for word in _WORD.findall(_CODE.sub(" ", question))]
    counts = {language: _count(language, prose) for language in _OTHERS}
    english, most = _count(ENGLISH, prose), max(counts.values())
    best = [language for language, count in counts.items() if count == most]
    if most >= _LEAST_WORDS and most > english:
        return best[0] if len(best) == 1 else _UNKNOWN
    # A single word may be a name, and letters that English does not have are none of its own.
    is_foreign = not english and not all(word.isascii() for word in prose)
    return _UNKNOWN if is_foreign else ENGLISH


def _count(language: Language, prose: Sequence[str]) -> int:
    words = frozenset(language.words.split())
    return sum(word in words for word in prose)
