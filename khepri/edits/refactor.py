"""Moves, extracts and inlines Python code with rope."""

import re
import textwrap
from typing import TYPE_CHECKING

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.coroutines import with_waiting
from khepri.edits.creation import new_target
from khepri.edits.exact import replace_text
from khepri.edits.imports import Modules, check_imports, check_passed_on, redirect_imports, refuse_circle
from khepri.edits.inline_safety import function_of, repeated_call, torn_call
from khepri.edits.locate import Target, find_python, read_python, read_source
from khepri.edits.mentions import public_names, uses_of, without_public_name
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename import Refactoring, check_name, shown
from khepri.edits.rope_project import RopeProject
from khepri.edits.soundness import check_sound
from khepri.edits.workspace import Workspace
from khepri.repo.text import decode

if TYPE_CHECKING:
    from rope.base.change import ChangeSet as RopeChanges


def move(workspace: Workspace, path: str, symbol: str, destination: str) -> Refactoring:
    """Move a top-level definition into another Python file, which may be new, and mend every import of it.

    Raises:
        EditRefusedError: There is no such definition, it is not at the top level, or rope refuses.
    """
    target = find_python(workspace, path, symbol)
    if "." in target.symbol or not target.symbol:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE, f"{target.label} is not at the top level of its file", "move the class, or by hand"
        )
    place = _destination(workspace, destination)
    project = RopeProject(workspace)
    title = f"move {target.name} to {place}"

    def run() -> "RopeChanges":
        from rope.refactor.move import create_move

        here = project.file(target.source.path)
        there = project.file(place) if workspace.read(place) is not None else project.new_file(place)
        files = {file.path: file for file in project.candidates(target.name)} | {here.path: here, there.path: there}
        return create_move(project.project, here, project.offset(target)).get_changes(
            there, resources=list(files.values())
        )

    changes = _public_names_moved(project.change_of(title, run), target)
    changes = redirect_imports(workspace, changes, target.name, target.source.path, place)
    check_imports(workspace, changes)
    check_passed_on(workspace, changes)
    notes = check_sound(changes)
    refuse_circle(workspace, changes, target.source.path, place)
    return Refactoring(changes, (*notes, *_named_still(workspace, project, changes, target)))


def _named_still(workspace: Workspace, project: RopeProject, changes: ChangeSet, target: Target) -> list[str]:
    """Return a note on where what has moved is still named by its old module: in strings, which tests patch by."""
    name = f"{Modules(workspace).name(target.source.path)}.{target.name}"
    after = {change.path: change.after for change in changes.files}
    places = []
    for path in sorted({*after, *(file.path for file in project.candidates(target.name))}):
        data = after[path] if path in after else workspace.read(path)
        lines = decode(data).text.split("\n") if data is not None else []
        pattern = re.compile(rf"(?<![\w.]){re.escape(name)}(?!\w)")
        places += [f"{path}:{number}" for number, line in enumerate(lines, 1) if pattern.search(line)]
    return [f"{name} still stands in {shown(places)}, and is not there any more"] if places else []


def extract(workspace: Workspace, path: str, start_line: int, end_line: int, new_name: str) -> Refactoring:
    """Make a function (or a method, inside a class) of some lines of another one, and call it in their place.

    Args:
        workspace: Where.
        path: A Python file.
        start_line: First line, from 1; whole statements only.
        end_line: Last line, inclusive.
        new_name: What the new function is called.

    Raises:
        EditRefusedError: The lines are not whole statements of a function, or rope refuses.
    """
    source = read_python(workspace, path)
    check_name(new_name)
    lines = source.text.split("\n")
    if not 1 <= start_line <= end_line <= len(lines):
        raise EditRefusedError(Refusal.NO_TARGET, f"{source.path} has no lines {start_line}-{end_line}")
    while start_line < end_line and not lines[start_line - 1].strip():
        start_line += 1
    while end_line > start_line and not lines[end_line - 1].strip():
        end_line -= 1
    project = RopeProject(workspace)
    title = f"extract {new_name} from {source.path}:{start_line}-{end_line}"

    def run() -> "RopeChanges":
        from rope.refactor.extract import ExtractMethod

        start = project.place(source.text, sum(len(line) + 1 for line in lines[: start_line - 1]))
        end = project.place(source.text, sum(len(line) + 1 for line in lines[:end_line]))
        return ExtractMethod(project.project, project.file(source.path), start, end).get_changes(new_name)

    extracted = [_spaced(change, new_name) for change in project.change_of(title, run).files]
    changes = change_set(title, [with_waiting(change, new_name) for change in extracted])
    check_imports(workspace, changes)
    check_passed_on(workspace, changes)
    return Refactoring(changes, check_sound(changes))


