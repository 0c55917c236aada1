"""Puts the body of a Python function in the place of its calls, with rope, where it does there what the calls did."""

import ast
from typing import TYPE_CHECKING

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.inlining.inline_brackets import with_brackets, without_brackets_before
from khepri.edits.inlining.inline_order import displaced_call
from khepri.edits.inlining.inline_safety import is_called, repeated_call, tied, torn_results, with_plain_names
from khepri.edits.locate import Target, find_python
from khepri.edits.moving.circles import refuse_circle
from khepri.edits.moving.redirection import without_gone_name
from khepri.edits.python.class_relations import Classes
from khepri.edits.python.families import overrides
from khepri.edits.python.imports import (
    Modules,
    bindings_of,
    check_imports,
    check_passed_on,
)
from khepri.edits.python.inline_names import clashing_call, top_level_names
from khepri.edits.python.namesakes import Namesakes
from khepri.edits.python.other_files import note_on_name
from khepri.edits.python.outside_bases import check_outside
from khepri.edits.python.reflection import named_uses
from khepri.edits.python.rope_project import RopeProject
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.rename import Refactoring, refuse_special
from khepri.edits.rename.rename_notes import shown
from khepri.edits.soundness import check_sound
from khepri.edits.workspace import Workspace
from khepri.repo.text import decode

if TYPE_CHECKING:
    from rope.base.change import ChangeSet as RopeChanges


def inline(workspace: Workspace, path: str, symbol: str) -> Refactoring:
    """Put the body of a function in the place of every call, and remove the function.

    Raises:
        EditRefusedError: There is no such function, its body would mean something else in the place of a call, or
            rope refuses.
    """
    target = find_python(workspace, path, symbol)
    refuse_special(target.name, "cannot go", "leave it")
    function = _function(target)
    bracketed = with_brackets(workspace, target.source, _torn_results(workspace, target, function))
    outside = check_outside(Classes(workspace), target)
    project = RopeProject(bracketed)
    title = f"inline {target.label}"

    def run() -> "RopeChanges":
        from khepri.edits.inlining.rope_inline import inline_function

        place = project.offset(find_python(bracketed, path, symbol))
        file, files = project.file(target.source.path), project.candidates(target.name)
        return inline_function(project.project, file, place, files, function)

    changes = without_brackets_before(workspace, project.change_of(title, run))
    changes = without_gone_name(_with_gap(_plainly_named(changes), target), target.source.path, target.name)
    _refuse_leftovers(workspace, changes, target)
    check_imports(workspace, changes)
    check_passed_on(workspace, changes)
    notes = check_sound(changes)
    refuse_circle(workspace, changes)
    elsewhere = note_on_name(workspace, changes, Modules(workspace).name(target.source.path), target.name)
    return Refactoring(changes, (*outside, *notes, *elsewhere))


def _refuse_leftovers(workspace: Workspace, changes: ChangeSet, target: Target) -> None:
    """Refuse to remove a function while something may still use it."""
    namesakes = Namesakes(workspace, target, {change.path: change.after for change in changes.files})
    left = [f"{path}:{line}" for path in namesakes.paths for line in namesakes.places(path).values()]
    if left:
        uses = f"{len(left)} uses of {target.name} would be left, the first"
        uses = uses if len(left) > 1 else f"a use of {target.name} would be left"
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{target.label} cannot go: {uses} at {left[0]}",
            "they may be calls on objects of unknown type; change them first",
        )


