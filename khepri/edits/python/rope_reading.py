"""Mends how rope reads code: the names in the body of a class, where a scope begins and ends, brackets in f-strings.

rope has no place to say any of that, so its own classes and functions are exchanged.
"""

import ast
from functools import cached_property, lru_cache

from rope.base import pyscopes, simplify

from khepri.edits.python.binding import stored_in
from khepri.edits.python.offsets import Offsets

_plain_code = simplify.real_code


def mend_reading() -> None:
    """Have rope read code so from now on, in this process."""
    pyscopes.ClassScope = _ClassScope
    pyscopes.Scope.in_region = _is_inside
    simplify.real_code = _code


class _ClassScope(pyscopes.ClassScope):  # type: ignore[misc]
    """The names that a class's body binds: what it inherits, and what its methods set, is no name in there."""

    @cached_property
    def _bound(self) -> frozenset[str]:
        return stored_in(self.pyobject.get_ast().body)

    def lookup(self, name: str) -> object:
        if name in self._bound and name in self.get_names():
            return self.get_names()[name]
        return self.parent._propagated_lookup(name)


def _is_inside(scope: pyscopes.Scope, place: int) -> bool:
    """Tell if what stands at a place of a file is read in a scope that begins before it.

    rope reads the whole file for it word by word, and gives up at the first that it does not expect. What stands in the
    head of a function or a class, such as a default, is read around it.
    """
    node = scope.pyobject.get_ast()
    offsets = _offsets(scope._get_global_scope().pyobject.source_code)

    def holds(part: ast.AST) -> bool:
        assert isinstance(part, ast.stmt | ast.expr)
        return offsets.start(part) <= place < offsets.end(part)

    return offsets.start(node) < place < offsets.end(node) and not any(map(holds, _read_around(node)))


def _read_around(node: ast.AST) -> list[ast.expr]:
    """Return the expressions of a scope that Python reads in the scope around it."""
    match node:
        case ast.FunctionDef(args=args, returns=returns) | ast.AsyncFunctionDef(args=args, returns=returns):
            annotated = (each for each in ast.walk(args) if isinstance(each, ast.arg))
            found = [*args.defaults, *args.kw_defaults, *(each.annotation for each in annotated), returns]
            return [each for each in found if each is not None]
        case ast.ClassDef(bases=bases, keywords=keywords):
            return [*bases, *(each.value for each in keywords)]
        case ast.ListComp(generators=[first, *_]) | ast.SetComp(generators=[first, *_]):
            return [first.iter]
        case ast.DictComp(generators=[first, *_]) | ast.GeneratorExp(generators=[first, *_]):
            return [first.iter]
    return []


@lru_cache(maxsize=8)
def _offsets(text: str) -> Offsets:
    return Offsets(text)


@lru_cache(maxsize=8)
def _code(text: str) -> str:
    """Return what rope makes of a text to look at its brackets: without those that are no code, as in ``f"({x}"``."""
    parts, done = [], 0
    for start, end, found in simplify.ignored_regions(text):
        if "f" in (found.get("prefix") or "").lower():
            parts += [text[done:start], _without_brackets(text[start:end])]
            done = end
    return str(_plain_code("".join([*parts, text[done:]])))


def _without_brackets(literal: str) -> str:
    """Return an f-string with spaces for the brackets outside its expressions."""
    kept, depth, place = [], 0, 0
    while place < len(literal):
        character = literal[place]
        if depth == 0 and literal[place : place + 2] in ("{{", "}}"):
            kept.append("  ")
            place += 2
            continue
        if depth == 0 and character in "()[]":
            character = " "
        depth += (character == "{") - (character == "}" and depth > 0)
        kept.append(character)
        place += 1
    return "".join(kept)
