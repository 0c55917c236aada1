"""Finds with rope the calls of a Python function, and the uses of a parameter of it."""

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from khepri.edits.change import FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.locate import Target, find_python, read_source
from khepri.edits.python.calls import calls_of
from khepri.edits.python.class_relations import Class, Classes, relatives, sharing_classes
from khepri.edits.python.parameter_scopes import ParameterScopes
from khepri.edits.python.rope_project import RopeProject
from khepri.edits.python.signature import Definition
from khepri.edits.python.super_uses import CONSTRUCTORS, is_super_use
from khepri.edits.workspace import Workspace
from khepri.repo.symbols import outline

if TYPE_CHECKING:
    from rope.base.change import ChangeSet as RopeChanges
    from rope.base.pynames import PyName
    from rope.refactor.occurrences import Occurrence

_BUILDERS: Final = frozenset({"__init__", "__new__"})
_OWN_CLASS: Final = ("cls", "__class__", "type(self)")


def found_calls(workspace: Workspace, target: Target) -> list[tuple[str, int]]:
    """Return the path and the place of the opening bracket of every call that rope finds.

    Those of a constructor are the calls of its class, and of the classes that inherit it, also as ``cls`` or
    ``type(self)``.

    Raises:
        EditRefusedError: rope refuses.
    """
    calls = _calls(workspace, target)
    if is_builder(target):
        for each in _built_by(workspace, target):
            calls += _calls(workspace, each)
            inside = (call for name in _OWN_CLASS for call in calls_of(each.source.text, name))
            calls += [
                (each.source.path, call.opening) for call in inside if each.start_line <= call.line <= each.end_line
            ]
    return list(dict.fromkeys(calls))


def is_builder(target: Target) -> bool:
    """Return True for a method that runs when its class is called."""
    return "." in target.symbol and target.name in _BUILDERS


def classes_below(workspace: Workspace, target: Target) -> frozenset[str]:
    """Return the names of the class of a method and of those that may inherit it."""
    return frozenset(_family(workspace, target))


def _family(workspace: Workspace, target: Target) -> dict[str, list[Target]]:
    owner = find_python(workspace, target.source.path, target.symbol.rpartition(".")[0])
    bases = {owner.name: [owner]}
    queue = [owner.name]
    while queue:
        for each in _based_on(workspace, queue.pop()):
            if each.name not in bases:
                queue.append(each.name)
            bases.setdefault(each.name, []).append(each)
    return bases


def _built_by(workspace: Workspace, target: Target) -> list[Target]:
    """Return the class of a constructor and those that inherit it."""
    bases = _family(workspace, target)
    candidates = [each for classes in bases.values() for each in classes]
    project = RopeProject(workspace, hides_async=True)
    # rope does not know what ``class Low(Box[int])`` inherits.
    inheriting = _inheriting(workspace, target)
    found: list[Target] = []

    def run() -> "RopeChanges":
        from rope.base import evaluate
        from rope.base.change import ChangeSet as RopeChanges
        from rope.refactor.occurrences import same_pyname

        from khepri.edits.python.keyword_owners import is_made

        def meaning(at: Target) -> "PyName":
            module = project.project.get_pymodule(project.file(at.source.path))
            return evaluate.eval_location(module, project.offset(at))

        constructor = meaning(target)
        for each in dict.fromkeys(candidates):
            pyclass = meaning(each).get_object()
            if is_made(pyclass):
                continue
            is_found = target.name in pyclass and same_pyname(constructor, pyclass[target.name])
            if is_found or Class(each.source.path, each.symbol) in inheriting:
                found.append(each)
        return RopeChanges("")

    project.change_of(f"find the classes that {target.label} builds", run)
    return found


def _inheriting(workspace: Workspace, target: Target) -> set[Class]:
    """Return the classes below the one of a constructor that have no other, be it their own or a mixin's."""
    classes = Classes(workspace)
    owner = Class(target.source.path, target.symbol.rpartition(".")[0])
    known = classes.above(owner) | {owner}
    return {
        each
        for each in classes.below(owner) - known
        if not any(
            classes.member(one, name) is not None
            for one in (classes.above(each) | {each}) - known
            for name in _BUILDERS
        )
    }


