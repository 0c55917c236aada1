"""Removes and renames a parameter of a Python function, its overloads, its family and its calls included.

rope finds the calls. It does not write the definition: its own change of a signature drops annotations and breaks
keyword-only parameters, so the text is edited here, at the places that ``ast`` gives.
"""

import re
from collections.abc import Callable, Collection, Iterable
from typing import Final

from khepri.edits.change import ChangeSet, change_set
from khepri.edits.locate import Target, find_python, read_source
from khepri.edits.parameters.class_keywords import refuse_class_keyword
from khepri.edits.parameters.decorated_parameters import is_asked_for, places_in_cases, refuse_named
from khepri.edits.parameters.guessed_calls import guessed_lines
from khepri.edits.parameters.inferred_calls import InferredCalls
from khepri.edits.parameters.parameter_docs import with_described
from khepri.edits.parameters.parameter_notes import (
    notes_on_constructors_below,
    notes_on_lookups,
    notes_on_meeting,
    notes_on_places,
    notes_on_stand_ins,
    on_guessed,
    on_prose,
)
from khepri.edits.parameters.star_parameters import is_starred, rename_starred
from khepri.edits.parameters.starred_arguments import refuse_starred, with_starred
from khepri.edits.parameters.twin_constructors import refuse_twin
from khepri.edits.parameters.unresolved_calls import refuse_unresolved, with_unresolved
from khepri.edits.python.families import family_of
from khepri.edits.python.found_calls import classes_below, found_calls, found_uses
from khepri.edits.python.imports import check_imports
from khepri.edits.python.inference import Inference
from khepri.edits.python.outside_bases import check_outside_parameter
from khepri.edits.python.overloads import definitions_of_one
from khepri.edits.python.passed_keys import passed_places
from khepri.edits.python.signature import Definition, Edit, edited, removal_of, split_arguments
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.captured import check_captured
from khepri.edits.rename.class_patterns import is_pattern_keyword
from khepri.edits.rename.filled_texts import notes_on_shown
from khepri.edits.rename.loose_uses import notes_on_loose_uses, with_partials
from khepri.edits.rename.rename import Refactoring, check_name, refuse_special
from khepri.edits.rename.rename_notes import shown
from khepri.edits.rename.split_imports import note_on_split_calls
from khepri.edits.soundness import check_sound
from khepri.edits.workspace import Workspace

_CALLED_AS_WRITTEN: Final = ("__init__", "__new__", "__call__", "__post_init__", "__init_subclass__")
"""Special methods whose parameters are those of a call in the code."""


def remove_parameter(workspace: Workspace, path: str, symbol: str, name: str) -> Refactoring:
    """Remove a parameter that the function does not use, and what its calls pass for it.

    A method loses it together with those that override it.

    Raises:
        EditRefusedError: There is no such parameter, it is used, or a call hides what it passes behind ``*`` or ``**``.
    """
    with Inference(workspace) as inference:
        return _removed(workspace, find_python(workspace, path, symbol), name, inference)


def _removed(workspace: Workspace, target: Target, name: str, inference: Inference) -> Refactoring:
    _refuse_unknown(target, name)
    refuse_class_keyword(workspace, target, name)
    refuse_twin(workspace, target, name)
    if target.name not in _CALLED_AS_WRITTEN:
        refuse_special(target.name, f"takes what Python passes, {name} too", "leave it there, unused")
    outside = check_outside_parameter(workspace, target, name, is_removed=True)
    refuse_starred(workspace, target, name)
    family = [
        definitions_of_one(find_python(workspace, each.path, each.symbol)) for each in family_of(workspace, target)
    ]
    taking = [found for each in family if (found := [one for one in each if name in one.parameter_names])]
    definitions = [one for each in taking for one in each]
    inferred = InferredCalls(workspace, target, inference)
    calls = _removals(workspace, taking, name, inferred)
    edits: dict[str, list[Edit]] = {}
    for (call_path, _), edit in calls.items():
        edits.setdefault(call_path, []).extend([edit] if edit is not None else [])
    for each in definitions:
        if used := each.uses(name, besides=edits.get(each.target.source.path, ())):
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"{each.target.label} uses {name} at line {used[0]}",
                "rewrite the function without it first",
            )
    for each in definitions:
        refuse_named(each, name)
        edits.setdefault(each.target.source.path, []).append(each.removal(name))
    dropped = [
        f"{where[0]}:{line}" for where, edit in calls.items() if edit and (line := _acts(workspace, *where, edit))
    ]
    title = f"remove {name} from {target.label}"
    changes = change_set(title, _edited(workspace, edits).files)
    is_named = any(name in each.keywords for each in definitions)
    notes = refuse_unresolved(workspace, changes, target, name, inferred) if is_named else ()
    notes += notes_on_places(definitions[0], name, calls, inferred)
    notes += notes_on_lookups(target, name)
    notes += note_on_split_calls(workspace, definitions[0], name)
    notes += notes_on_meeting(workspace, target, name)
    notes += (*notes_on_stand_ins(workspace, target), *outside)
    notes += notes_on_loose_uses(workspace, changes, target, name, is_removed=True)
    if asked := [each.target.label for each in definitions if is_asked_for(each, name)]:
        notes += (f"the fixture {name} is not set up for {shown(asked)} any more",)
    if dropped:
        notes += (
            f"what was passed for {name} is not evaluated any more at {shown(dropped)}: see whether it has to be",
        )
    return finished(workspace, changes, notes)


