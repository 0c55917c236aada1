"""Moves and extracts Python code; the latter with rope."""

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.creation import new_target
from khepri.edits.exact import replace_text
from khepri.edits.locate import Target, read_python, read_source
from khepri.edits.moving.circles import refuse_circle
from khepri.edits.moving.coroutines import with_waiting
from khepri.edits.moving.extracted_name import check_extracted_name
from khepri.edits.moving.extraction import called_on_class, class_around, misshapen, taken_away, unlike
from khepri.edits.moving.module_attributes import asked_of
from khepri.edits.moving.moved_meaning import notes_on_move
from khepri.edits.moving.moving import moved
from khepri.edits.moving.plain_lines import PlainLines
from khepri.edits.moving.redirection import (
    Move,
    named_plainly,
    notes_on_public_name,
    redirect_imports,
    without_gone_name,
)
from khepri.edits.moving.type_only import refuse_type_only
from khepri.edits.python.fixtures import note_on_moved_fixture
from khepri.edits.python.hidden_modules import refuse_hidden_modules
from khepri.edits.python.imports import (
    Modules,
    check_imports,
    check_passed_on,
    imported_from,
)
from khepri.edits.python.origins import Module, made_by
from khepri.edits.python.other_files import note_on_place
from khepri.edits.python.rope_project import RopeProject
from khepri.edits.python.trees import tree_of
from khepri.edits.python.variables import find_definition_or_variable
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.composed_names import composed_places
from khepri.edits.rename.rename import Refactoring, check_name
from khepri.edits.rename.rename_notes import shown
from khepri.edits.soundness import check_sound
from khepri.edits.workspace import Workspace
from khepri.repo.text import decode, text_or_nothing

if TYPE_CHECKING:
    from rope.base.change import ChangeSet as RopeChanges


def move(workspace: Workspace, path: str, symbol: str, destination: str) -> Refactoring:
    """Move a top-level definition or variable into another Python file, which may be new, and mend every import of it.

    Raises:
        EditRefusedError: There is no such definition, it is not at the top level, or rope refuses.
    """
    target = _whole(find_definition_or_variable(read_python(workspace, path), symbol))
    if "." in target.symbol or not target.symbol:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE, f"{target.label} is not at the top level of its file", "move the class, or by hand"
        )
    place = _destination(workspace, destination)
    _refuse_unreachable(workspace, target, place)
    changes = redirect_imports(workspace, _moved(workspace, target, place), target.name, target.source.path, place)
    check_imports(workspace, changes)
    check_passed_on(workspace, changes)
    refuse_hidden_modules(workspace, changes)
    notes = check_sound(changes)
    refuse_circle(workspace, changes)
    named = _named_still(workspace, changes, target)
    elsewhere = note_on_place(workspace, changes, Modules(workspace).name(target.source.path), target.name)
    modules = Modules(workspace, changes)
    step = Move(target.name, modules.name(target.source.path), modules.name(place))
    refuse_type_only(changes, modules, target.source.path, place)
    public = notes_on_public_name(changes, step, target.source.path, place)
    if looked := composed_places(workspace, changes, target, ()):
        looks = "looks" if len(looked) == 1 else "look"
        named.append(
            f"{shown(looked)} {looks} in {step.source} for a name that may be {target.name}: it is in {place} now"
        )
    meaning = (*notes_on_move(workspace, changes, target, place), *note_on_moved_fixture(target, place))
    return Refactoring(changes, (*notes, *named, *public, *elsewhere, *meaning))


def _whole(target: Target) -> Target:
    """Return a variable with the lines of the statement that makes it.

    Raises:
        EditRefusedError: Several do.
    """
    if target.kind != "variable":
        return target
    made = [node for node in tree_of(target.source.text).body if target.name in made_by(node)]
    if len(made) > 1:
        lines = ", ".join(str(node.lineno) for node in made)
        raise EditRefusedError(
            Refusal.AMBIGUOUS,
            f"{target.name} is made more than once in {target.source.path}, at lines {lines}",
            "give it one value first",
        )
    node = made[0] if made else None
    return replace(target, start_line=node.lineno, end_line=node.end_lineno or node.lineno) if node else target


def _moved(workspace: Workspace, target: Target, place: str) -> ChangeSet:
    """Return the change of the two files between which a definition moves."""
    modules = Modules(workspace)
    here, before = target.source, workspace.read(place)
    source, goal = (
        Module(modules.name(path), modules.package(path), path, text)
        for path, text in ((here.path, here.text), (place, decode(before).text if before is not None else ""))
    )
    goal = replace(goal, text=named_plainly(goal.text, goal.package, Move(target.name, source.name, goal.name)))
    lines = target.start_line, target.end_line
    exported = imported_from(workspace, modules, here.path) | asked_of(workspace, source.name)
    left, received = moved(source, goal, target.name, lines, exported)
    after = received.encode() if before is None else replace_text(before, received, place)
    gone = FileChange(here.path, here.data, replace_text(here.data, left, here.path))
    changes = change_set(f"move {target.name} to {place}", [gone, FileChange(place, before, after)])
    return without_gone_name(changes, target.source.path, target.name)


