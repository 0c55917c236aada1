"""Whether what a body and its arguments do is done as often and in the same order in the place of a call.

The library writes all but the result of a body before the statement that holds the call, and each argument where its
parameter was used.
"""

import ast
from collections.abc import Container, Iterator
from itertools import pairwise
from typing import Final

from khepri.edits.python.inline_calls import calls_of, end_of, passed

ACTING: Final = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
"""Expressions that may do something, and so have to be evaluated once."""
_SIMPLE: Final = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr, ast.Raise, ast.Assert, ast.Delete)
_LATER: Final = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

_HARMLESS: Final = frozenset(
    "abs all any bool bytes dict divmod enumerate float format frozenset hash hex id int isinstance issubclass len "
    "list max min oct ord print range repr reversed round set sorted str sum tuple type zip".split()
)
"""Functions of Python's own that change none of what they are given."""


def displaced_call(function: ast.FunctionDef, text: str, meant: Container[tuple[int, int]]) -> int | None:
    """Return the line of the first call that would act at another time with the body in its place; None without any.

    Args:
        function: What is to be inlined.
        text: A Python file with calls.
        meant: The ends, as line and column, of the names in it that may mean the function.

    Raises:
        SyntaxError: The file is no Python.
    """
    body = [each for each in function.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    is_expression = len(body) == 1 and isinstance(body[0], ast.Return)
    lines = text.encode().split(b"\n")
    for call, parents in calls_of(text, meant):
        if not is_expression and body and not _is_first(call, parents, lines):
            return call.lineno
        if not _keeps_order(function, call) or not _keeps_state(function, call):
            return call.lineno
    return None


def _is_first(call: ast.Call, parents: list[ast.AST], lines: list[bytes]) -> bool:
    """Return True if nothing is done in a statement before a call, and the call is made whenever the statement runs."""
    statement = next((each for each in parents if isinstance(each, ast.stmt)), None)
    if statement is None or lines[statement.lineno - 1][: statement.col_offset].strip():
        return False
    if not isinstance(statement, (*_SIMPLE, ast.If, ast.For, ast.With)) or _is_elif(statement, lines):
        return False
    start = (call.lineno, call.col_offset)
    if any(isinstance(node, ACTING) and end_of(node) <= start for node in ast.walk(statement)):
        return False
    path = [call, *parents[: parents.index(statement) + 1]]
    return all(_always(child, parent) for child, parent in pairwise(path))


def _is_elif(statement: ast.stmt, lines: list[bytes]) -> bool:
    return isinstance(statement, ast.If) and lines[statement.lineno - 1].lstrip().startswith(b"elif")


def _always(child: ast.AST, parent: ast.AST) -> bool:
    """Return True if a node is evaluated whenever the one around it is, once and at once."""
    match parent:
        case ast.BoolOp(values=[first, *_]):
            return child is first
        case ast.IfExp(test=first):
            return child is first
        case ast.Compare(left=first, comparators=[second, *_]):
            return child is first or child is second
        case ast.Assert(test=first):
            return child is first
        case ast.With(items=[first, *_]):
            return child is first
        case ast.JoinedStr() | ast.FormattedValue():
            return True
    return not isinstance(parent, _LATER)


def _keeps_order(function: ast.FunctionDef, call: ast.Call) -> bool:
    """Return True if what is passed and acts would still come before all that the body does, in the same order."""
    given = {name: value for name, value in passed(function, call).items() if _acts(value)}
    if not given:
        return True
    uses = {
        node.id: (node, parents)
        for statement in function.body
        for node, parents in _with_parents(statement)
        if isinstance(node, ast.Name) and node.id in given
    }
    if not all(all(_always(*pair) and _is_plain(pair[1]) for pair in _pairs(*use)) for use in uses.values()):
        return False
    done = [end_of(node) for statement in function.body for node in ast.walk(statement) if isinstance(node, ACTING)]
    stored = [
        end_of(node)
        for statement in function.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute | ast.Subscript) and not isinstance(node.ctx, ast.Load)
    ]
    starts = {name: (node.lineno, node.col_offset) for name, (node, _) in uses.items()}
    statement_of = {name: ([node, *parents][-1]) for name, (node, parents) in uses.items()}
    for name, start in starts.items():
        before = [place for place in stored if place < (getattr(statement_of[name], "lineno", 0), 0)]
        if before or any(end <= start for end in done):
            return False
    written = sorted(starts, key=lambda name: (given[name].lineno, given[name].col_offset))
    return written == sorted(starts, key=lambda name: starts[name])


def _keeps_state(function: ast.FunctionDef, call: ast.Call) -> bool:
    """Return True if nothing that the body does before it uses what is passed may change an attribute or item in it."""
    given = {name for name, value in passed(function, call).items() if _reads_state(value)}
    for top in function.body if given else ():
        for node, parents in _with_parents(top):
            if isinstance(node, ast.Name) and node.id in given:
                repeated = [each for each in parents if isinstance(each, ast.For | ast.While | ast.comprehension)]
                last = end_of(repeated[-1].iter) if repeated and isinstance(repeated[-1], ast.For) else None
                is_before = last is not None and end_of(node) <= last
                stretch = repeated[-1] if repeated and not is_before else None
                start = next((each.lineno, each.col_offset) for each in parents if isinstance(each, ast.stmt))
                if any(_may_change(each, node, start, stretch) for every in function.body for each in ast.walk(every)):
                    return False
    return True


def _reads_state(value: ast.expr) -> bool:
    return any(isinstance(node, ast.Attribute | ast.Subscript) for node in ast.walk(value))


def _may_change(node: ast.AST, use: ast.Name, start: tuple[int, int], stretch: ast.AST | None) -> bool:
    """Return True if something is done that may change an object, before a use or in the loop around it."""
    match node:
        case ast.Call(func=ast.Name(id=name)) if name in _HARMLESS:
            return False
        case ast.Call() | ast.Await() | ast.Yield() | ast.YieldFrom():
            is_done = end_of(node) <= (use.lineno, use.col_offset)
        case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
            # What the statement of the use stores itself, it stores after it.
            is_done = end_of(node) <= start
        case _:
            return False
    return is_done or (stretch is not None and any(each is node for each in ast.walk(stretch)))


def _is_plain(node: ast.AST) -> bool:
    """Return False for a statement that may not run what is in it."""
    return not isinstance(node, ast.stmt) or isinstance(node, _SIMPLE)


def _pairs(node: ast.AST, parents: list[ast.AST]) -> Iterator[tuple[ast.AST, ast.AST]]:
    path = [node, *parents]
    return pairwise(path)


def _acts(value: ast.expr) -> bool:
    return any(isinstance(node, ACTING) for node in ast.walk(value))


def _with_parents(top: ast.AST) -> Iterator[tuple[ast.AST, list[ast.AST]]]:
    """Yield the nodes of a tree, each with those around it, inner first."""
    queue: list[tuple[ast.AST, list[ast.AST]]] = [(top, [])]
    while queue:
        node, parents = queue.pop()
        yield node, parents
        queue += [(child, [node, *parents]) for child in ast.iter_child_nodes(node)]
