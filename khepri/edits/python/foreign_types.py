"""Tells which objects of a Python file are of a type from outside: made by a class that is imported, or annotated so.

Types are not inferred: what a name is given in its own scope, an attribute in its own class, and what a function says
that it returns, is all that counts.
"""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from itertools import pairwise
from typing import Final

from khepri.edits.python.trees import all_nodes

_Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
_Scope = _Function | _Comprehension | ast.ClassDef | ast.Module
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef, ast.Module)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_CLASS: Final = re.compile(r"_*[A-Z]")
_MAKERS: Final = frozenset({"open", "logging.getLogger", "re.compile", "sqlite3.connect", "subprocess.run"})
"""Functions that make an object of a type from outside."""
_MAKING_SEVERAL: Final = frozenset({"dataclasses.fields", "os.scandir", "ast.walk", "ast.iter_child_nodes"})
"""Functions that make several of them."""
_LISTING: Final = frozenset({"iterdir", "glob", "rglob"})
"""Methods of such objects that list more of their kind."""
_REORDERING: Final = frozenset({"sorted", "list", "tuple", "set", "reversed", "iter"})
_STANDING_FOR_OURS: Final = frozenset({"typing", "typing_extensions", "collections", "abc", "unittest", "mock"})
"""Modules whose types say nothing of where an object comes from: any, what can be iterated, a mock."""
_PLAIN: Final = frozenset(
    {"staticmethod", "classmethod", "property", "cached_property", "cache", "lru_cache", "override"}
)
"""Decorators that leave what is returned."""
_MOST_STEPS: Final = 8


class Origin(Enum):
    """Where the type of an object comes from."""

    OUTSIDE = "outside"
    MAYBE_OUTSIDE = "maybe outside"
    """From there, or of a type that nobody knows."""
    UNKNOWN = "unknown"
    NOTHING = "nothing"
    """It is ``None``, which says nothing of what it is otherwise."""


