"""Tells whose parameter an argument is that a call passes by name.

Where rope knows no function that is called, it takes the name for the variable around the call. A class whose
constructor is made from its fields has none that rope knows, and what it inherits is not called then.
"""

import ast
from typing import TYPE_CHECKING, Final

from rope.base.exceptions import AttributeNotFoundError, BadIdentifierError
from rope.base.pyobjects import AbstractClass, AbstractFunction
from rope.base.pyobjectsdef import PyClass

from khepri.edits.python.bare_names import base_name
from khepri.edits.python.fields import DECORATORS, says_no
from khepri.edits.python.parameter_scopes import ParameterScopes

if TYPE_CHECKING:
    from rope.base.pyobjects import PyObject
    from rope.refactor.occurrences import Occurrence

_BASES: Final = frozenset({"NamedTuple", "TypedDict", "BaseModel", "Struct"})


def is_of_unknown(occurrence: "Occurrence", scopes: ParameterScopes) -> bool:
    """Tell if a name is an argument of a call, and no parameter that rope knows is what it means.

    Args:
        occurrence: Where the name stands.
        scopes: What the name means in this text.
    """
    place = occurrence.get_word_range()[0]
    if not scopes.is_keyword(place):
        return False
    finder = occurrence.tools.name_finder
    opening = finder.worder.find_parens_start_from_inside(place)
    try:
        called = finder.get_pyname_at(opening - 1)
        return called is None or not _takes(called.get_object())
    except (BadIdentifierError, AttributeNotFoundError):
        return True


def _takes(called: "PyObject") -> bool:
    """Tell if a function of which rope knows the parameters runs when something is called."""
    if isinstance(called, AbstractClass):
        return not is_made(called) and "__init__" in called
    return isinstance(called, AbstractFunction) or "__call__" in called


def is_made(called: "PyObject") -> bool:
    """Tell if the constructor of a class is made from its fields: by ``dataclass``, ``NamedTuple`` and their like."""
    if not isinstance(called, PyClass):
        return False
    node = called.get_ast()
    if any(isinstance(each, ast.FunctionDef) and each.name == "__init__" for each in node.body):
        return False
    if any(base_name(each) in _BASES for each in node.bases):
        return True
    for each in node.decorator_list:
        if base_name(each) in DECORATORS:
            return not says_no(each, "init")
    above = called.get_superclasses()
    return next((is_made(each) for each in above if is_made(each) or "__init__" in each), False)