def _acts(workspace: Workspace, path: str, opening: int, edit: Edit) -> int:
    """Return the line of a call if what an edit takes out of it may do something, or nothing."""
    text = read_source(workspace, path).text
    is_acting = re.search(r"\w\(|\bawait\b|:=", text[edit.start : edit.end])
    return text.count("\n", 0, opening) + 1 if is_acting else 0


def _removals(
    workspace: Workspace, family: list[list[Definition]], name: str, inferred: InferredCalls
) -> dict[tuple[str, int], Edit | None]:
    """Return every call of a family, by its path and its bracket, with what takes an argument out of it.

    A call of one method may be one of another as well, by ``super`` for one; it is changed once.
    """
    firsts = [first for first, *_ in family]
    classes = {each: classes_below(workspace, each.target) if each.is_method else frozenset() for each in firsts}
    calls = {each: set(found_calls(workspace, each.target)) for each in firsts}
    others = inferred.found(besides=set[tuple[str, int]]().union(*calls.values()))
    found: dict[tuple[str, int], Edit | None] = {}
    for first in firsts:
        for call_path, opening in calls[first] | others:
            text = read_source(workspace, call_path).text
            bare = classes[first] if (call_path, opening) not in others else frozenset().union(*classes.values())
            edit = _argument_removal(call_path, text, opening, name, first, bare)
            if found.setdefault((call_path, opening), edit) != edit:
                line = text.count("\n", 0, opening) + 1
                raise EditRefusedError(
                    Refusal.NOT_POSSIBLE,
                    f"the call at {call_path}:{line} may be of methods that have {name} in different places",
                    "give it the same place in all of them first",
                )
    return found


def rename_parameter(workspace: Workspace, path: str, symbol: str, old: str, new: str) -> Refactoring:
    """Rename a parameter in its function and in the calls that pass it by name.

    A method has it renamed together with those that override it.

    Raises:
        EditRefusedError: There is no such parameter, or the new name is none or is taken.
    """
    target = find_python(workspace, path, symbol)
    check_name(new)
    if is_starred(first := Definition(target), old):
        changes, left = with_described(
            rename_starred(first, old, new, f"rename {old} of {target.label} to {new}"), old, new
        )
        return finished(workspace, changes, (*notes_on_lookups(target, old), *on_prose(old, left)), (old, new))
    _refuse_unknown(target, old)
    refuse_class_keyword(workspace, target, old)
    refuse_twin(workspace, target, old)
    captured: dict[str, None] = {}
    guessed: dict[str, None] = {}

    def rename(forked: Workspace, definitions: tuple[Definition, ...]) -> ChangeSet:
        uses: dict[str, set[int]] = {}
        for each in definitions:
            if new in each.parameter_names or each.uses(new):
                raise EditRefusedError(
                    Refusal.NOT_POSSIBLE, f"{each.target.label} uses the name {new} already", "choose another name"
                )
        captured.update(dict.fromkeys(check_captured(forked, definitions, new)))
        for each in definitions:
            for used_path, place in found_uses(forked, each, old):
                # ``case Box(size=1)`` looks at an attribute.
                if not is_pattern_keyword(read_source(forked, used_path).text, place, old):
                    uses.setdefault(used_path, set()).add(place)
            uses.setdefault(each.target.source.path, set()).update(places_in_cases(each, old))
        if any(old in each.keywords for each in definitions):
            # What rope does not follow: ``cls(...)``, and keys behind ``**``.
            for called_path, openings in _calls_by_path(forked, definitions[0].target):
                text = read_source(forked, called_path).text
                if named := passed_places(text, openings, old):
                    uses.setdefault(called_path, set()).update(named)
        for used, places in uses.items():
            lines = guessed_lines(read_source(forked, used).text, places, definitions[0].target)
            guessed.update(dict.fromkeys(f"{used}:{line}" for line in lines))
        return _edited(
            forked,
            {used: [Edit(place, place + len(old), new) for place in places] for used, places in uses.items()},
        )

    changes, forked = _in_family(workspace, f"rename {old} of {target.label} to {new}", target, old, rename)
    changes = with_starred(changes, forked, target, old, new)
    outside = check_outside_parameter(workspace, target, old, is_removed=False)
    notes = (*captured, *notes_on_stand_ins(workspace, target), *outside, *note_on_split_calls(workspace, first, old))
    notes += notes_on_meeting(workspace, target, old)
    notes += on_guessed([*guessed], target, new)
    if taking := _taking_by_name(forked, find_python(forked, path, symbol), new):
        meant = {call for each in taking for call in found_calls(forked, each)}
        with Inference(workspace) as inference:
            inferred = InferredCalls(workspace, target, inference)
            changes, unresolved = with_unresolved(workspace, changes, target, (old, new), meant, inferred)
        notes += unresolved
        changes = with_partials(workspace, changes, target, old, new)
        notes += notes_on_loose_uses(workspace, changes, target, old, is_removed=False)
    notes += (*notes_on_lookups(target, old), *notes_on_constructors_below(workspace, changes, target, old, new))
    changes, left = with_described(changes, old, new)
    notes += on_prose(old, left)
    return finished(workspace, changes, notes, (old, new))


