"""What people are told of a changed parameter: where it may be passed, asked for or spoken of, and was left."""

import re
from collections.abc import Collection
from typing import Final

from khepri.edits.locate import Target
from khepri.edits.parameters.inferred_calls import InferredCalls
from khepri.edits.python.class_relations import Classes, relatives
from khepri.edits.python.signature import Definition
from khepri.edits.python.super_uses import CONSTRUCTORS
from khepri.edits.rename.look_alikes import taking_look_alikes
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


def notes_on_stand_ins(workspace: Workspace, target: Target) -> tuple[str, ...]:
    """Return a note on what stands for a method in other classes and is none, so that it keeps its parameters."""
    others = [] if target.name in CONSTRUCTORS else relatives(workspace, target)
    places = [f"{each.path}:{each.line}" for each in others if not each.is_method]
    return (f"{shown(places)} puts something else in the place of {target.label}, and was left",) if places else ()
