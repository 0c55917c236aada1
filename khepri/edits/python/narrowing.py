"""Tells of which class an object is where the code has made sure of it with ``isinstance``.

Only names that a function binds nowhere but in its head are looked at: another object may have them otherwise.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from khepri.edits.python.binding import stored_in

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_LEAVING: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)


def narrowed_names(tree: ast.Module) -> Iterator[tuple[ast.Name, str]]:
    """Yield the names that are read where their class is sure, each with what it is called there, outer ones first."""
    for scope in ast.walk(tree):
        if isinstance(scope, _FUNCTIONS):
            bound = stored_in(scope.body)
            for name, written, sure in _in_block(scope.body):
                for part in sure:
                    for node in ast.walk(part):
                        if isinstance(node, ast.Name) and node.id == name and name not in bound:
                            yield node, written


_Sure = tuple[str, str, Sequence[ast.AST]]
"""A name, its class, and the code in which that is so."""


def _in_block(block: Sequence[ast.stmt]) -> Iterator[_Sure]:
    for index, statement in enumerate(block):
        for node in ast.walk(statement):
            if isinstance(node, ast.BoolOp):
                yield from _in_operands(node)
            elif isinstance(node, ast.IfExp):
                yield from ((name, written, [node.body]) for name, written in _held(node.test, is_true=True))
        match statement:
            case ast.If(test=test, body=body) if isinstance(body[-1], _LEAVING):
                yield from ((name, written, block[index + 1 :]) for name, written in _held(test, is_true=False))
            case ast.Assert(test=test):
                yield from ((name, written, block[index + 1 :]) for name, written in _held(test, is_true=True))
        if isinstance(statement, ast.If | ast.While):
            yield from ((name, written, statement.body) for name, written in _held(statement.test, is_true=True))
        for inner in ("body", "orelse", "finalbody"):
            if not isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
                yield from _in_block(getattr(statement, inner, None) or [])
        for handler in getattr(statement, "handlers", []):
            yield from _in_block(handler.body)


def _in_operands(node: ast.BoolOp) -> Iterator[_Sure]:
    for index, each in enumerate(node.values):
        for name, written in _held(each, is_true=isinstance(node.op, ast.And)):
            yield name, written, node.values[index + 1 :]


def _held(test: ast.expr, *, is_true: bool) -> Iterator[tuple[str, str]]:
    """Yield the names of which a test, if it is true or false, says the class."""
    match test:
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=name), ast.Name() | ast.Attribute() as of]):
            if is_true:
                yield name, ast.unparse(of)
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            yield from _held(inner, is_true=not is_true)
        case ast.BoolOp(op=operator, values=values) if isinstance(operator, ast.And) is is_true:
            for each in values:
                yield from _held(each, is_true=is_true)