def _based_on(workspace: Workspace, name: str) -> list[Target]:
    """Return the classes whose head names another one."""
    head = re.compile(rf"\bclass\s+\w+[^:]*[\[(,.\s]{re.escape(name)}\s*[\[,)]")
    found = []
    for path in workspace.files():
        data = workspace.read(path) if path.endswith(".py") else None
        if data is None or name.encode() not in data:
            continue
        source = read_source(workspace, path)
        for symbol in outline(path, source.text):
            if symbol.kind == "class" and head.search(symbol.signature):
                lines = (symbol.start_line, symbol.end_line)
                found.append(Target(source, symbol.qualified_name, symbol.name, symbol.kind, *lines))
    return found


def _calls(workspace: Workspace, target: Target) -> list[tuple[str, int]]:
    from rope.refactor.occurrences import create_finder

    project = RopeProject(workspace, hides_async=True)
    resource = project.file(target.source.path)
    found: list[tuple[str, int]] = []

    @cache
    def sharing() -> frozenset[tuple[str, str]]:
        others = () if target.name in CONSTRUCTORS else relatives(workspace, target)
        return sharing_classes(target, others)

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
            # ``Box[int](1)`` is a call of Box for Python, and not for rope.
            only_calls=target.kind != "class",
            unsure=lambda occurrence: is_super_use(occurrence, name, sharing),
        )
        for file in project.candidates(target.name):
            for occurrence in finder.find_occurrences(file):
                if not occurrence.is_defined():
                    found.append((file.path, occurrence.get_word_range()[1]))
        return RopeChanges("")

    project.change_of(f"find the calls of {target.label}", run)
    calls = []
    for path, veiled_place in found:
        text = read_source(workspace, path).text
        place = project.unveiled(text, veiled_place)
        opening = _opening(text, place, target)
        if opening is not None:
            calls.append((path, opening))
    return calls


def _opening(text: str, place: int, target: Target) -> int | None:
    """Return where the bracket of the call opens for which a name ends at a place of a text; None if it is no call."""
    if target.kind == "class":
        return _openings(text, target.name).get(place)
    opening = text.find("(", place)
    return opening if opening >= 0 and not text[place:opening].strip() else None


@lru_cache(maxsize=8)
def _openings(text: str, name: str) -> dict[int, int]:
    return {each.end: each.opening for each in calls_of(text, name)}


def found_uses(workspace: Workspace, definition: Definition, name: str) -> list[tuple[str, int]]:
    """Return the path and the place of every use of a parameter: its declaration, the body, calls that name it.

    Raises:
        EditRefusedError: rope refuses.
    """
    # rope knows no parameter that is keyword-only or positional-only, so it is shown the function with plain ones.
    source = definition.target.source
    shown = workspace.fork()
    plain = replace_text(source.data, definition.with_plain_parameters(), source.path)
    shown.take(change_set("", [FileChange(source.path, source.data, plain)]))
    project = RopeProject(shown, hides_async=True)
    has_keyword = name not in definition.positional_only
    found: list[tuple[str, int]] = []

    @cache
    def in_text(text: str) -> ParameterScopes:
        return ParameterScopes(text, name)

    def refuse_other(occurrence: "Occurrence") -> bool | None:
        from khepri.edits.python.keyword_owners import is_of_unknown

        scopes = in_text(occurrence.tools.pymodule.source_code)
        is_other = scopes.is_of_lambda(occurrence.get_word_range()[0]) or is_of_unknown(occurrence, scopes)
        return False if is_other else None

    def run() -> "RopeChanges":
        from rope.base.change import ChangeSet as RopeChanges
        from rope.refactor.occurrences import create_finder
        from rope.refactor.rename import Rename

        offset = project.place(source.text, definition.parameter_offset(name))
        meant = Rename(project.project, project.file(source.path), offset)
        finder = create_finder(
            project.project, name, meant.old_pyname, instance=meant.old_instance, keywords=has_keyword
        )
        finder.filters.insert(0, refuse_other)
        for file in project.candidates(name):
            found.extend((file.path, each.get_word_range()[0]) for each in finder.find_occurrences(file))
        return RopeChanges("")

    project.change_of(f"find the uses of {name} of {definition.target.label}", run)
    return [(path, project.unveiled(read_source(workspace, path).text, place)) for path, place in found]
