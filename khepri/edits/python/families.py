"""Finds the methods that override a method or are overridden by it: what is true of one must be true of all."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from khepri.edits.change import ChangeSet
from khepri.edits.locate import Target, read_source
from khepri.edits.python.class_relations import relatives
from khepri.edits.python.found_calls import classes_below
from khepri.edits.python.rope_project import RopeProject
from khepri.edits.python.super_uses import CONSTRUCTORS
from khepri.edits.workspace import Workspace
from khepri.repo.symbols import outline

if TYPE_CHECKING:
    from rope.base.change import ChangeSet as RopeChanges
    from rope.base.pynames import PyName
    from rope.base.pyobjects import AbstractClass


@dataclass(frozen=True)
class Member:
    """A method of a family."""

    path: str
    symbol: str
    """Its qualified name."""
    is_override: bool
    """True if it overrides the method that the family was asked for; False for that one itself as well."""


def family_of(workspace: Workspace, target: Target) -> tuple[Member, ...]:
    """Return a method and its family, the method first: what overrides it, and what a class has it mixed with.

    A function is alone, and so is a constructor, which stands for no other.

    Raises:
        EditRefusedError: rope refuses.
    """
    itself = Member(target.source.path, target.symbol, is_override=False)
    if not target.is_member or target.name in CONSTRUCTORS:
        return (itself,)
    project = RopeProject(workspace, hides_async=True)
    places: list[tuple[str, int, bool]] = []

    def run() -> "RopeChanges":
        from rope.base import evaluate
        from rope.base.change import ChangeSet as RopeChanges
        from rope.refactor.occurrences import create_finder

        module = project.project.get_pymodule(project.file(target.source.path))
        instance, name = evaluate.eval_location2(module, project.offset(target))
        if name is not None:
            own = _class_of(name)
            finder = create_finder(project.project, target.name, name, instance=instance, in_hierarchy=True)
            for file in project.candidates(target.name):
                for each in finder.find_occurrences(file):
                    if each.is_defined():
                        places.append((file.path, each.lineno, _is_below(_class_of(each.get_pyname()), own)))
        return RopeChanges("")

    changes: ChangeSet = project.change_of(f"find the family of {target.label}", run)
    assert not changes.files
    found = [itself]
    for path, line, is_override in places:
        symbol = _symbol_at(workspace, target.name, path, line)
        if symbol is not None and (path, symbol) not in {(each.path, each.symbol) for each in found}:
            found.append(Member(path, symbol, is_override))
    known = {(each.path, each.symbol) for each in found}
    mixed = [each for each in relatives(workspace, target) if each.is_method and (each.path, each.symbol) not in known]
    return (*found, *(Member(each.path, each.symbol, is_override=False) for each in mixed))


def overrides(workspace: Workspace, target: Target) -> list[str]:
    """Return what a call of a method may mean as well: its family, what classes below have, what is set on an object.

    Raises:
        EditRefusedError: rope refuses.
    """
    if target.kind != "method":
        return []
    found = {f"{each.path}:{each.symbol}" for each in family_of(workspace, target)[1:]}
    found |= {f"{each.path}:{each.symbol}" for each in relatives(workspace, target)}
    below = classes_below(workspace, target) - {target.symbol.split(".")[-2]}
    for path in workspace.files() if below else ():
        data = workspace.read(path) if path.endswith(".py") else None
        if data is not None and target.name.encode() in data:
            symbols = outline(path, read_source(workspace, path).text)
            parts = (each.qualified_name.split(".") for each in symbols if each.name == target.name)
            found |= {f"{path}:{'.'.join(each)}" for each in parts if len(each) > 1 and each[-2] in below}
    return sorted(found)


def _class_of(name: "PyName") -> "AbstractClass | None":
    from rope.base.pyobjects import PyDefinedObject

    found = name.get_object()
    # A property is for rope what it returns.
    return found.get_scope().parent.pyobject if isinstance(found, PyDefinedObject) else None


def _is_below(pyclass: "AbstractClass | None", other: "AbstractClass | None") -> bool:
    from rope.base.pyobjects import AbstractClass

    if not isinstance(pyclass, AbstractClass) or other is None:
        return False
    queue, seen = [pyclass], []
    while queue:
        # What rope does not know is a base class of its own kind.
        for base in queue.pop().get_superclasses():
            if base == other:
                return True
            if isinstance(base, AbstractClass) and base not in seen:
                seen.append(base)
                queue.append(base)
    return False


def _symbol_at(workspace: Workspace, name: str, path: str, line: int) -> str | None:
    symbols = outline(path, read_source(workspace, path).text)
    around = [each for each in symbols if each.name == name and each.start_line <= line <= each.end_line]
    return max(around, key=lambda each: each.start_line).qualified_name if around else None