def _named_still(workspace: Workspace, changes: ChangeSet, target: Target) -> list[str]:
    """Return a note on where what has moved is still named by its old module: in strings, which tests patch by."""
    module = Modules(workspace).name(target.source.path)
    name = f"{module}.{target.name}"
    home, own = re.escape(module), re.escape(target.name)
    written = rf"{home}[.:]{own}|from {home} import (?:[\w, ]*, )?{own}"
    # Behind a dot the module may be had from its package, however that is called there.
    had = rf"\.{re.escape(module.rpartition('.')[2])}\.{own}" if "." in module else written
    pattern = re.compile(rf"(?:(?<![\w.])(?:{written})|{had})(?!\w)")
    after = {change.path: change.after for change in changes.files}
    places = []
    for path in sorted({*after, *(path for path in workspace.files() if path.endswith(".py"))}):
        data = after[path] if path in after else workspace.read(path)
        lines = text_or_nothing(data).split("\n") if data is not None and target.name.encode() in data else []
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
    if owner := class_around(source.text, start_line, end_line):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{source.path}:{start_line}-{end_line} stands in the body of the class {owner}, which runs as it is made",
            "choose lines of one of its methods",
        )
    plain = PlainLines(source.text)
    shown_as = workspace.fork()
    shown_as.take(
        change_set("", [FileChange(source.path, source.data, replace_text(source.data, plain.text, source.path))])
    )
    project = RopeProject(shown_as)
    title = f"extract {new_name} from {source.path}:{start_line}-{end_line}"

    def run() -> "RopeChanges":
        from khepri.edits.moving.rope_extract import extract_function

        rows = plain.text.split("\n")
        start = project.place(plain.text, sum(len(row) + 1 for row in rows[: plain.line(start_line) - 1]))
        end = project.place(plain.text, sum(len(row) + 1 for row in rows[: plain.line(end_line)]))
        return extract_function(project.project, project.file(source.path), start, end, new_name)

    found = project.change_of(title, run)
    made = [
        FileChange(each.path, source.data, replace_text(source.data, plain.restored(each.new_text), each.path))
        for each in found.files
    ]
    for change in made:
        if why := misshapen(source.text, change.new_text) or taken_away(workspace, source, change.new_text):
            raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{title}: {why}", "choose other lines, or change that first")
    extracted = [_spaced(change, new_name) for change in made]
    waiting = [with_waiting(change, new_name) for change in extracted]
    changes = change_set(title, [called_on_class(change, new_name) for change in waiting])
    check_imports(workspace, changes)
    check_passed_on(workspace, changes)
    notes = check_sound(changes)
    for change in changes.files:
        notes = (*notes, *check_extracted_name(workspace, change, new_name))
        if why := unlike(change, new_name):
            raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{title}: {why}", "choose other lines, or change that first")
    return Refactoring(changes, notes)


def _destination(workspace: Workspace, written: str) -> str:
    """Return the path that a file or a dotted module names, existing or not."""
    path = written.strip().strip("`'\"").removeprefix("./")
    if "/" not in path and not path.endswith(".py"):
        path = path.replace(".", "/") + ".py"
    if not path.endswith(".py"):
        raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{path[:80]} is no Python file", "name a file such as src/x.py")
    known = workspace.read(path) is not None
    return (read_source(workspace, path) if known else new_target(workspace, path).source).path


def _refuse_unreachable(workspace: Workspace, target: Target, place: str) -> None:
    """Refuse a file in another folder that is no package: nobody can tell by which name it would be imported."""
    folder = place.rpartition("/")[0]
    if (
        not folder
        or folder == target.source.path.rpartition("/")[0]
        or folder in workspace.namespaces
        or workspace.read(f"{folder}/__init__.py") is not None
    ):
        return
    raise EditRefusedError(
        Refusal.NOT_POSSIBLE,
        f"{folder} has no __init__.py, so that nobody can tell how {target.name} would be imported from {place}",
        f"make {folder}/__init__.py first, or choose a file in a package or beside {target.source.path}",
    )


def _spaced(change: FileChange, name: str) -> FileChange:
    """Give a new function at the top level the two empty lines before it that the style of Python asks for."""
    if change.after is None:
        return change
    text = decode(change.after).text
    spaced = re.sub(rf"(?<=[^\n])\n+(?=(?:async )?def {re.escape(name)}\()", "\n\n\n", text)
    return FileChange(change.path, change.before, replace_text(change.after, spaced, change.path))
