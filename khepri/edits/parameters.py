"""Adds, removes and renames a parameter of a Python function, its calls included.

rope finds the calls. It does not write the definition: its own change of a signature drops annotations and breaks
keyword-only parameters, so the text is edited here, at the places that ``ast`` gives.
"""

import ast
import builtins
import keyword
import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.families import family_of
from khepri.edits.imports import check_imports
from khepri.edits.locate import Target, find_python, read_source
from khepri.edits.mentions import uses_of
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename import Refactoring, check_name
from khepri.edits.rope_project import RopeProject
from khepri.edits.signature import Definition, Edit, removal_of, split_arguments, with_edits
from khepri.edits.soundness import check_sound
from khepri.edits.super_uses import is_super_use
from khepri.edits.unresolved_calls import refuse_unresolved, with_unresolved
from khepri.edits.workspace import Workspace

if TYPE_CHECKING:
    from rope.base.change import ChangeSet as RopeChanges


def add_parameter(
    workspace: Workspace, path: str, symbol: str, name: str, default: str, annotation: str = ""
) -> Refactoring:
    """Add a parameter with a default after the others, so that no call has to change.

    Raises:
        EditRefusedError: There is no such function, it has that parameter, or the default is no expression.
    """
    function = Definition(find_python(workspace, path, symbol))
    check_name(name)
    if not default.strip():
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"a new parameter of {function.target.label} needs a default, or every call would break",
            "name a default, such as None",
        )
    for words in filter(None, (default, annotation)):
        _check_expression(words)
    default = _as_meant(default, function.text)
    if name in function.parameter_names:
        raise EditRefusedError(Refusal.NO_OP, f"{function.target.label} has a parameter {name} already")
    text = f"{name}: {annotation} = {default}" if annotation else f"{name}={default}"
    edit = function.insertion(text)
    title = f"add {text} to {function.target.label}"
    return _finished(workspace, change_set(title, [_edited(function.target, [edit])]))


def remove_parameter(workspace: Workspace, path: str, symbol: str, name: str) -> Refactoring:
    """Remove a parameter that the function does not use, and what its calls pass for it.

    A method loses it together with those that override it.

    Raises:
        EditRefusedError: There is no such parameter, it is used, or a call hides what it passes behind ``*`` or ``**``.
    """
    function = Definition(find_python(workspace, path, symbol))
    if name not in function.parameter_names:
        known = ", ".join(function.parameter_names) or "none"
        raise EditRefusedError(
            Refusal.NO_TARGET, f"{function.target.label} has no parameter {name}", f"its parameters are {known}"
        )

    def remove(forked: Workspace, member: Definition) -> ChangeSet:
        used = member.uses(name)
        if used:
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"{member.target.label} uses {name} at line {used[0]}",
                "rewrite the function without it first",
            )
        return _without(forked, member, name)

    title = f"remove {name} from {function.target.label}"
    changes, _ = _in_family(workspace, title, function, name, remove)
    return _finished(workspace, changes, refuse_unresolved(workspace, changes, function.target, name))


def _without(workspace: Workspace, function: Definition, name: str) -> ChangeSet:
    edits: dict[str, list[Edit]] = {function.target.source.path: [function.removal(name)]}
    sources = {function.target.source.path: function.target.source}
    for call_path, offset in _calls(workspace, function.target):
        source = sources.setdefault(call_path, read_source(workspace, call_path))
        edit = _argument_removal(source.text, offset, name, function)
        if edit is not None:
            edits.setdefault(call_path, []).append(edit)
    files = []
    for edited_path, places in edits.items():
        source = sources[edited_path]
        after = replace_text(source.data, with_edits(source.text, places))
        files.append(FileChange(edited_path, source.data, after))
    return change_set("", files)


def rename_parameter(workspace: Workspace, path: str, symbol: str, old: str, new: str) -> Refactoring:
    """Rename a parameter in its function and in the calls that pass it by name.

    A method has it renamed together with those that override it.

    Raises:
        EditRefusedError: There is no such parameter, or the new name is none or is taken.
    """
    function = Definition(find_python(workspace, path, symbol))
    check_name(new)
    function.parameter_offset(old)
    title = f"rename {old} of {function.target.label} to {new}"

    def rename(forked: Workspace, member: Definition) -> ChangeSet:
        if new in member.parameter_names or member.uses(new):
            raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{member.target.label} uses the name {new} already")
        project = RopeProject(forked, hides_async=True)

        def run() -> "RopeChanges":
            from rope.refactor.rename import Rename

            offset = project.place(member.target.source.text, member.parameter_offset(old))
            refactoring = Rename(project.project, project.file(member.target.source.path), offset)
            return refactoring.get_changes(new, resources=project.candidates(old))

        return project.change_of(title, run)

    changes, forked = _in_family(workspace, title, function, old, rename)
    meant = {*_calls(forked, find_python(forked, path, symbol))}
    changes, notes = with_unresolved(workspace, changes, function.target, (old, new), meant)
    return _finished(workspace, changes, notes)


