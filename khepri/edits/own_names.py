"""Tells where a definition's own name is read as the program runs: by its decorator, or by ``__set_name__``."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from khepri.edits.imports import parsed
from khepri.edits.locate import Target
from khepri.edits.workspace import Workspace

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_NAMES: Final = ("__name__", "__qualname__")


def notes_on_own_name(workspace: Workspace, target: Target, new: str) -> tuple[str, ...]:
    """Return a note on a decorator or a descriptor of the repository that is given the name of what is renamed."""
    notes = []
    for called in sorted(_given_to(target)):
        reading = re.compile(rb"\b(?:def|class)\s+%s\b" % called.encode())
        for path in workspace.files():
            data = workspace.read(path) if path.endswith(".py") else None
            tree = parsed(data) if data is not None and reading.search(data) else None
            for node in ast.walk(tree) if tree is not None else ():
                if (line := _reads_name(node, called)) is not None:
                    notes.append(
                        f"{called} reads the name of what it is given ({path}:{line}), which is {new} now: see what "
                        "it does with it"
                    )
    return tuple(dict.fromkeys(notes))


def _given_to(target: Target) -> Iterator[str]:
    """Yield what decorates a definition, or makes the value of an attribute of a class."""
    try:
        tree = ast.parse(target.source.text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in ast.walk(tree):
        if not target.start_line <= getattr(node, "lineno", 0) <= target.end_line:
            continue
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if node.name == target.name:
                yield from filter(None, map(_last, node.decorator_list))
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=maker))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=maker))
            ) if name == target.name and target.is_member:
                yield _last(maker)


def _reads_name(node: ast.AST, called: str) -> int | None:
    """Return the line where a function reads the name of what it is given, or a class is told it."""
    if isinstance(node, _FUNCTIONS) and node.name == called:
        given = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
        for inner in ast.walk(node):
            match inner:
                case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in given and attr in _NAMES:
                    return inner.lineno
    if isinstance(node, ast.ClassDef) and node.name == called:
        told = (each for each in node.body if isinstance(each, _FUNCTIONS) and each.name == "__set_name__")
        return next((each.lineno for each in told), None)
    return None


def _last(node: ast.expr) -> str:
    match node:
        case ast.Call(func=called):
            return _last(called)
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""
