"""Finds with rope the calls of a Python function, and the uses of a parameter of it."""

from typing import TYPE_CHECKING

from khepri.edits.change import FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.locate import Target, read_source
from khepri.edits.rope_project import RopeProject
from khepri.edits.signature import Definition
from khepri.edits.super_uses import is_super_use
from khepri.edits.workspace import Workspace

if TYPE_CHECKING:
    from rope.base.change import ChangeSet as RopeChanges


def found_calls(workspace: Workspace, target: Target) -> list[tuple[str, int]]:
    """Return the path and the place of the opening bracket of every call that rope finds.

    Raises:
        EditRefusedError: rope refuses.
    """
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
    calls = []
    for path, veiled_place in found:
        text = read_source(workspace, path).text
        place = project.unveiled(text, veiled_place)
        opening = text.find("(", place)
        if opening >= 0 and not text[place:opening].strip():
            calls.append((path, opening))
    return calls


def found_uses(workspace: Workspace, definition: Definition, name: str) -> list[tuple[str, int]]:
    """Return the path and the place of every use of a parameter: its declaration, the body, calls that name it.

    Raises:
        EditRefusedError: rope refuses.
    """
    # rope knows no parameter that is keyword-only or positional-only, so it is shown the function with plain ones.
    source = definition.target.source
    shown = workspace.fork()
    plain = replace_text(source.data, definition.with_plain_parameters())
    shown.take(change_set("", [FileChange(source.path, source.data, plain)]))
    project = RopeProject(shown, hides_async=True)
    has_keyword = name not in definition.positional_only
    found: list[tuple[str, int]] = []

    def run() -> "RopeChanges":
        from rope.base.change import ChangeSet as RopeChanges
        from rope.refactor.occurrences import create_finder
        from rope.refactor.rename import Rename

        offset = project.place(source.text, definition.parameter_offset(name))
        meant = Rename(project.project, project.file(source.path), offset)
        finder = create_finder(
            project.project, name, meant.old_pyname, instance=meant.old_instance, keywords=has_keyword
        )
        for file in project.candidates(name):
            found.extend((file.path, each.get_word_range()[0]) for each in finder.find_occurrences(file))
        return RopeChanges("")

    project.change_of(f"find the uses of {name} of {definition.target.label}", run)
    return [(path, project.unveiled(read_source(workspace, path).text, place)) for path, place in found]
