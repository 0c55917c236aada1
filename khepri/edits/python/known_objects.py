"""Tells what the class of an object is called where the code says it: by an annotation, a check, or what makes it.

Nothing is inferred beyond the scope in which a name is bound.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Final

from khepri.edits.python.bare_names import bare_name
from khepri.edits.python.narrowing import narrowed_names

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_SCOPES: Final = (*_FUNCTIONS, ast.Lambda, ast.ClassDef)
_EXPECTING: Final = ("raises", "assertRaises", "assertRaisesRegex")
_WRAPPERS: Final = ("Optional", "Final", "ClassVar", "Annotated")


def named_classes(tree: ast.Module) -> dict[ast.expr, str]:
    """Return the names that are read in a file, each with what the class of its object is called there, dotted."""
    return {**dict(_typed(tree, ())), **dict(narrowed_names(tree))}


def caught_objects(tree: ast.Module) -> dict[ast.expr, str]:
    """Return what tests read of an error that they expect, ``e.value`` or ``e.exception``, each with its class."""
    found: dict[ast.expr, str] = {}
    for scope in ast.walk(tree):
        if isinstance(scope, _FUNCTIONS):
            for written, name, line in _expected(scope):
                for node in ast.walk(scope):
                    match node:
                        case ast.Attribute(value=ast.Name(id=read), attr="value" | "exception") if read == name:
                            # A later one of the same name counts from where it stands.
                            if node.lineno >= line:
                                found[node] = written
    return found


def _expected(scope: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[str, str, int]]:
    """Return the classes of the errors that a function expects, each with what it is called there, by their lines."""
    found = []
    for node in ast.walk(scope):
        match node:
            case ast.withitem(
                context_expr=ast.Call(
                    func=ast.Name(id=called) | ast.Attribute(attr=called), args=[expected, *_]
                ) as call,
                optional_vars=ast.Name(id=name),
            ) if called in _EXPECTING and (written := _plain(expected)):
                found.append((written, name, call.lineno))
    return sorted(found, key=lambda each: each[2])


def _typed(node: ast.AST, scopes: tuple[Mapping[str, str], ...]) -> Iterator[tuple[ast.Name, str]]:
    if isinstance(node, (*_SCOPES, ast.Module)) and not isinstance(node, ast.ClassDef):
        scopes = (*scopes, dict(_bound(node)))
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load):
            written = next((scope[child.id] for scope in reversed(scopes) if child.id in scope), "")
            if written:
                yield child, written
        yield from _typed(child, scopes)


def _bound(scope: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each name that a scope binds, with the class of its object; empty if that is not said, or not the same."""
    found: dict[str, set[str]] = {}
    if isinstance(scope, (*_FUNCTIONS, ast.Lambda)):
        for each in ast.walk(scope.args):
            if isinstance(each, ast.arg):
                found.setdefault(each.arg, set()).add(_plain(each.annotation))
    said: set[ast.AST] = set()
    for node in _own(scope):
        match node:
            case ast.AnnAssign(target=ast.Name(id=name) as target, annotation=annotation):
                found.setdefault(name, set()).add(_plain(annotation))
                said.add(target)
            case ast.Assign(targets=[ast.Name(id=name) as target], value=ast.Call(func=function)):
                found.setdefault(name, set()).add(_plain(function))
                said.add(target)
            case ast.For(target=ast.Name(id=name) as target, iter=ast.Name() | ast.Attribute() as members) if bare_name(
                members
            )[:1].isupper():
                # A class that is gone through is an enumeration.
                found.setdefault(name, set()).add(_plain(members))
                said.add(target)
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if node not in said:
                found.setdefault(name, set()).add("")
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.setdefault(name, set()).add("")
            case ast.alias(name=name, asname=other):
                found.setdefault(other or name.partition(".")[0], set()).add("")
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.setdefault(name, set()).add("")
    return ((name, written.pop() if len(written) == 1 else "") for name, written in found.items())


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield what stands in a scope, statements before their parts, and not what is in one inside."""
    queue = [scope.body] if isinstance(scope, ast.Lambda) else list(getattr(scope, "body", ()))[::-1]
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, (*_SCOPES, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            queue += [*ast.iter_child_nodes(node)][::-1]


def _plain(node: ast.expr | None) -> str:
    """Return what a class is called in an annotation, without quotes, ``None`` and what only wraps it."""
    match node:
        case ast.Constant(value=str(written)):
            try:
                return _plain(ast.parse(written.strip(), mode="eval").body)
            except (SyntaxError, ValueError, RecursionError):
                return ""
        case ast.BinOp(left=left, op=ast.BitOr(), right=ast.Constant(value=None)):
            return _plain(left)
        case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner) if name in _WRAPPERS:
            return _plain(inner.elts[0] if isinstance(inner, ast.Tuple) else inner)
        case ast.Name() | ast.Attribute():
            written = ast.unparse(node)
            return written if re.fullmatch(r"\w+(\.\w+)*", written) else ""
    return ""
