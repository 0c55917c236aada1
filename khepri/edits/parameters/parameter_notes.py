"""What people are told of a changed parameter: where it may be passed, asked for or spoken of, and was left."""

import ast
import re
from collections.abc import Collection
from typing import Final

from khepri.edits.change import ChangeSet
from khepri.edits.locate import Target
from khepri.edits.parameters.inferred_calls import InferredCalls
from khepri.edits.python.class_relations import Class, Classes, relatives
from khepri.edits.python.found_calls import is_builder
from khepri.edits.python.signature import Definition
from khepri.edits.python.super_uses import CONSTRUCTORS
from khepri.edits.rename.look_alikes import taking_look_alikes
from khepri.edits.rename.own_calls import OwnCalls
from khepri.edits.rename.rename_notes import shown
from khepri.edits.workspace import Workspace

_LOOKUP: Final = re.compile(r"(?<![\w.])(locals|vars|eval|exec)(?=\()")


def on_guessed(places: list[str], target: Target, new: str) -> tuple[str, ...]:
    """Return a note on calls that pass the new name to what may be one of several functions."""
    if not places:
        return ()
    passes = "passes" if len(places) == 1 else "pass"
    return (f"{shown(places)} {passes} {new} to what may be {target.label} or something else: see that it takes it",)


def on_prose(name: str, places: tuple[str, ...]) -> tuple[str, ...]:
    """Return a note on where the old name stands in comments and docstrings."""
    return (
        (f"{name} also stands in comments or docstrings at {shown(list(places))}, which were left",) if places else ()
    )


def notes_on_lookups(target: Target, name: str) -> tuple[str, ...]:
    """Return a note on a function that looks at its names as texts."""
    looking = sorted(set(_LOOKUP.findall(target.text)))
    if not looking:
        return ()
    return (f"{target.label} looks at its names with {', '.join(looking)}(): see that nothing asks for {name} there",)


def notes_on_places(
    function: Definition, name: str, known: Collection[tuple[str, int]], inferred: InferredCalls
) -> tuple[str, ...]:
    """Return a note on calls of unknown objects that may pass a parameter by its place, and were left."""
    if not function.is_method or name not in function.positional[1:]:
        return ()
    place = function.positional[1:].index(name)
    left = [
        f"{source.path}:{call.line}"
        for source, call in inferred.behind_dots()
        if call.by_place > place and (source.path, call.opening) not in known
        if inferred.is_meant(source.path, source.text, call.end) is not False
    ]
    return (f"{shown(left)} may pass {name} by its place, on objects of unknown type: not changed",) if left else ()


def notes_on_meeting(workspace: Workspace, target: Target, name: str) -> tuple[str, ...]:
    """Return a note on the methods that stand for one by the shape of their class and still take a parameter."""
    classes = Classes(workspace)
    others = relatives(workspace, target, classes) if target.is_member else ()
    places = [f"{path}:{line}" for path, line in taking_look_alikes(classes, target, others, name)]
    if not places:
        return ()
    stands, takes, was = ("it stands", "takes", "was") if len(places) == 1 else ("they stand", "take", "were")
    return (
        f"{shown(places)} {takes} {name} and {was} left: change it there too if {stands} for {target.label} or the "
        "other way round, without inheriting",
    )


def notes_on_constructors_below(
    workspace: Workspace, changes: ChangeSet, target: Target, old: str, new: str
) -> tuple[str, ...]:
    """Return a note on constructors that keep a parameter by which a base class makes objects of its own class."""
    if not is_builder(target):
        return ()
    classes, owner = Classes(workspace), Class(target.source.path, target.symbol.rpartition(".")[0])
    keeping = [
        f"{one.path} {one.symbol}"
        for one in sorted(classes.below(owner) - {owner}, key=lambda each: (each.path, each.symbol))
        for each in getattr(classes.node(one), "body", [])
        if isinstance(each, ast.FunctionDef) and each.name == target.name
        if any(isinstance(taken, ast.arg) and taken.arg == old for taken in ast.walk(each.args))
    ]
    calls = OwnCalls(workspace, changes, target).calls() if keeping else ()
    places = [f"{path}:{call.lineno}" for path, call in calls if any(each.arg == new for each in call.keywords)]
    if not places:
        return ()
    takes = "takes" if len(keeping) == 1 else "take"
    return (f"{shown(keeping)} {takes} {old} still, and may be what {shown(places)} makes: change it there too",)


def notes_on_stand_ins(workspace: Workspace, target: Target) -> tuple[str, ...]:
    """Return a note on what stands for a method in other classes and is none, so that it keeps its parameters."""
    others = [] if target.name in CONSTRUCTORS else relatives(workspace, target)
    places = [f"{each.path}:{each.line}" for each in others if not each.is_method]
    return (f"{shown(places)} puts something else in the place of {target.label}, and was left",) if places else ()
