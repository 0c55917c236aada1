"""Finds the methods that override a method or are overridden by it: what is true of one must be true of all."""

from typing import TYPE_CHECKING

from khepri.edits.change import ChangeSet
from khepri.edits.locate import Target, read_source
from khepri.edits.rope_project import RopeProject
from khepri.edits.super_uses import CONSTRUCTORS
from khepri.edits.workspace import Workspace
from khepri.repo.symbols import outline

if TYPE_CHECKING:
    from rope.base.change import ChangeSet as RopeChanges


def family_of(workspace: Workspace, target: Target) -> list[tuple[str, str]]:
    """Return path and qualified name of a method and of its family, the method first.

    A function is alone, and so is a constructor, which stands for no other.

    Raises:
        EditRefusedError: rope refuses.
    """
    itself = (target.source.path, target.symbol)
    if "." not in target.symbol or target.name in CONSTRUCTORS:
        return [itself]
    project = RopeProject(workspace, hides_async=True)
    places: list[tuple[str, int]] = []

    def run() -> "RopeChanges":
        from rope.base import evaluate
        from rope.base.change import ChangeSet as RopeChanges
        from rope.refactor.occurrences import create_finder

        module = project.project.get_pymodule(project.file(target.source.path))
        instance, name = evaluate.eval_location2(module, project.offset(target))
        if name is not None:
            finder = create_finder(project.project, target.name, name, instance=instance, in_hierarchy=True)
            for file in project.candidates(target.name):
                places.extend((file.path, each.lineno) for each in finder.find_occurrences(file) if each.is_defined())
        return RopeChanges("")

    changes: ChangeSet = project.change_of(f"find the family of {target.label}", run)
    assert not changes.files
    found = (_symbol_at(workspace, target.name, path, line) for path, line in places)
    return list(dict.fromkeys([itself, *(each for each in found if each is not None)]))


def _symbol_at(workspace: Workspace, name: str, path: str, line: int) -> tuple[str, str] | None:
    symbols = outline(path, read_source(workspace, path).text)
    around = [each for each in symbols if each.name == name and each.start_line <= line <= each.end_line]
    return (path, max(around, key=lambda each: each.start_line).qualified_name) if around else None