def _torn_results(workspace: Workspace, target: Target, function: ast.FunctionDef | None) -> set[ast.expr]:
    """Return what a function returns that needs brackets in the place of some calls.

    Raises:
        EditRefusedError: The body would mean something else in the place of a call, or act more than once.
    """
    if function is None:
        return set()  # rope says what is wrong with it
    if why := tied(function):
        raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{target.label} cannot be inlined: {why}", "change that first")
    if others := overrides(workspace, target):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{target.label} cannot be inlined: a call of it may mean {shown(others)}",
            "an object decides which of them is called; rename one of them first if they have nothing in common",
        )
    if named := next(named_uses(workspace, target), None):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{target.label} cannot be inlined: {named.path}:{named.line} has it by a text that names it",
            "it may be replaced or looked for there; change that first",
        )
    torn: set[ast.expr] = set()
    namesakes, has_calls = Namesakes(workspace, target), False
    lines = target.start_line, target.end_line
    for path in namesakes.paths:
        text, meant = decode(workspace.read(path) or b"").text, namesakes.places(path)
        has_calls = has_calls or is_called(text, meant)
        torn.update(torn_results(function, text, meant))
        repeated = repeated_call(function, text, meant)
        is_home = path == target.source.path
        known = {} if is_home else _known_names(workspace, target.source.path, path)
        clash = clashing_call(function, text, meant, definition=lines if is_home else None, known=known)
        if clash is not None:
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"{clash[1]} would stand for something else with the body of {target.name} at {path}:{clash[0]}",
                f"rename {clash[1]} in one of them first",
            )
        displaced = displaced_call(function, text, meant)
        if displaced is not None:
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"{target.name} and what is passed to it at {path}:{displaced} would run at another time there",
                "call it in a statement of its own, and assign what is passed to a name first",
            )
        if repeated is not None:
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"what {path}:{repeated} passes to {target.name} would not be evaluated exactly once any more",
                "assign it to a name first",
            )
    if not has_calls:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE, f"nothing calls {target.label} here", "remove it, if nobody else needs it"
        )
    return torn


def _function(target: Target) -> ast.FunctionDef | None:
    """Return the function that is to be inlined, as a node of the tree of its file; None for anything else.

    Raises:
        EditRefusedError: It is asynchronous.
    """
    try:
        tree = tree_of(target.source.text)
    except (SyntaxError, ValueError, RecursionError):
        return None
    for node in all_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == target.name:
            if min(each.lineno for each in (node, *node.decorator_list)) == target.start_line:
                if isinstance(node, ast.FunctionDef):
                    return node
                why = f"{target.label} cannot be inlined: it is asynchronous"
                raise EditRefusedError(Refusal.NOT_POSSIBLE, why, "change that first")
    return None


def _known_names(workspace: Workspace, home: str, path: str) -> dict[str, bool]:
    """Return the names at the top level of a file, each with whether it stands for the same in another."""
    modules = Modules(workspace)
    here, there = (ast.parse(decode(workspace.read(each) or b"").text) for each in (home, path))
    own, imported = bindings_of(here, modules.package(home)), bindings_of(there, modules.package(path))
    name = modules.name(home)
    return {
        each: each in imported and imported[each] in (own.get(each), f"{name}.{each}")
        for each in top_level_names(there)
    }


def _plainly_named(changes: ChangeSet) -> ChangeSet:
    files = []
    for change in changes.files:
        after = change.after
        if after is not None and change.before is not None:
            after = replace_text(after, with_plain_names(decode(change.before).text, decode(after).text), change.path)
        files.append(FileChange(change.path, change.before, after))
    return change_set(changes.title, files)


def _with_gap(changes: ChangeSet, target: Target) -> ChangeSet:
    """Leave as many empty lines as there were where a function has gone; the library takes those below along."""
    rows = target.source.text.split("\n")
    below = next((number for number in range(target.end_line, len(rows)) if rows[number].strip()), None)
    if below is None:
        return changes
    wanted = max(_empty_above(rows, target.start_line - 1), _empty_above(rows, below))
    files = []
    for change in changes.files:
        after = change.after
        if change.path == target.source.path and after is not None:
            lines = decode(after).text.split("\n")
            place = lines.index(rows[below]) if lines.count(rows[below]) == 1 else 0
            if place > (gap := _empty_above(lines, place)):
                lines[place:place] = [""] * (wanted - gap)
                after = replace_text(after, "\n".join(lines), change.path)
        files.append(FileChange(change.path, change.before, after))
    return change_set(changes.title, files)


def _empty_above(lines: list[str], place: int) -> int:
    return next((number for number in range(place) if lines[place - number - 1].strip()), place)
