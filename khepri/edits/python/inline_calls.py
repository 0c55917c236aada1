"""The calls of a function that is to be inlined: where they stand, and what they pass."""

import ast
from collections.abc import Container, Iterator

from khepri.edits.python.trees import all_nodes, tree_of


def calls_of(text: str, meant: Container[tuple[int, int]]) -> Iterator[tuple[ast.Call, list[ast.AST]]]:
    """Yield the calls in a Python file whose names end at some lines and columns, each with its parents, inner first.

    Raises:
        SyntaxError: The file is no Python.
    """
    tree = tree_of(text)
    parent_of = {child: parent for parent in all_nodes(tree) for child in ast.iter_child_nodes(parent)}
    for node in all_nodes(tree):
        if isinstance(node, ast.Call) and end_of(node.func) in meant:
            parents: list[ast.AST] = []
            place: ast.AST = node
            while place in parent_of:
                place = parent_of[place]
                parents.append(place)
            yield node, parents


def passed(function: ast.FunctionDef, call: ast.Call) -> dict[str, ast.expr]:
    """Return what a call passes for each parameter, as far as its text tells."""
    places = [each.arg for each in (*function.args.posonlyargs, *function.args.args)]
    values = list(call.args)
    if isinstance(call.func, ast.Attribute) and places[:1] in (["self"], ["cls"]):
        values.insert(0, call.func.value)
    return dict(zip(places, values, strict=False)) | {each.arg: each.value for each in call.keywords if each.arg}


def end_of(name: ast.expr) -> tuple[int, int]:
    """Return the last line and column of a name."""
    assert name.end_lineno is not None
    assert name.end_col_offset is not None
    return name.end_lineno, name.end_col_offset