def _in_family(
    workspace: Workspace,
    title: str,
    function: Definition,
    name: str,
    change: Callable[[Workspace, Definition], ChangeSet],
) -> tuple[ChangeSet, Workspace]:
    """Change a function, and if it is a method, one after the other those of its family that have the parameter.

    Returns:
        The change, and a workspace over which it is laid.
    """
    forked = workspace.fork()
    changes = change_set(title, [])
    for path, symbol in family_of(workspace, function.target):
        member = Definition(find_python(forked, path, symbol))
        if name in member.parameter_names:
            one = change(forked, member)
            forked.take(one)
            changes = changes.merged(one)
    return changes, forked


def _as_meant(default: str, text: str) -> str:
    """Return a default as it was meant: a word that nothing in the file is called is a text that lost its quotes."""
    word = default.strip()
    if word.isidentifier() and not keyword.iskeyword(word) and not hasattr(builtins, word) and not uses_of(text, word):
        return f'"{word}"'
    return word


def _check_expression(words: str) -> None:
    try:
        ast.parse(words, mode="eval")
    except (SyntaxError, ValueError) as error:
        raise EditRefusedError(Refusal.SYNTAX, f"{words[:60]!r} is no Python expression") from error


def _calls(workspace: Workspace, target: Target) -> Iterator[tuple[str, int]]:
    """Yield the path and the place of the opening bracket of every call that rope finds."""
    from rope.refactor.occurrences import create_finder

    project = RopeProject(workspace, hides_async=True)
    resource = project.file(target.source.path)
    found: list[tuple[str, int]] = []

    def run() -> "RopeChanges":
        from rope.base import evaluate
        from rope.base.change import ChangeSet as RopeChanges

        module = project.project.get_pymodule(resource)
        primary, name = evaluate.eval_location2(module, project.offset(target))
        finder = create_finder(
            project.project,
            target.name,
            name,
            instance=primary,
            only_calls=True,
            unsure=lambda occurrence: is_super_use(occurrence, name),
        )
        for file in project.candidates(target.name):
            for occurrence in finder.find_occurrences(file):
                found.append((file.path, occurrence.get_word_range()[1]))
        return RopeChanges("")

    project.change_of(f"find the calls of {target.label}", run)
    for path, veiled_place in found:
        text = read_source(workspace, path).text
        place = project.unveiled(text, veiled_place)
        opening = text.find("(", place)
        if opening >= 0 and not text[place:opening].strip():
            yield path, opening


def _argument_removal(text: str, opening: int, name: str, function: Definition) -> Edit | None:
    if re.search(rf"\bdef\s+{re.escape(function.target.name)}\s*\Z", text[:opening]):
        return None
    pieces = split_arguments(text, opening + 1)
    words = [text[start:end].strip() for start, end in pieces]
    for index, word in enumerate(words):
        if re.match(rf"{re.escape(name)}\s*=(?!=)", word):
            return removal_of(text, pieces, index)
    if any(word.startswith("*") for word in words):
        line = text.count("\n", 0, opening) + 1
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"a call at line {line} passes * or **, so that nobody can tell whether {name} is among it",
            "change that call first",
        )
    names = function.positional[1:] if function.is_method else function.positional
    if name not in names:
        return None
    place = names.index(name)
    by_place = [word for word in words if not re.match(r"\w+\s*=(?!=)", word)]
    return removal_of(text, pieces, place) if place < len(by_place) else None


def _edited(target: Target, edits: list[Edit]) -> FileChange:
    source = target.source
    return FileChange(source.path, source.data, replace_text(source.data, with_edits(source.text, edits)))


def _finished(workspace: Workspace, changes: ChangeSet, notes: tuple[str, ...] = ()) -> Refactoring:
    if not changes.files:
        raise EditRefusedError(Refusal.NO_OP, f"{changes.title}: nothing would change")
    check_imports(workspace, changes)
    return Refactoring(changes, (*notes, *check_sound(changes)))
