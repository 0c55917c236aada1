"""Reads what a call passes by name: an argument, a key that is written in it (``f(**{"name": 1})``), or anything."""

import ast
from collections.abc import Collection, Iterator

from khepri.edits.python.offsets import Offsets
from khepri.edits.python.trees import all_nodes, tree_of


def may_pass(call: ast.Call, name: str) -> bool:
    """Tell if a call may pass something of a name by ``**``: it does, or nobody can tell what is among it."""
    return any(_may_hold(each.value, name) for each in call.keywords if each.arg is None)


def passed_names(call: ast.Call, name: str) -> Iterator[ast.keyword | ast.Constant]:
    """Yield where a call passes something by a name: as an argument, or as a key behind ``**`` that is a plain text."""
    for each in call.keywords:
        match each:
            case ast.keyword(arg=str(passed)):
                if passed == name:
                    yield each
            case ast.keyword(value=given):
                yield from _keys(given, name)


def passed_places(text: str, openings: Collection[int], name: str) -> list[int]:
    """Return where some calls of a Python text pass a name, by itself or as a key behind ``**``, in characters.

    Args:
        text: The text; one that cannot be parsed has none.
        openings: Where the brackets of the calls open.
        name: The name.
    """
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError):
        tree = None
    offsets = Offsets(text)
    found = []
    for node in all_nodes(tree) if tree is not None else ():
        if isinstance(node, ast.Call) and text.find("(", offsets.end(node.func)) in openings:
            for key in passed_names(node, name):
                start = offsets.start(key) + isinstance(key, ast.Constant)
                found += [start] * text.startswith(name, start)
    return found


def _may_hold(given: ast.expr, name: str) -> bool:
    match given:
        case ast.Dict(keys=keys, values=values):
            return any(
                _may_hold(value, name) if key is None else not isinstance(key, ast.Constant) or key.value == name
                for key, value in zip(keys, values, strict=True)
            )
        case ast.Call(func=ast.Name(id="dict"), args=[], keywords=keywords):
            return any(_may_hold(each.value, name) if each.arg is None else each.arg == name for each in keywords)
    return True


def _keys(given: ast.expr, name: str) -> Iterator[ast.keyword | ast.Constant]:
    match given:
        case ast.Call(func=ast.Name(id="dict"), args=[]):
            yield from passed_names(given, name)
        case ast.Dict(keys=keys, values=values):
            for key, value in zip(keys, values, strict=True):
                if key is None:
                    yield from _keys(value, name)
                elif isinstance(key, ast.Constant) and key.value == name and _is_plain(key, name):
                    yield key


def _is_plain(key: ast.Constant, name: str) -> bool:
    """Tell if a text is the name between two quotes, and not written in any other way."""
    return key.lineno == key.end_lineno and (key.end_col_offset or 0) - key.col_offset == len(name.encode()) + 2