class ForeignTypes:
    """The objects of one file. Immutable but for what it remembers."""

    def __init__(
        self, tree: ast.Module, outside: Mapping[str, str], returned: Callable[[str], Origin] = lambda _: Origin.UNKNOWN
    ) -> None:
        """Remember a file.

        Args:
            tree: The file.
            outside: The names that it has from outside, each with what it stands for, dotted.
            returned: Tells what a function returns that the file imports from the repository, by its dotted name here.
        """
        self._tree, self._outside, self._returned_there = tree, outside, returned
        self._classes = {node.name: node for node in all_nodes(tree) if isinstance(node, ast.ClassDef)}
        self._bound: dict[_Scope, dict[str, list[Origin]]] = {}
        self._fields: dict[ast.ClassDef, dict[str, list[Origin]]] = {}

    def uses(self, name: str) -> Iterator[tuple[ast.Attribute, Origin]]:
        """Yield every use of an attribute of this name, with where the object comes from that has it."""
        for node, scopes in _attributes(self._tree, (self._tree,)):
            if node.attr == name:
                yield node, self._origin(node.value, scopes)

    def _origin(self, node: ast.expr, scopes: tuple[_Scope, ...], steps: int = 0) -> Origin:
        if steps > _MOST_STEPS:
            return Origin.UNKNOWN
        match node:
            case ast.Constant(value=None):
                return Origin.NOTHING
            case ast.Call():
                return self._made_by(node.func, scopes)
            case ast.Await(value=value) | ast.NamedExpr(value=value):
                return self._origin(value, scopes, steps + 1)
            case ast.BoolOp(values=values):
                return _joined([self._origin(each, scopes, steps + 1) for each in values])
            case ast.IfExp(body=first, orelse=second):
                return _joined([self._origin(each, scopes, steps + 1) for each in (first, second)])
            case ast.Name(id=name):
                return self._named(name, scopes, steps)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                owner = self._class_of(name, scopes)
                return self._field(owner, attribute, steps) if owner is not None else Origin.UNKNOWN
        return Origin.UNKNOWN

    def _element(self, node: ast.expr, scopes: tuple[_Scope, ...], steps: int) -> Origin:
        """Return where what an expression consists of comes from."""
        match node:
            case ast.Call(func=ast.Name(id=name), args=[inner, *_]) if name in _REORDERING:
                return self._element(inner, scopes, steps)
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name in _LISTING:
                is_outside = self._origin(owner, scopes, steps) is Origin.OUTSIDE
                return Origin.OUTSIDE if is_outside else Origin.MAYBE_OUTSIDE
            case ast.Call(func=function) if self._meant(function) in _MAKING_SEVERAL:
                return Origin.OUTSIDE
        return Origin.UNKNOWN

    def _named(self, name: str, scopes: tuple[_Scope, ...], steps: int) -> Origin:
        for depth in range(len(scopes), 0, -1):
            scope = scopes[depth - 1]
            if isinstance(scope, ast.ClassDef) and depth < len(scopes):
                continue
            if name in (bound := self._bindings(scope, scopes[:depth], steps)):
                return _joined(bound[name])
        return Origin.UNKNOWN

    def _bindings(self, scope: _Scope, scopes: tuple[_Scope, ...], steps: int) -> dict[str, list[Origin]]:
        """Return what each name is that a scope binds itself."""
        if scope in self._bound:
            return self._bound[scope]
        # What is bound to itself, directly or not, has no origin while it is looked for.
        found = self._bound[scope] = {}
        annotated: dict[str, list[Origin]] = {}
        known: set[ast.AST] = set()

        def note(target: ast.expr, origin: Origin, into: dict[str, list[Origin]] = found) -> None:
            if isinstance(target, ast.Name):
                known.add(target)
                into.setdefault(target.id, []).append(origin)

        if isinstance(scope, _Function):
            found |= {each.arg: [self._annotated(each.annotation)] for each in _arguments(scope)}
        if isinstance(scope, _Comprehension):
            for generator in scope.generators:
                note(generator.target, self._element(generator.iter, scopes, steps + 1))
        for node in _own(scope):
            match node:
                case ast.AnnAssign(target=target, annotation=annotation):
                    note(target, self._annotated(annotation), annotated)
                case ast.Assign(targets=targets, value=value):
                    for each in targets:
                        note(each, self._origin(value, scopes, steps + 1))
                case ast.NamedExpr(target=target, value=value):
                    note(target, self._origin(value, scopes, steps + 1))
                case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                    note(target, self._element(value, scopes, steps + 1))
                case ast.withitem(context_expr=value, optional_vars=ast.Name() as target):
                    note(target, self._origin(value, scopes, steps + 1))
                case ast.Name(id=name, ctx=ast.Store()) if node not in known:
                    found.setdefault(name, []).append(Origin.UNKNOWN)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    is_read = {"property", "cached_property"} & set(_decorators(node))
                    found.setdefault(name, []).append(self._returned_by(node) if is_read else Origin.UNKNOWN)
                case ast.ClassDef(name=name):
                    found.setdefault(name, []).append(Origin.UNKNOWN)
        found |= annotated
        return found

    def _field(self, owner: ast.ClassDef, attribute: str, steps: int, seen: frozenset[str] = frozenset()) -> Origin:
        """Return what an attribute of a class is, which one of its bases in the file may set."""
        fields = self._fields_of(owner, steps)
        if attribute in fields:
            return _joined(fields[attribute])
        for base in owner.bases:
            if isinstance(base, ast.Name) and base.id in self._classes and base.id not in seen:
                origin = self._field(self._classes[base.id], attribute, steps, seen | {base.id})
                if origin is not Origin.UNKNOWN:
                    return origin
        return Origin.UNKNOWN

    def _fields_of(self, owner: ast.ClassDef, steps: int) -> dict[str, list[Origin]]:
        if owner in self._fields:
            return self._fields[owner]
        found = self._fields[owner] = {}
        annotated: dict[str, list[Origin]] = {}
        found |= self._bindings(owner, (self._tree, owner), steps)
        for method in (each for each in owner.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)):
            first = next(iter((*method.args.posonlyargs, *method.args.args)), None)
            for node in ast.walk(method) if first is not None else ():
                match node:
                    case ast.AnnAssign(target=ast.Attribute(value=ast.Name(id=name), attr=attribute)):
                        if first is not None and name == first.arg:
                            annotated.setdefault(attribute, []).append(self._annotated(node.annotation))
                    case ast.Assign(targets=targets, value=value):
                        for target in targets:
                            match target:
                                case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                                    if first is not None and name == first.arg:
                                        origin = self._origin(value, (self._tree, owner, method), steps + 1)
                                        found.setdefault(attribute, []).append(origin)
        found |= annotated
        return found

    def returned(self, symbol: str) -> Origin:
        """Return what a function or method of the file says that it returns, by its qualified name."""
        owner, _, name = symbol.rpartition(".")
        scope = self._classes.get(owner) if owner else self._tree
        made = self._made_in(scope, name) if scope is not None else None
        return _joined([self._returned_by(each) for each in made]) if made else Origin.UNKNOWN

    def _made_by(self, function: ast.expr, scopes: tuple[_Scope, ...]) -> Origin:
        meant = self._meant(function)
        if meant in _MAKERS or _is_class(meant):
            return Origin.OUTSIDE
        made: list[ast.FunctionDef | ast.AsyncFunctionDef] = []
        match function:
            case ast.Name(id=name):
                inside = (each for each in reversed(scopes) if not isinstance(each, ast.ClassDef))
                made = next((found for scope in inside if (found := self._made_in(scope, name)) is not None), [])
            case ast.Attribute(value=ast.Name(id=name) | ast.Call(func=ast.Name(id=name)) as value, attr=attribute):
                owner = self._class_of(name, scopes) if isinstance(value, ast.Name) else self._classes.get(name)
                made = (self._made_in(owner, attribute) if owner is not None else None) or []
        if made:
            return _joined([self._returned_by(each) for each in made])
        written = ast.unparse(function)
        return self._returned_there(written) if re.fullmatch(r"\w+(\.\w+)*", written) else Origin.UNKNOWN

    def _class_of(self, name: str, scopes: tuple[_Scope, ...]) -> ast.ClassDef | None:
        """Return the class of the file that a name is an object of, or is itself."""
        if (own := _owner(name, scopes)) is not None:
            return own
        for scope in (each for each in reversed(scopes) if not isinstance(each, ast.ClassDef)):
            made, stores = [], 0
            for node in _own(scope):
                match node:
                    case ast.Assign(targets=[ast.Name(id=found)], value=ast.Call(func=maker)) if found == name:
                        made.append(ast.unparse(maker))
                    case ast.AnnAssign(target=ast.Name(id=found), annotation=annotation) if found == name:
                        made.append(ast.unparse(annotation))
                    case ast.Name(id=found, ctx=ast.Store()) if found == name:
                        stores += 1
            if isinstance(scope, _Function) and (given := [each for each in _arguments(scope) if each.arg == name]):
                stores += 1
                made += [ast.unparse(each.annotation) for each in given if each.annotation is not None]
            if stores:
                return self._classes.get(made[0]) if len({*made}) == 1 and len(made) == stores else None
        return self._classes.get(name)

    def _made_in(self, scope: _Scope, name: str) -> list[ast.FunctionDef | ast.AsyncFunctionDef] | None:
        """Return the functions that a scope calls so, none if it binds the name otherwise; None if not at all."""
        functions = []
        for node in _own(scope):
            match node:
                case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found) if found == name:
                    functions.append(node)
                case ast.Name(id=found, ctx=ast.Store()) | ast.ClassDef(name=found) if found == name:
                    return []
        is_parameter = isinstance(scope, _Function) and name in {each.arg for each in _arguments(scope)}
        return [] if is_parameter else functions or None

    def _returned_by(self, function: ast.FunctionDef | ast.AsyncFunctionDef) -> Origin:
        return self._annotated(function.returns) if set(_decorators(function)) <= _PLAIN else Origin.UNKNOWN

    def _annotated(self, node: ast.expr | None) -> Origin:
        match node:
            case ast.Constant(value=None):
                return Origin.NOTHING
            case ast.Constant(value=str(written)):
                try:
                    return self._annotated(ast.parse(written.strip(), mode="eval").body)
                except (SyntaxError, ValueError, RecursionError):
                    return Origin.UNKNOWN
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return _joined([self._annotated(left), self._annotated(right)])
            case ast.Subscript(value=ast.Name(id=name) | ast.Attribute(attr=name), slice=inner):
                if name in ("Optional", "Union", "Final", "ClassVar", "Annotated"):
                    parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
                    return _joined([self._annotated(each) for each in (parts[:1] if name == "Annotated" else parts)])
                return self._annotated(node.value)
            case ast.Name() | ast.Attribute():
                return Origin.OUTSIDE if _is_class(self._meant(node)) else Origin.UNKNOWN
        return Origin.UNKNOWN

    def _meant(self, node: ast.expr) -> str:
        """Return what a dotted name from outside stands for; empty for anything else."""
        root, _, rest = ast.unparse(node).partition(".")
        if not re.fullmatch(r"[\w.]*", f"{root}.{rest}") or root not in self._outside:
            return ""
        return f"{self._outside[root]}.{rest}".rstrip(".")


