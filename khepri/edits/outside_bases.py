"""Tells whether a class from outside knows a member by its name: a base class calls what is overridden.

Classes of Python's own library are looked at. Of any other nobody can tell here what it has.
"""

import importlib
import inspect
import sys
from typing import Final

from khepri.edits.class_relations import Class, Classes
from khepri.edits.locate import Target
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace

_NOT_IMPORTED: Final = frozenset({"antigravity", "this", "__main__", "idlelib", "turtle", "turtledemo"})
_PREFIXES: Final = {
    "ast.NodeVisitor": ("visit_",),
    "cmd.Cmd": ("do_", "help_", "complete_"),
    "http.server.BaseHTTPRequestHandler": ("do_",),
    "unittest.case.TestCase": ("test",),
}
"""Classes that look for methods whose names begin so."""


def check_outside(workspace: Workspace, target: Target, new: str = "") -> tuple[str, ...]:
    """Make sure that no class from outside finds a member by the name that it has now.

    Args:
        workspace: Where.
        target: The member; anything else passes.
        new: What it would be called; empty if it would go.

    Returns:
        A note on base classes of which nobody can tell.

    Raises:
        EditRefusedError: One does.
    """
    unknown = []
    for dotted in _bases(workspace, target):
        base = _class(dotted)
        if base is None:
            unknown.append(dotted)
        elif hasattr(base, target.name) or _is_looked_for(base, target.name, new):
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"{target.label} is found by this name: {dotted.removeprefix('builtins.')}, a base class from outside, "
                f"knows it",
                "leave it, and let it call a method with the other name",
            )
    return _note(target, unknown)


def check_outside_parameter(workspace: Workspace, target: Target, name: str, *, is_removed: bool) -> tuple[str, ...]:
    """Make sure that no class from outside passes a parameter of a method that is to go.

    Returns:
        A note on base classes that may pass it by its name, or of which nobody can tell.

    Raises:
        EditRefusedError: One passes it.
    """
    unknown, passing = [], []
    for dotted in _bases(workspace, target):
        base = _class(dotted)
        if base is None:
            unknown.append(dotted)
        elif name in _parameters(base, target.name):
            passing.append(dotted.removeprefix("builtins."))
    if passing and is_removed:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{target.label} has to take {name}: it overrides that of {passing[0]}, whose callers pass it",
            "leave it there, unused",
        )
    if passing:
        return (f"{target.label} overrides that of {passing[0]}, whose callers may pass {name} by its name",)
    return _note(target, unknown) if is_removed else ()


def _note(target: Target, unknown: list[str]) -> tuple[str, ...]:
    if not unknown:
        return ()
    owner = target.symbol.rpartition(".")[0]
    names = ", ".join(each.removeprefix("builtins.") for each in unknown)
    return (f"{owner} inherits {names} from outside: see that nothing there knows {target.name}",)


def _bases(workspace: Workspace, target: Target) -> list[str]:
    if not target.is_member:
        return []
    return sorted(Classes(workspace).outside(Class(target.source.path, target.symbol.rpartition(".")[0])))


def _class(dotted: str) -> type | None:
    """Return a class of Python's own library."""
    top = dotted.partition(".")[0]
    if top not in sys.stdlib_module_names or top in _NOT_IMPORTED:
        return None
    module, _, name = dotted.rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    if callable(found) and not isinstance(found, type):
        return object  # What makes classes, such as NamedTuple, has no members.
    return found if isinstance(found, type) else None


def _is_looked_for(base: type, name: str, new: str) -> bool:
    above = (f"{each.__module__}.{each.__qualname__}" for each in base.__mro__)
    prefixes = tuple(prefix for each in above for prefix in _PREFIXES.get(each, ()))
    return name.startswith(prefixes) and not (name.startswith("test") and new.startswith("test")) if prefixes else False


def _parameters(base: type, name: str) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(getattr(base, name)).parameters)[1:]
    except (AttributeError, TypeError, ValueError):
        return ()
