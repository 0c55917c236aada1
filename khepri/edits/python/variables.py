"""Finds names that no statement declares: variables of a module, fields of a class, and what its methods set."""

import ast
from collections.abc import Iterator

from khepri.edits.locate import Source, Target, find_target
from khepri.edits.python.trees import tree_of
from khepri.edits.refusal import EditRefusedError, Refusal

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
