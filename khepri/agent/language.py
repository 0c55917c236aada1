"""Tells in which language a question is, so that a small model can be told to answer in it.

It follows the language of what it reads last, and Khepri's own words to it are English. The library py3langid tells the
languages apart. A question in plain English is known by a few words without it: it takes half a second to load. So is
what may be English or another language for English, as names of code look the same in every language.
"""

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Language:
    """A language that an answer can be in."""

    name: str
    """As it is named in English."""
    opening: str = ""
    """What stands before the name of a file at the beginning of an answer, and is not English; empty if unknown."""


ENGLISH: Final = Language("English", "In")
_OTHERS: Final = {
    "fr": Language("French", "Dans"),
    "de": Language("German", "In der Datei"),
    "es": Language("Spanish", "En"),
    "it": Language("Italian", "Nel file"),
    "pt": Language("Portuguese", "Em"),
    "nl": Language("Dutch", "In het bestand"),
}
_UNKNOWN: Final = Language("the language of the question")
_CODE: Final = re.compile(r"`[^`]*`|\S*[\w)][./_(:]\w\S*|\S*[a-z][A-Z]\S*")
_WORD: Final = re.compile(r"\b[^\W\d_]+\b")
_ENGLISH_WORDS: Final = frozenset(
    "an and are be by can could describe did do does explain find for from give has have how if into is it its list me "
    "not of only please should show tell that the these this those to what when where which who why will with would "
    "you your".split()
)
_LEAST_WORDS: Final = 2
_DOUBT: Final = 8.0
"""How much likelier than English another language has to be, as a logarithm."""
_NEAR: Final = 5.0
"""How much likelier than one of ours a language may be that is taken for it: Galician for Portuguese, for example."""


def language_of(question: str) -> Language:
    """Return the language to answer in; English where nothing tells. The first that is not plain loads the library."""
    text = _CODE.sub(" ", question)
    words = [word.lower() for word in _WORD.findall(text)]
    if not words or len(_ENGLISH_WORDS.intersection(words)) >= _LEAST_WORDS:
        return ENGLISH
    from py3langid import rank

    likelihood = dict(rank(text.strip()))
    best = max(likelihood.values())
    if best - likelihood["en"] < _DOUBT:
        return ENGLISH
    code = max(_OTHERS, key=likelihood.__getitem__)
    return _OTHERS[code] if best - likelihood[code] <= _NEAR else _UNKNOWN
