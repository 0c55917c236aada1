"""Finds the classes that stand for another one by what they have, and not because they say so.

A ``Protocol`` is met by whatever has its members, and many an abstract class is taken the same way. Whether a class is
meant to meet one cannot be told; so it is told which of them could.
"""

import ast
from collections.abc import Collection, Iterator
from typing import Final

from khepri.edits.locate import Target
from khepri.edits.python.bare_names import base_name
from khepri.edits.python.calls import parameters_of
from khepri.edits.python.class_relations import Class, Classes, Relative
from khepri.edits.python.fields import CONSTRUCTORS
from khepri.edits.rename.rename_notes import shown

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


def notes_on_look_alikes(classes: Classes, target: Target, others: Collection[Relative]) -> tuple[str, ...]:
    """Return notes on the classes that may stand for that of a member, or it for them, and keep its name.

    Args:
        classes: Where, before the change.
        target: The member that is renamed; anything else passes.
        others: The members that are renamed with it.
    """
    if not target.is_member:
        return ()
    own = Class(target.source.path, target.symbol.rpartition(".")[0])
    renamed = classes.sharing_members(own, others) | {own}
    notes = []
    for one in sorted(renamed, key=_place):
        if found := _standing_for(classes, one, target.name) - renamed:
            labels = [_label(each) for each in sorted(_uppermost(classes, found), key=_place)]
            have, they, were = ("has", "it stands", "was") if len(labels) == 1 else ("have", "they stand", "were")
            notes.append(
                f"{shown(labels)} {have} all that {one.symbol} asks for without inheriting from it, and {were} left: "
                f"rename {target.name} there too if {they} for it"
            )
    if met := [_label(each) for each in sorted(_met(classes, renamed, target.name), key=_place)]:
        notes.append(
            f"{own.symbol} has all that {shown(met)} asks for, where {target.name} was left: rename it there too if "
            f"{own.symbol} stands for it"
        )
    return tuple(notes)


def taking_look_alikes(
    classes: Classes, target: Target, others: Collection[Relative], name: str
) -> tuple[tuple[str, int], ...]:
    """Return the methods of such classes that take a parameter which a method does not take any more.

    Args:
        classes: Where, before the change.
        target: The method; anything else has none.
        others: The methods that are changed with it.
        name: The parameter.

    Returns:
        Path and line of each.
    """
    if not target.is_member or target.name in CONSTRUCTORS:
        return ()
    own = Class(target.source.path, target.symbol.rpartition(".")[0])
    changed = classes.sharing_members(own, others) | {own}
    found = {each for one in changed for each in _standing_for(classes, one, target.name)}
    nodes = [(each, classes.node(each)) for each in (found | _met(classes, changed, target.name)) - changed]
    return tuple(
        sorted(
            (each.path, method.lineno)
            for each, node in nodes
            for method in (node.body if node is not None else ())
            if isinstance(method, _FUNCTIONS) and method.name == target.name and name in parameters_of(method)
        )
    )


def _standing_for(classes: Classes, one: Class, name: str) -> set[Class]:
    needed = _needed(classes, one)
    return _meeting(classes, one, {*needed, name}, name) if name in needed else set()


def _met(classes: Classes, changed: Collection[Class], name: str) -> set[Class]:
    """Return the Protocols with a member that some classes meet, besides those classes."""
    return {
        each
        for each in {*classes.naming(b"Protocol")} - {*changed}
        if classes.member(each, name) is not None
        and name in (needed := _needed(classes, each))
        and any(all(classes.has(one, asked) for asked in needed) for one in changed)
    }


def _needed(classes: Classes, one: Class) -> set[str]:
    """Return the members that a class has to have to stand for a Protocol or an abstract class; none for others."""
    above = [node for each in classes.above(one) if (node := classes.node(each)) is not None]
    own = classes.node(one)
    if own is not None and _has_base(own, "Protocol"):
        return {name for node in above if _has_base(node, "Protocol") for name in _names(node)}
    return {
        each.name
        for node in above
        for each in node.body
        if isinstance(each, _FUNCTIONS) and any(base_name(one) == "abstractmethod" for one in each.decorator_list)
    }


def _meeting(classes: Classes, one: Class, needed: Collection[str], name: str) -> set[Class]:
    """Return the classes that have all of some members and do not inherit from the one that asks for them."""
    defining = [each for each in classes.naming(name.encode()) if classes.member(each, name) is not None]
    found = {below for each in defining for below in classes.below(each)} - classes.below(one) - classes.above(one)
    return {each for each in found if all(classes.has(each, asked) for asked in needed)}


def _uppermost(classes: Classes, found: Collection[Class]) -> Iterator[Class]:
    return (each for each in found if not (classes.above(each) - {each}) & {*found})


def _names(node: ast.ClassDef) -> Iterator[str]:
    for each in node.body:
        match each:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if name not in CONSTRUCTORS:
                yield name
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                if not name.startswith("__"):
                    yield name


def _has_base(node: ast.ClassDef, name: str) -> bool:
    return any(base_name(each) == name for each in node.bases)


def _label(one: Class) -> str:
    return f"{one.path} {one.symbol}"


def _place(one: Class) -> tuple[str, str]:
    return one.path, one.symbol
