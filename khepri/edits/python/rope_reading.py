"""Mends how rope reads code: the names in the body of a class, where a scope begins and ends, brackets in f-strings.

rope has no place to say any of that, so its own classes and functions are exchanged.
"""

from functools import cached_property, lru_cache

from rope.base import pyscopes, simplify

from khepri.edits.python.binding import stored_in
from khepri.edits.python.offsets import Offsets

_plain_code = simplify.real_code


def mend_reading() -> None:
    """Have rope read code so from now on, in this process."""
    pyscopes.ClassScope = _ClassScope
    pyscopes.Scope.get_region = _region
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


def _region(scope: pyscopes.Scope) -> tuple[int, int]:
    """Return where a scope begins and ends in its text, as Python's parser has it.

    rope reads the whole file for it word by word, and gives up at the first that it does not expect.
    """
    node = scope.pyobject.get_ast()
    offsets = _offsets(scope._get_global_scope().pyobject.source_code)
    return offsets.of(node.lineno, node.col_offset), offsets.of(node.end_lineno, node.end_col_offset)


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
