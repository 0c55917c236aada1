"""Whether the names of a body and of its arguments mean in the place of a call what they meant before."""

import ast
from collections.abc import Container, Iterator, Mapping
from typing import Final

from khepri.edits.python.inline_calls import calls_of, passed

FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
SCOPES: Final = (*FUNCTIONS, *COMPREHENSIONS, ast.ClassDef)


def clashing_call(
    function: ast.FunctionDef,
    text: str,
    meant: Container[tuple[int, int]],
    *,
    definition: tuple[int, int] | None = None,
    known: Mapping[str, bool] | None = None,
) -> tuple[int, str] | None:
    """Return the line of the first call where a name would stand for something else, and the name; None without any.

    Args:
        function: What is to be inlined.
        text: A Python file with calls.
        meant: The ends, as line and column, of the names in it that may mean the function.
        definition: The first and the last line of the function, if it is in this file.
        known: For another file, the names that its top level binds, each with whether it means the same there.

    Raises:
        SyntaxError: The file is no Python.
    """
    own = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    bound = {name for statement in function.body for node in ast.walk(statement) for name in names_bound_by(node)}
    free = _used(function.body) - own - bound
    free |= _used([each for each in (*function.args.defaults, *function.args.kw_defaults) if each is not None])
    foreign = {name for name, is_same in (known or {}).items() if not is_same} & free
    for call, parents in calls_of(text, meant):
        taken = set(foreign)
        scopes = [each for each in parents if isinstance(each, SCOPES)]
        for scope in scopes:
            if definition is not None and _encloses(scope, definition):
                break
            if not isinstance(scope, ast.ClassDef) or scope is scopes[0]:
                taken |= free & bound_in(scope)
        arguments = _used([*passed(function, call).values(), *call.args, *(each.value for each in call.keywords)])
        taken |= arguments & bound
        caller = next((scope for scope in scopes if isinstance(scope, FUNCTIONS)), None)
        if caller is not None and not isinstance(caller, ast.Lambda):
            taken |= (_used(caller.body) - bound_in(caller)) & bound
        if taken:
            return call.lineno, min(taken)
    return None


def bound_in(scope: ast.AST) -> set[str]:
    """Return the names that a scope binds itself."""
    found: set[str] = set()
    elsewhere: set[str] = set()
    queue = list(ast.iter_child_nodes(scope))
    while queue:
        node = queue.pop()
        found.update(names_bound_by(node))
        if isinstance(node, ast.Global | ast.Nonlocal):
            elsewhere.update(node.names)
        if not isinstance(node, SCOPES):
            queue += ast.iter_child_nodes(node)
    return found - elsewhere


def names_bound_by(node: ast.AST) -> Iterator[str]:
    """Yield the names that a node binds."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
        case ast.alias(name=name, asname=other):
            yield other or name.partition(".")[0]


def top_level_names(tree: ast.Module) -> set[str]:
    """Return the names that a module binds at its top level."""
    return bound_in(tree)


def _used(nodes: list[ast.stmt] | list[ast.expr]) -> set[str]:
    return {
        node.id
        for top in nodes
        for node in ast.walk(top)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def _encloses(scope: ast.AST, lines: tuple[int, int]) -> bool:
    start, end = getattr(scope, "lineno", 0), getattr(scope, "end_lineno", 0)
    return bool(start <= lines[0] and lines[1] <= end and (start, end) != lines)
