"""Tells what a program has from what it works on, by the English noun."""

from enum import Enum, auto
from typing import Final


class Noun(Enum):
    """What a noun stands for in a sentence about a program."""

    CODE = auto()
    """What only a program has."""
    EITHER = auto()
    """What a program has and its data may have too."""
    DATA = auto()
    """What programs work on."""
    UNKNOWN = auto()


_CODE: Final = frozenset(
    "import if f-string generator function docstring decorator implementation logic boilerplate duplication helper "
    "loop conditional assertion assert workaround hack fallback wrapper nesting indirection abstraction handling "
    "caching logging parsing checking retrying casting locking polling batching try finally else elif support "
    "statement method subclass mixin todo validation normalization sanitization memoization optimization "
    "initialization chain ladder cascade recursion lambda comprehension switch goto typing overload check guard".split()
)
_EITHER: Final = frozenset(
    "code class parameter argument arg kwarg kwargs option keyword flag branch comment call block body test case "
    "variable constant attribute property field member handler exception default signature annotation hint alias "
    "condition duplicate copy version module definition print debug return raise warning cache query half part rest "
    "everything dependency feature mode step layer stage pass constructor".split()
)
_DATA: Final = frozenset(
    "whitespace space blank tab newline slash backslash dash hyphen underscore dot comma colon quote bracket brace "
    "parenthesis punctuation character char letter digit number word text string substring sentence line prefix "
    "suffix extension ending accent diacritic emoji symbol tag entity markup html xml json yaml csv sql url uri link "
    "host port domain scheme fragment path file folder directory dir archive temp row column cell table record entry "
    "item element object key value pair id name username email address token password secret cookie header footer "
    "byte bit bom image picture pixel message mail user account session request response socket connection event job "
    "task queue node edge leaf list dict dictionary set tuple array stack heap data content document page section "
    "paragraph title date time timestamp sign zero null none nan outlier sample point price amount total unit percent "
    "currency input output result".split()
)
_TAKES_A_NAME: Final = frozenset(
    "parameter argument arg kwarg option keyword flag method function class attribute property field variable "
    "constant member module alias helper".split()
)
_HOLDS_CODE: Final = _CODE | frozenset(
    "class module code signature constructor branch definition test call case condition handler package script".split()
)


def noun_of(word: str) -> Noun:
    """Return what a noun stands for, singular or plural."""
    for singular in _singulars(word):
        for words, noun in ((_CODE, Noun.CODE), (_EITHER, Noun.EITHER), (_DATA, Noun.DATA)):
            if singular in words:
                return noun
    return Noun.UNKNOWN


def takes_name(word: str) -> bool:
    """Return True for a noun that the name of such a thing may follow, as in ``the parameter size``."""
    return word.lower() in _TAKES_A_NAME


def holds_code(word: str) -> bool:
    """Return True for a noun of something that code is taken from."""
    return any(singular in _HOLDS_CODE for singular in _singulars(word))


def _singulars(word: str) -> list[str]:
    lowered = word.lower()
    found = [lowered]
    if lowered.endswith("ies"):
        found.append(lowered[:-3] + "y")
    if lowered.endswith("s") and not lowered.endswith("ss"):
        found += [lowered[:-1], lowered[:-2]]
    return found
