"""Finds where a name still stands in the strings and comments of Python text after it was renamed.

Whether it means there what was renamed cannot be told; so it is told where it stands, and nothing is changed.
"""

import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_TEXTS: Final = frozenset({tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)})
_BEFORE_A_STATEMENT: Final = frozenset({tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT})
_NO_CODE: Final = frozenset({tokenize.NL, tokenize.COMMENT})


@dataclass(frozen=True)
class Leftover:
    """One place of a name."""

    line: int
    """From 1."""
    is_prose: bool
    """True in a comment or docstring, which no program reads."""


def leftovers(text: str, name: str, *, is_module: bool = False) -> tuple[Leftover, ...]:
    """Return where a name stands in strings and comments, in the order of the text.

    A name that is also a word, such as ``get``, counts only where it is quoted, called or read in an example; that of a
    module also at the beginning of a dotted path.
    """
    if name not in text:
        return ()
    pattern = name_pattern(name, is_module=is_module)
    found = []
    for token, is_prose in _texts(text):
        for match in pattern.finditer(token.string):
            found.append(Leftover(token.start[0] + token.string.count("\n", 0, match.start()), is_prose))
    return tuple(found)


def name_pattern(name: str, *, is_module: bool = False) -> re.Pattern[str]:
    """Return what finds a name in a text: one that is also a word only where it is quoted, called or in an example."""
    word = re.escape(name)
    if "_" in name.strip("_") or name != name.lower():
        return re.compile(rf"(?<!\w){word}(?!\w)")
    in_example = rf"^[ \t]*(?:>>>|\.\.\.) .*(?<=[\w\])]\.){word}(?!\w)"
    is_quoted = rf"(?<=[\"'`.:]){word}(?=[\"'`(])"
    if is_module:
        is_quoted += rf"|(?<=[\"'`]){word}(?=(?:\.\w+)+[\"'`])"
    return re.compile(rf"{is_quoted}|(?<!\w){word}(?=\()|{in_example}", re.MULTILINE)


def _texts(text: str) -> Iterator[tuple[tokenize.TokenInfo, bool]]:
    before = tokenize.NEWLINE
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token, True
            elif token.type in _TEXTS:
                yield token, before in _BEFORE_A_STATEMENT
            if token.type not in _NO_CODE:
                before = token.type
    except (tokenize.TokenError, SyntaxError):
        return
