"""Finds where a function looks, by a text, for one of the arguments that it takes with ``**``: ``options["size"]``."""

import ast
from collections.abc import Iterator
from typing import Final

from khepri.edits.python.calls import Function

_METHODS: Final = frozenset({"get", "pop", "setdefault", "__contains__"})


def starred_keys(function: Function, name: str) -> Iterator[ast.Constant]:
    """Yield the texts by which a function reads, sets or tests an argument of a name among those of ``**``."""
    if function.args.kwarg is None:
        return
    starred = function.args.kwarg.arg
    for node in (each for statement in function.body for each in ast.walk(statement)):
        match node:
            case ast.Subscript(value=ast.Name(id=of), slice=ast.Constant(value=asked) as key):
                pass
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=of), attr=method), args=[ast.Constant(asked) as key, *_]
            ):
                if method not in _METHODS:
                    continue
            case ast.Compare(ast.Constant(value=asked) as key, [ast.In() | ast.NotIn()], [ast.Name(id=of)]):
                pass
            case _:
                continue
        if of == starred and asked == name:
            yield key
