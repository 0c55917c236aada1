"""Looks at the calls that a change of a signature has not reached, since nobody can tell what they call.

A call on an object of unknown type is taken for one of the function if nothing else in the repository is called so and
takes the parameter; otherwise it is left and told.
"""

from collections.abc import Collection
from dataclasses import dataclass

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.locate import Target
from khepri.edits.parameters.inferred_calls import InferredCalls
from khepri.edits.python.calls import Call, calls_of, definitions_of, parameters_of
from khepri.edits.python.class_relations import Class, Classes
from khepri.edits.python.common_names import library_takes
from khepri.edits.python.foreign import Foreign
from khepri.edits.python.super_uses import is_behind_super
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.rename_notes import shown
from khepri.edits.workspace import Workspace
from khepri.repo.text import text_or_nothing


@dataclass(frozen=True)
class _File:
    path: str
    before: bytes
    after: bytes
    text: str
    """What is proposed."""
    calls: tuple[Call, ...]
    """Those that may be of the function and pass the parameter by its name."""


def with_unresolved(
    workspace: Workspace,
    changes: ChangeSet,
    target: Target,
    names: tuple[str, str],
    meant: Collection[tuple[str, int]],
    inferred: InferredCalls,
) -> tuple[ChangeSet, tuple[str, ...]]:
    """Return a rename of a parameter with the calls that it has not reached, and notes on those that nobody can tell.

    Args:
        workspace: Where.
        changes: The rename so far.
        target: The function.
        names: The old name of the parameter and the new one.
        meant: Path and place of the opening bracket of calls that are known to be of the function, as proposed.
        inferred: Who is asked about the others.
    """
    old, new = names
    files = _files(workspace, changes, target, old, inferred)
    _, is_unique = _passing(files, target.name, old)
    changed = {change.path: change for change in changes.files}
    unsure = []
    for file in files:
        text = file.text
        for call in sorted(file.calls, key=lambda each: -each.opening):
            is_meant = (file.path, call.opening) in meant or inferred.is_meant(file.path, file.text, call.end) is True
            if not is_meant:
                unsure.append(f"{file.path}:{call.line}")
            if is_meant or is_unique:
                place = call.passed[old]
                text = text[:place] + new + text[place + len(old) :]
        if text != file.text:
            changed[file.path] = FileChange(file.path, file.before, replace_text(file.after, text, file.path))
    if not unsure:
        notes: tuple[str, ...] = ()
    elif is_unique:
        note = f"nothing else called {target.name} takes {old}, so calls on objects of unknown type are changed too"
        notes = (f"{note}: {shown(sorted(unsure))}",)
    else:
        notes = (_left(sorted(unsure), target, old),)
    return change_set(changes.title, changed.values()), notes


def refuse_unresolved(
    workspace: Workspace, changes: ChangeSet, target: Target, name: str, inferred: InferredCalls
) -> tuple[str, ...]:
    """Refuse to remove a parameter that a call still passes by name; return notes where that may be another's.

    Raises:
        EditRefusedError: A call would be left, and nothing else takes the parameter.
    """
    places, is_unique = _passing(_files(workspace, changes, target, name, inferred), target.name, name)
    if not places:
        return ()
    if not is_unique:
        return (_left(places, target, name),)
    raise EditRefusedError(
        Refusal.NOT_POSSIBLE,
        f"{name} of {target.label} cannot go: {places[0]} passes it, on an object of unknown type",
        "change that call first",
    )


def _passing(files: list[_File], function: str, name: str) -> tuple[list[str], bool]:
    """Return the places of the calls that pass a parameter by name, and whether no definition takes it any more."""
    places = [f"{file.path}:{call.line}" for file in files for call in file.calls]
    taking = (function for file in files for each in definitions_of(file.text, function) if name in parameters_of(each))
    is_common = any(library_takes(file.text, function, name) for file in files if file.calls)
    return places, not is_common and not any(taking)


def _files(workspace: Workspace, changes: ChangeSet, target: Target, name: str, inferred: InferredCalls) -> list[_File]:
    """Return the Python files that hold the name of a function, with what is proposed for them."""
    changed = {change.path: change for change in changes.files}
    found = []
    foreign, classes = Foreign(workspace), Classes(workspace)
    for path in workspace.files():
        if not path.endswith(".py"):
            continue
        change = changed.get(path)
        before = change.before if change else workspace.read(path)
        after = change.after if change else before
        if before is not None and after is not None and target.name.encode() in after:
            text = text_or_nothing(after)
            ends = foreign.ends(path, text, target.name)
            calls = (
                each
                for each in calls_of(text, target.name)
                if name in each.passed
                and each.end not in ends
                and inferred.is_meant(path, text, each.end) is not False
                and not (is_behind_super(text, each.opening) and _is_beside(classes, target, path, each.line))
            )
            found.append(_File(path, before, after, text, tuple(calls)))
    return found


def _is_beside(classes: Classes, target: Target, path: str, line: int) -> bool:
    """Tell if ``super()`` at a line cannot have the function: its class is the function's own, or shares no object."""
    owner, around = Class(target.source.path, target.symbol.rpartition(".")[0]), classes.around(path, line)
    return around is not None and (around == owner or owner not in classes.sharing_objects(around))


def _left(places: list[str], target: Target, name: str) -> str:
    passes = "passes" if len(places) == 1 else "pass"
    return f"{shown(places)} {passes} {name} to it or to something else called {target.name}, and were left"
