"""Finds names that no statement declares: variables of a module, fields of a class, and what its methods set."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from khepri.edits.locate import Source, Target, find_target
from khepri.edits.python.class_bodies import replace_names
from khepri.edits.python.passed_keys import passed_names
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.refusal import EditRefusedError, Refusal

_MAKERS: Final = frozenset(
    "dataclass NamedTuple TypedDict BaseModel define frozen attrs s dataclass_transform Struct".split()
)
"""What makes a constructor of the fields of a class."""
_COPIED: Final = re.compile(r"\b(?:_?replace|evolve)\((?:[^()]|\([^()]*\))*\Z")
_Place = ast.Name | ast.Attribute


def find_variable(source: Source, symbol: str) -> Target | None:
    """Return the first place that binds a variable of a Python file, or an attribute ``Class.name``; None for none."""
    return next((each for each in variables(source) if each.symbol == symbol), None)


def find_definition_or_variable(source: Source, symbol: str) -> Target:
    """Return a definition of a Python file, or else a variable or attribute.

    One that is called exactly so comes before a member that has only its last word from it.

    Raises:
        EditRefusedError: As for ``find_target``.
    """
    try:
        target = find_target(source, symbol)
    except EditRefusedError as error:
        is_other = error.reason in (Refusal.NO_TARGET, Refusal.AMBIGUOUS)
        variable = find_variable(source, symbol) if is_other else None
        if variable is None:
            raise
        return variable
    return target if target.symbol == symbol else find_variable(source, symbol) or target


def variables(source: Source) -> Iterator[Target]:
    """Yield every variable of a Python module and every attribute of its classes once, by its first binding."""
    try:
        tree = tree_of(source.text)
    except (SyntaxError, ValueError, RecursionError):
        return
    lines, seen = source.text.split("\n"), set()
    for around, node in _bindings(tree.body, ()):
        name = node.id if isinstance(node, ast.Name) else node.attr
        symbol = ".".join([*around, name])
        if symbol not in seen:
            seen.add(symbol)
            yield Target(
                source,
                symbol,
                name,
                "variable",
                node.lineno,
                node.end_lineno or node.lineno,
                _offset(node, lines, name),
            )


def is_field(target: Target) -> bool:
    """Tell if an attribute is a field that the class is made with: of a dataclass, a ``NamedTuple`` or their like."""
    try:
        tree = tree_of(target.source.text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    for node in all_nodes(tree):
        if isinstance(node, ast.ClassDef) and node.name == target.symbol.rpartition(".")[0].rpartition(".")[2]:
            made_by = [ast.unparse(each) for each in (*node.decorator_list, *node.bases)]
            is_made = any(each.partition("(")[0].rpartition(".")[2] in _MAKERS for each in made_by)
            annotated = (each.target for each in node.body if isinstance(each, ast.AnnAssign))
            return is_made and any(isinstance(each, ast.Name) and each.id == target.name for each in annotated)
    return False


def rename_keywords(text: str, ends: set[tuple[int, int]], old: str, new: str) -> str:
    """Return a Python text with an argument of some calls renamed.

    Args:
        text: A valid Python file.
        ends: Last line and column of the names of what is called.
        old: The argument as it was.
        new: The argument as it is.
    """
    places = []
    for node in all_nodes(tree_of(text)):
        if isinstance(node, ast.Call) and (node.func.end_lineno, node.func.end_col_offset) in ends:
            for each in passed_names(node, old):
                start, line = each.col_offset + isinstance(each, ast.Constant), each.lineno
                end = start + len(old.encode())
                places.append(ast.Name(old, lineno=line, col_offset=start, end_lineno=line, end_col_offset=end))
    return replace_names(text, places, new)


def copies_with(text: str, place: int) -> bool:
    """Tell if the argument at a place of a text belongs to a call that copies an object with other fields."""
    return _COPIED.search(text[max(0, place - 400) : place]) is not None


def _bindings(body: list[ast.stmt], around: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], _Place]]:
    for statement in body:
        if isinstance(statement, ast.ClassDef):
            yield from _bindings(statement.body, (*around, statement.name))
        elif isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _set_by(statement, around)
        else:
            yield from ((around, node) for node in _bound_by(statement))


def _bound_by(node: ast.AST) -> Iterator[ast.Name]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            yield from _bound_by(child)


def _set_by(
    method: ast.FunctionDef | ast.AsyncFunctionDef, around: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], _Place]]:
    """Yield what a method sets on its object."""
    parameters = [*method.args.posonlyargs, *method.args.args]
    for node in ast.walk(method) if around and parameters else ():
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            if node.value.id == parameters[0].arg:
                yield around, node


def _offset(node: _Place, lines: list[str], name: str) -> int:
    """Return where a name stands in its text, in characters."""
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    line = lines[node.end_lineno - 1].encode()[: node.end_col_offset].decode()
    return sum(len(each) + 1 for each in lines[: node.end_lineno - 1]) + len(line) - len(name)