def inline(workspace: Workspace, path: str, symbol: str) -> Refactoring:
    """Put the body of a function in the place of every call, and remove the function.

    Raises:
        EditRefusedError: There is no such function, its body would need brackets in the place of a call, or rope
            refuses, as for one with several returns.
    """
    target = find_python(workspace, path, symbol)
    _refuse_unsafe_calls(workspace, target)
    project = RopeProject(workspace)
    title = f"inline {target.label}"

    def run() -> "RopeChanges":
        from rope.refactor.inline import create_inline

        refactoring = create_inline(project.project, project.file(target.source.path), project.offset(target))
        return refactoring.get_changes(resources=project.candidates(target.name))

    changes = _public_names_moved(project.change_of(title, run), target)
    _refuse_leftovers(workspace, changes, target)
    check_imports(workspace, changes)
    check_passed_on(workspace, changes)
    return Refactoring(changes, check_sound(changes))


def _destination(workspace: Workspace, written: str) -> str:
    """Return the path that a file or a dotted module names, existing or not."""
    path = written.strip().strip("`'\"").removeprefix("./")
    if "/" not in path and not path.endswith(".py"):
        path = path.replace(".", "/") + ".py"
    if not path.endswith(".py"):
        raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{path[:80]} is no Python file", "name a file such as src/x.py")
    known = workspace.read(path) is not None
    return (read_source(workspace, path) if known else new_target(workspace, path).source).path


def _public_names_moved(changes: ChangeSet, target: Target) -> ChangeSet:
    """Take a name that has left its module out of the ``__all__`` there."""
    files = []
    for change in changes.files:
        after = change.after
        if after is not None and change.path == target.source.path:
            text = decode(after).text
            if target.name in public_names(text):
                after = replace_text(after, without_public_name(text, target.name))
        files.append(FileChange(change.path, change.before, after))
    return change_set(changes.title, files)


def _refuse_leftovers(workspace: Workspace, changes: ChangeSet, target: Target) -> None:
    """Refuse to remove a function while something may still use it."""
    after = {change.path: change.after for change in changes.files}
    left = []
    for path in workspace.files():
        if path.endswith(".py"):
            data = after.get(path) if path in after else workspace.read(path)
            left += [f"{path}:{line}" for line in uses_of(decode(data).text if data else "", target.name)]
    if left:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{target.label} cannot go: {len(left)} uses of {target.name} would be left, the first at {left[0]}",
            "they may be calls on objects of unknown type; change them first",
        )


def _refuse_unsafe_calls(workspace: Workspace, target: Target) -> None:
    """Refuse to put a body in the place of a call that would mean something else there, or act more than once."""
    try:
        function = function_of(textwrap.dedent(target.text))
    except SyntaxError:
        return  # rope says what is wrong with it
    if function is None:
        return
    for path in workspace.files():
        data = workspace.read(path) if path.endswith(".py") else None
        text = decode(data).text if data else ""
        if target.name not in text:
            continue
        try:
            torn, repeated = torn_call(function, text), repeated_call(function, text)
        except SyntaxError:
            continue
        if torn is not None:
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"the call of {target.name} at {path}:{torn} needs brackets around what would stand there",
                "assign its result, or what is passed to it, to a name first",
            )
        if repeated is not None:
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"what {path}:{repeated} passes to {target.name} would not be evaluated exactly once any more",
                "assign it to a name first",
            )


def _spaced(change: FileChange, name: str) -> FileChange:
    """Give a new function at the top level the two empty lines before it that the style of Python asks for."""
    if change.after is None:
        return change
    text = decode(change.after).text
    spaced = re.sub(rf"(?<=[^\n])\n+(?=(?:async )?def {re.escape(name)}\()", "\n\n\n", text)
    return FileChange(change.path, change.before, replace_text(change.after, spaced))
