"""Finds what ``super().name`` means, which rope cannot tell: the name in the nearest base class that has it."""

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rope.base.exceptions import AttributeNotFoundError
from rope.refactor.occurrences import InHierarchyFilter, same_pyname

if TYPE_CHECKING:
    from rope.base.pynames import PyName
    from rope.base.pyobjects import AbstractClass
    from rope.base.pyscopes import Scope
    from rope.refactor.occurrences import Occurrence

_SUPER: Final = re.compile(r"(?<![\w.])super\s*\(\s*(?:[\w.]+\s*,\s*\w+\s*)?\)\s*\.\s*\Z")
_MOST_BEFORE: Final = 200
"""Characters; what stands between ``super`` and the name is shorter."""
CONSTRUCTORS: Final = frozenset({"__init__", "__new__", "__init_subclass__"})
"""Methods that each class has its own parameters for: none of them stands for another."""


@dataclass(frozen=True)
class _Meaning:
    """As much of an occurrence as the filters of rope ask for."""

    name: "PyName"

    def get_pyname(self) -> "PyName":
        return self.name


def is_super_use(
    occurrence: "Occurrence", name: "PyName | None", sharing: Callable[[], Collection[tuple[str, str]]]
) -> bool:
    """Return True if a name behind ``super()`` means a method, or one that the method overrides or is overridden by.

    Args:
        occurrence: Where the same word stands.
        name: What the method is for rope; None if it does not know it.
        sharing: Gives path and qualified name of the classes whose methods of that name stand for one another: what
            ``super()`` has in one of them may be in another that is no base of it. Asked only where that may be.
    """
    module = occurrence.tools.pymodule
    start, end = occurrence.get_word_range()
    if name is None or not _SUPER.search(module.source_code[max(0, start - _MOST_BEFORE) : start]):
        return False
    scope = module.get_scope().get_inner_scope_for_offset(start)
    while scope is not None and scope.get_kind() != "Class":
        scope = scope.parent
    word = module.source_code[start:end]
    if scope is None:
        return False
    found = _inherited(scope.pyobject, word)
    if found is None:
        return (occurrence.resource.path, _symbol(scope)) in sharing()
    return bool(same_pyname(name, found) or (word not in CONSTRUCTORS and InHierarchyFilter(name)(_Meaning(found))))


def is_behind_super(text: str, end: int) -> bool:
    """Return True if the last word of a text up to a place stands behind ``super()``."""
    before = text[max(0, end - _MOST_BEFORE) : end].rstrip()
    return _SUPER.search(re.sub(r"\w+\Z", "", before)) is not None


def _symbol(scope: "Scope") -> str:
    names = []
    while scope.parent is not None:
        names.append(scope.pyobject.get_name())
        scope = scope.parent
    return ".".join(reversed(names))


def _inherited(pyclass: "AbstractClass", word: str) -> "PyName | None":
    for base in pyclass.get_superclasses():
        try:
            return base[word]  # its own, or what it has from its bases
        except AttributeNotFoundError:
            continue
    return None
