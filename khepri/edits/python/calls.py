"""Finds calls by the name that is called, whoever's it is, and the definitions of that name.

It knows no types: for what rope cannot resolve, so that a change of a signature leaves no call behind in silence.
"""

import ast
from dataclasses import dataclass

from khepri.edits.python.offsets import Offsets
from khepri.edits.python.trees import all_nodes, tree_of

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Call:
    """A call of something of a certain name."""

    line: int
    """From 1."""
    end: int
    """Where the name of what is called ends, in characters."""
    opening: int
    """Where its bracket opens."""
    passed: dict[str, int]
    """The arguments that are passed by name, with the place of each name."""
    by_place: int
    """How many are passed by place."""
    is_method: bool
    """True if it stands behind a dot."""


def calls_of(text: str, name: str) -> list[Call]:
    """Return the calls of ``name`` in a Python text; none in a text that cannot be parsed."""
    offsets = Offsets(text)
    found = []
    for node in _nodes(text):
        if not isinstance(node, ast.Call):
            continue
        # ``Box[int](1)`` is a call of Box.
        func = node.func.value if isinstance(node.func, ast.Subscript) else node.func
        if _called(func) != name:
            continue
        passed = {each.arg: offsets.start(each) for each in node.keywords if each.arg is not None}
        end, opening = offsets.end(func), text.index("(", offsets.end(node.func))
        found.append(Call(node.lineno, end, opening, passed, len(node.args), isinstance(func, ast.Attribute)))
    return found


def definitions_of(text: str, name: str) -> list[Function]:
    """Return the functions and methods called ``name`` in a Python text; none if it cannot be parsed."""
    functions = (node for node in _nodes(text) if isinstance(node, Function))
    return [function for function in functions if function.name == name]


def parameters_of(function: Function) -> list[str]:
    """Return the names of all parameters but ``*args`` and ``**kwargs``."""
    arguments = function.args
    return [each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def _nodes(text: str) -> list[ast.AST]:
    try:
        return list(all_nodes(tree_of(text)))
    except (SyntaxError, ValueError, RecursionError):
        return []


def _called(function: ast.expr) -> str:
    match function:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Call(func=ast.Name(id="type"), args=[ast.Name(id="self" as name)]):
            return f"type({name})"
        case _:
            return ""
