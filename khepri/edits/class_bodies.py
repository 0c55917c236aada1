"""Renames a name where the body of a class reads it before it binds the same name: ``load = load``.

Python reads such a name from around the class, and binds one in it. A library that knows one meaning of a name in each
scope takes both for the class's own.
"""

import ast
from collections.abc import Iterator


def rename_before_bound(text: str, old: str, new: str) -> str:
    """Return a Python text in which what a class reads from around it by the name ``old`` is read as ``new``.

    Args:
        text: A file in which ``old`` was a name of the module, renamed but for these places.
        old: The name as it was.
        new: The name as it is.
    """
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return text
    return replace_names(text, [name for each in _class_bodies(tree) for name in _read_first(each, old)], new)


def kept_before_bound(before: str, text: str, old: str, new: str) -> str:
    """Return a Python text in which a class reads by the name ``old`` what is around it, where only its own is renamed.

    Args:
        before: The file as it was.
        text: The file with ``old`` renamed, as a member of the class and where it was read before that.
        old: The name as it was.
        new: The name of the member as it is.
    """
    try:
        then, now = ast.parse(before), ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return text
    was_read = {node.lineno for each in _class_bodies(then) for node in _read_first(each, old)}
    places = [node for each in _class_bodies(now) for node in _read_first(each, new) if node.lineno in was_read]
    return replace_names(text, places, old)


def replace_names(text: str, names: list[ast.Name], new: str) -> str:
    """Return a text with ``new`` in the place of some names of its tree."""
    lines = text.split("\n")
    for node in sorted(names, key=lambda each: (-each.lineno, -each.col_offset)):
        line = lines[node.lineno - 1].encode()  # the columns of ast are bytes
        lines[node.lineno - 1] = (line[: node.col_offset] + new.encode() + line[node.end_col_offset :]).decode()
    return "\n".join(lines)


def _class_bodies(tree: ast.Module) -> list[list[ast.stmt]]:
    return [node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def _read_first(body: list[ast.stmt], name: str) -> list[ast.Name]:
    """Return the places where a class reads a name before it binds it; none if it never binds it."""
    read: list[ast.Name] = []
    for statement in body:
        found = list(_at_once(statement, name))
        read += [node for node in found if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
        if any(not isinstance(node, ast.Name) or isinstance(node.ctx, ast.Store) for node in found):
            return read
    return []


def _at_once(node: ast.AST, name: str) -> Iterator[ast.AST]:
    """Yield what reads or binds a name as the class is made: not in the bodies of its functions."""
    if isinstance(node, ast.Name) and node.id == name:
        yield node
    is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == name:
        yield node
    for field, value in ast.iter_fields(node):
        if field == "body" and (is_function or isinstance(node, ast.ClassDef)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _at_once(child, name)
