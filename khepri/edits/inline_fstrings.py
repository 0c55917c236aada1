"""Writes what a call passes so that it can stand in the f-strings of a body.

Before Python 3.12 neither the quotes of an f-string nor a backslash may stand in its braces.
"""

import ast
import io
import re
import tokenize
from typing import Final

_OPENING: Final = re.compile(r"[A-Za-z]{0,2}([\"'])")
_WHOLE: Final = (ast.Name, ast.Attribute, ast.Constant, ast.JoinedStr, ast.Call, ast.Subscript)
"""What stands in braces as it is: other expressions may begin with a brace, or have a colon or a ``!`` in them."""


def filling(body: str, name: str, written: str) -> str | None:
    """Return how an expression is to be written to take the place of a name; None if an f-string has no room for it.

    Args:
        body: Statements.
        name: What stands in them for the expression.
        written: The expression, as it is.
    """
    try:
        tree = ast.parse(body)
        value = ast.parse(f"({written})", mode="eval").body
    except SyntaxError:
        return written
    around = [
        ast.get_source_segment(body, each) or ""
        for each in ast.walk(tree)
        if isinstance(each, ast.JoinedStr) and any(_is_name(inner, name) for inner in ast.walk(each))
    ]
    if not around:
        return written
    if any(re.search(rf"\{{\s*{re.escape(name)}\s*=(?!=)", each) for each in around):
        return None  # ``f"{name=}"`` shows the name itself.
    taken = {quote for each in around for quote in _quotes(each)}
    plain = ast.unparse(value)
    swapped = plain.translate(str.maketrans("'", '"')) if '"' not in plain else plain
    for each in (written, plain, swapped):
        if not any(character in each for character in (*taken, "\\", "\n", "#")):
            return each if isinstance(value, _WHOLE) else f"({each})"
    return None


def _quotes(strings: str) -> set[str]:
    """Return what kinds of quotes are around some strings."""
    tokens = tokenize.generate_tokens(io.StringIO(f"({strings})").readline)
    return {match[1] for each in tokens if (match := _OPENING.match(each.string))}


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
