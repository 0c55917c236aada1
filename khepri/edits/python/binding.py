"""Which names are bound for sure once some statements of Python have run to their end."""

import ast
from collections.abc import Iterator, Sequence
from typing import Final

_NESTED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.While)


def surely_bound(statements: Sequence[ast.stmt], known: frozenset[str] = frozenset()) -> frozenset[str] | None:
    """Return the names that are bound at the end of statements, or None if that is never reached.

    Args:
        statements: What runs.
        known: The names that are bound before.
    """
    for statement in statements:
        after = _after(statement, known)
        if after is None:
            return None
        known = after
    return known


def surely_bound_before(statements: Sequence[ast.stmt], place: ast.stmt, known: frozenset[str]) -> frozenset[str]:
    """Return the names that are bound when a statement among, or inside, others is reached."""
    for statement in statements:
        if statement is place:
            return known
        if any(node is place for node in ast.walk(statement)):
            if isinstance(statement, ast.With | ast.AsyncWith | ast.For | ast.AsyncFor):
                known |= (
                    stored_in([statement]) - stored_in(statement.body) - stored_in(getattr(statement, "orelse", []))
                )
            block = next(block for block in _blocks(statement) if any(place in ast.walk(each) for each in block))
            return surely_bound_before(block, place, known)
        known = _after(statement, known) or known
    return known


def stored_in(nodes: Sequence[ast.AST]) -> frozenset[str]:
    """Return the names that code binds, but not in functions and classes inside it."""
    found: set[str] = set()
    queue = list(nodes)
    while queue:
        node = queue.pop()
        match node:
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.add(other or name.partition(".")[0])
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.add(name)
        if not isinstance(node, _NESTED):
            queue += ast.iter_child_nodes(node)
    return frozenset(found)


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", []), *getattr(statement, "cases", [])):
        yield part.body


def _after(statement: ast.stmt, known: frozenset[str]) -> frozenset[str] | None:
    match statement:
        case ast.Return() | ast.Raise() | ast.Break() | ast.Continue():
            return None
        case ast.If(test=test, body=body, orelse=orelse):
            known |= _named(test)
            return _either([surely_bound(body, known), surely_bound(orelse, known)])
        case ast.For() | ast.AsyncFor() | ast.While():
            return known
        case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
            before = known | stored_in([each.optional_vars for each in items if each.optional_vars is not None])
            inside = surely_bound(body, before)
            # Some leave their body on an error and go on.
            return before if "suppress" in ast.unparse(statement.items[0]) else inside
        case ast.Try(body=body, handlers=handlers, orelse=orelse, finalbody=finalbody):
            inside = surely_bound([*body, *orelse], known)
            end = _either([inside, *(surely_bound(each.body, known) for each in handlers)])
            last = surely_bound(finalbody, known)
            return None if end is None or last is None else end | last
        case ast.Match(cases=cases):
            ends = [surely_bound(each.body, known | stored_in([each.pattern])) for each in cases]
            is_whole = any(isinstance(each.pattern, ast.MatchAs) and each.pattern.pattern is None for each in cases)
            return _either(ends if is_whole else [*ends, known])
        case ast.Delete(targets=targets):
            return known - {each.id for each in targets if isinstance(each, ast.Name)}
        case ast.AnnAssign(value=None):
            return known
        case ast.Assign() | ast.AugAssign() | ast.AnnAssign() | ast.Expr():
            return known | stored_in([each for each in ast.iter_child_nodes(statement) if not _may_stop(each)])
    return known | stored_in([statement])


def _named(test: ast.expr) -> frozenset[str]:
    """Return what a condition binds that is always looked at."""
    if isinstance(test, ast.NamedExpr):
        return stored_in([test.target])
    if isinstance(test, ast.Compare):
        return _named(test.left)
    return _named(test.values[0]) if isinstance(test, ast.BoolOp) else frozenset()


def _may_stop(node: ast.AST) -> bool:
    """Return True for an expression that may leave a part of itself out."""
    return isinstance(node, ast.BoolOp | ast.IfExp | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)


def _either(ends: Sequence[frozenset[str] | None]) -> frozenset[str] | None:
    reached = [each for each in ends if each is not None]
    return frozenset.intersection(*reached) if reached else None