def _decorators(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    whole = (each.func if isinstance(each, ast.Call) else each for each in function.decorator_list)
    return [ast.unparse(each).rpartition(".")[2] for each in whole]


def _is_class(meant: str) -> bool:
    return meant.partition(".")[0] not in _STANDING_FOR_OURS and _CLASS.match(meant.rpartition(".")[2]) is not None


def _joined(origins: list[Origin]) -> Origin:
    """Return what something is that may be each of several."""
    said = {each for each in origins if each is not Origin.NOTHING}
    if len(said) == 1:
        return said.pop()
    return Origin.MAYBE_OUTSIDE if said & {Origin.OUTSIDE, Origin.MAYBE_OUTSIDE} else Origin.UNKNOWN


def _owner(name: str, scopes: tuple[_Scope, ...]) -> ast.ClassDef | None:
    """Return the class whose object a name is: the first parameter of the method around."""
    for outer, inner in reversed([*pairwise(scopes)]):
        if isinstance(inner, _Function) and name in {each.arg for each in _arguments(inner)}:
            first = next(iter((*inner.args.posonlyargs, *inner.args.args)), None)
            return outer if isinstance(outer, ast.ClassDef) and first is not None and first.arg == name else None
    return None


def _arguments(function: _Function) -> Iterator[ast.arg]:
    return (node for node in ast.walk(function.args) if isinstance(node, ast.arg))


def _attributes(node: ast.AST, scopes: tuple[_Scope, ...]) -> Iterator[tuple[ast.Attribute, tuple[_Scope, ...]]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Attribute):
            yield child, scopes
        yield from _attributes(child, (*scopes, child) if isinstance(child, _Scope) else scopes)


def _own(scope: _Scope) -> Iterator[ast.AST]:
    """Yield what stands in a scope and not in one inside, what is around first."""
    body: list[ast.AST]
    if isinstance(scope, _Comprehension):
        body = [each.target for each in scope.generators]
    else:
        body = [scope.body] if isinstance(scope, ast.Lambda) else [*scope.body]
    queue = body[::-1]
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, (*_SCOPES, *_COMPREHENSIONS)):
            queue += [*ast.iter_child_nodes(node)][::-1]