def _in_family(
    workspace: Workspace,
    title: str,
    target: Target,
    name: str,
    change: Callable[[Workspace, tuple[Definition, ...]], ChangeSet],
) -> tuple[ChangeSet, Workspace]:
    """Change a function, and if it is a method, one after the other those of its family that have the parameter.

    Returns:
        The change, and a workspace over which it is laid.
    """
    forked = workspace.fork()
    changes = change_set(title, [])
    for member in family_of(workspace, target):
        definitions = definitions_of_one(find_python(forked, member.path, member.symbol))
        if taking := tuple(each for each in definitions if name in each.parameter_names):
            one = change(forked, taking)
            forked.take(one)
            changes = changes.merged(one)
    return changes, forked


def _taking_by_name(workspace: Workspace, target: Target, name: str) -> list[Target]:
    """Return the methods of a family that can be passed a parameter by its name."""
    family = [find_python(workspace, each.path, each.symbol) for each in family_of(workspace, target)]
    return [each for each in family if any(name in one.keywords for one in definitions_of_one(each))]


def _refuse_unknown(target: Target, name: str) -> None:
    definitions = definitions_of_one(target)
    names = list(dict.fromkeys(each for definition in definitions for each in definition.parameter_names))
    if name not in names:
        known = ", ".join(names) or "none"
        raise EditRefusedError(
            Refusal.NO_TARGET, f"{target.label} has no parameter {name}", f"its parameters are {known}"
        )


def _edited(workspace: Workspace, edits: dict[str, list[Edit]]) -> ChangeSet:
    return change_set("", [edited(read_source(workspace, path), _outer(places)) for path, places in edits.items()])


def _outer(edits: list[Edit]) -> list[Edit]:
    """Return the edits that are not inside what another one takes out, such as a call within an argument."""
    return [
        each
        for each in edits
        if not any(other is not each and other.start <= each.start and each.end <= other.end for other in edits)
    ]


def _calls_by_path(workspace: Workspace, target: Target) -> Iterable[tuple[str, set[int]]]:
    """Return where the brackets of the calls of a function open, in each file that has some."""
    found: dict[str, set[int]] = {}
    for path, opening in found_calls(workspace, target):
        found.setdefault(path, set()).add(opening)
    return found.items()


def _argument_removal(
    path: str, text: str, opening: int, name: str, function: Definition, classes: Collection[str]
) -> Edit | None:
    pieces = split_arguments(text, opening + 1)
    words = [text[start:end].strip() for start, end in pieces]
    for index, word in enumerate(words):
        if name not in function.positional_only and re.match(rf"{re.escape(name)}\s*=(?!=)", word):
            return removal_of(text, pieces, index)
    if any(word.startswith("*") for word in words):
        line = text.count("\n", 0, opening) + 1
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"the call at {path}:{line} passes * or **, so that nobody can tell whether {name} is among it",
            "change that call first",
        )
    place = _place_of(text, opening, name, function, classes)
    if place is None:
        return None
    by_place = [word for word in words if not re.match(r"\w+\s*=(?!=)", word)]
    return removal_of(text, pieces, place) if place < len(by_place) else None


def _place_of(text: str, opening: int, name: str, function: Definition, classes: Collection[str]) -> int | None:
    """Return which of the arguments of a call is a parameter, if it is passed by place: from 0.

    Args:
        text: The file with the call.
        opening: Where its bracket opens.
        name: The parameter.
        function: What is called.
        classes: The names through which a method is called without an object, which comes first then.
    """
    receiver = re.search(r"(\w+)\s*\.\s*(\w+)\s*\Z", text[:opening])
    is_bare = receiver is not None and receiver[1] in classes and receiver[2] == function.target.name
    is_bound = function.is_method and (not is_bare or function.is_class_method)
    names = function.positional[1:] if is_bound else function.positional
    return names.index(name) if name in names else None


def finished(
    workspace: Workspace,
    changes: ChangeSet,
    notes: tuple[str, ...] = (),
    renamed: tuple[str, str] | None = None,
) -> Refactoring:
    """Return a change of a signature as a refactoring, if it is sound; see ``check_sound``.

    Raises:
        EditRefusedError: It is not, or nothing would change.
    """
    if not changes.files:
        raise EditRefusedError(Refusal.NO_OP, f"{changes.title}: nothing would change")
    check_imports(workspace, changes)
    told = notes_on_shown(changes, renamed[1]) if renamed is not None else ()
    return Refactoring(changes, (*notes, *told, *check_sound(changes, renamed)))
