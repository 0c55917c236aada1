"""Tells whether a class from outside knows a member by its name: a base class calls what is overridden.

Classes of Python's own library are looked at. Of any other nobody can tell here what it has.
"""

import ast
import importlib
import inspect
import re
import sys
import textwrap
from collections import namedtuple
from collections.abc import Collection, Iterator
from typing import Final

from khepri.edits.locate import Target
from khepri.edits.python.class_relations import Class, Classes, Relative, members
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


def check_outside(
    classes: Classes, target: Target, new: str = "", others: Collection[Relative] = ()
) -> tuple[str, ...]:
    """Make sure that no class from outside finds a member by the name that it has now, or by the one that it would get.

    The bases of every class of which some object is one are looked at, if it is one of the member's class as well.

    Args:
        classes: Where.
        target: The member; anything else passes.
        new: What it would be called; empty if it would go.
        others: The members that are renamed with it.

    Returns:
        A note on base classes of which nobody can tell.

    Raises:
        EditRefusedError: One does.
    """
    if not target.is_member:
        return ()
    unknown: dict[str, Class] = {}
    owner = _owner(target)
    for dotted, one in _shared_bases(classes, owner, others):
        base = _class(dotted)
        if base is None:
            unknown[dotted] = one
            continue
        which = _which(dotted, one, owner)
        if _knows(base, target.name) or _is_looked_for(base, target.name, new):
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"{target.label} is found by this name: {which}",
                "leave it, and let it call a method with the other name",
            )
        if new:
            _refuse_known(dotted, base, new, target.label, which)
    return _note(f"{target.name} or {new}" if new else target.name, unknown)


def check_outside_new(classes: Classes, owner: Class, new: str) -> tuple[str, ...]:
    """Make sure that no class from outside has a member that a class would get.

    Returns:
        A note on base classes of which nobody can tell.

    Raises:
        EditRefusedError: One has.
    """
    unknown: dict[str, Class] = {}
    for dotted, one in _shared_bases(classes, owner, ()):
        base = _class(dotted)
        if base is None:
            unknown[dotted] = one
        else:
            _refuse_known(dotted, base, new, f"a method of {owner.symbol}", _which(dotted, one, owner))
    return _note(new, unknown)


def check_outside_parameter(workspace: Workspace, target: Target, name: str, *, is_removed: bool) -> tuple[str, ...]:
    """Make sure that no class from outside passes a parameter of a method that is to go.

    Returns:
        A note on base classes that may pass it by its name, or of which nobody can tell.

    Raises:
        EditRefusedError: One passes it.
    """
    passing = []
    unknown: dict[str, Class] = {}
    for dotted in sorted(Classes(workspace).outside(_owner(target))) if target.is_member else ():
        base = _class(dotted)
        if base is None:
            unknown[dotted] = _owner(target)
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
    return _note(target.name, unknown) if is_removed else ()


def _refuse_known(dotted: str, base: type, new: str, label: str, which: str) -> None:
    if _knows(tuple if dotted == "typing.NamedTuple" else base, new):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE, f"{label} would be found by the name {new}: {which}", "choose another name"
        )


def _which(dotted: str, one: Class, owner: Class) -> str:
    below = "" if one == owner else f" of {one.path} {one.symbol}"
    return f"{dotted.removeprefix('builtins.')}, a base class{below} from outside, knows it"


def _note(known: str, unknown: dict[str, Class]) -> tuple[str, ...]:
    notes = []
    for one in dict.fromkeys(unknown.values()):
        names = [dotted.removeprefix("builtins.") for dotted, other in unknown.items() if other == one]
        made = [f"what {each[:60]} makes" for each in names if not _is_path(each)]
        outside = ", ".join(each for each in names if _is_path(each))
        inherited = [f"{outside} from outside"] * bool(outside) + [", ".join(made)] * bool(made)
        notes += [f"{one.symbol} inherits {each}: see that nothing there knows {known}" for each in inherited]
    return tuple(notes)


def _is_path(base: str) -> bool:
    return re.fullmatch(r"\w+(\.\w+)*", base) is not None


def _owner(target: Target) -> Class:
    return Class(target.source.path, target.symbol.rpartition(".")[0])


def _shared_bases(classes: Classes, owner: Class, others: Collection[Relative]) -> Iterator[tuple[str, Class]]:
    """Yield the bases from outside of the classes that share objects with a class, each once, with its class."""
    found = {dotted: owner for dotted in sorted(classes.outside(owner))}
    for one in sorted(classes.sharing_members(owner, others), key=lambda each: (each.path, each.symbol)):
        for dotted in sorted(classes.outside(one)):
            found.setdefault(dotted, one)
    yield from found.items()


def _class(dotted: str) -> type | None:
    """Return a class of Python's own library, or a named tuple that is made in the place of a base."""
    if not _is_path(dotted):
        return _named_tuple(ast.parse(dotted, mode="eval").body)
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


def _named_tuple(base: ast.expr) -> type | None:
    """Return the class that a call of ``namedtuple`` or ``NamedTuple`` makes of fields that stand there."""
    match base:
        case ast.Call(func=ast.Name(id=maker) | ast.Attribute(attr=maker), args=[_, given]):
            if maker not in ("namedtuple", "NamedTuple"):
                return None
            pairs = given.elts if isinstance(given, ast.List | ast.Tuple) else []
            names = [each.elts[0] for each in pairs if isinstance(each, ast.Tuple) and each.elts]
            try:
                return namedtuple("Made", list(map(ast.literal_eval, names)) or ast.literal_eval(given))
            except (ValueError, TypeError):
                return None
    return None


def _knows(base: type, name: str) -> bool:
    """Tell if a class or its objects have an attribute, beside what every object has."""
    above = [each for each in base.__mro__ if each is not object]
    return any(name in vars(each) for each in above) or any(_sets(each, name) for each in above)


def _sets(base: type, name: str) -> bool:
    try:
        # To find the lines of a class takes longer than to read its module.
        around = inspect.getsource(sys.modules[base.__module__])
        text = inspect.getsource(base) if name in around else ""
    except (OSError, TypeError):
        return False  # It is not written in Python.
    (node,) = ast.parse(textwrap.dedent(text)).body if name in text else (None,)
    return isinstance(node, ast.ClassDef) and any(True for _ in members(node, name))


def _is_looked_for(base: type, name: str, new: str) -> bool:
    above = (f"{each.__module__}.{each.__qualname__}" for each in base.__mro__)
    prefixes = tuple(prefix for each in above for prefix in _PREFIXES.get(each, ()))
    return name.startswith(prefixes) and not (name.startswith("test") and new.startswith("test")) if prefixes else False


def _parameters(base: type, name: str) -> tuple[str, ...]:
    try:
        return tuple(inspect.signature(getattr(base, name)).parameters)[1:]
    except (AttributeError, TypeError, ValueError):
        return ()
