"""Renames what no refactoring library follows once it has renamed the code itself.

Mentions in texts, stubs, what is asked for by name, arguments that are fields, and private names outside their class.
"""

from collections.abc import Collection
from dataclasses import replace

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.locate import Target, find_target, read_python
from khepri.edits.python.class_bodies import with_class_reads
from khepri.edits.python.class_relations import Classes
from khepri.edits.python.fields import is_argument, rename_keywords
from khepri.edits.python.fixtures import is_fixture, with_fixture_uses
from khepri.edits.python.imports import Modules, passing_modules, star_passers
from khepri.edits.python.inline_calls import end_of
from khepri.edits.python.mentions import public_names, rename_mentions
from khepri.edits.python.namesakes import Namesakes
from khepri.edits.python.private_names import refuse_outside_uses, with_outside_names
from khepri.edits.python.reflection import with_named_uses
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.accessors import with_accessors
from khepri.edits.rename.class_patterns import with_class_patterns
from khepri.edits.rename.own_calls import OwnCalls
from khepri.edits.rename.stubs import with_stubs
from khepri.edits.workspace import Workspace
from khepri.repo.text import decode, text_or_nothing


def with_mentions(
    workspace: Workspace,
    changes: ChangeSet,
    path: str,
    target: Target | None,
    old: str,
    new: str,
    keeping: Collection[str],
) -> ChangeSet:
    """Rename the mentions as well, in the files that changed and in those that name the module in strings.

    What changed and is among ``keeping`` has the name from elsewhere too, and means nothing else by it than before.
    """
    if target is not None and "." in target.symbol:
        return changes
    names = Modules(workspace)
    module = names.name(path)
    changed = {change.path: change for change in changes.files}
    starred: frozenset[str] = frozenset()
    if target is None:
        modules = frozenset({module.rpartition(".")[0]} - {""})
    else:
        modules = passing_modules(names, module, old, changes)
        starred = star_passers(workspace, names, modules, old)
        _refuse_hiding(target, new, starred)
        modules |= starred
    namesakes = (
        frozenset(f"{each}.{old}" for each in modules) & names.paths.keys() if target is not None else frozenset()
    )
    for file in workspace.files():
        if not file.endswith(".py"):
            continue
        change = changed.get(file)
        if change is not None and change.after is None:
            continue
        before = change.before if change else workspace.read(file)
        data = change.after if change else before
        if data is None or old.encode() not in data:
            continue
        text = text_or_nothing(data)
        is_changed = change is not None and file not in keeping
        is_bound = target is not None and (is_changed or names.name(file) in starred)
        renamed = rename_mentions(text, old, new, modules=modules, is_bound=is_bound, namesakes=namesakes)
        if is_bound:
            then = decode(before).text if before is not None else text
            renamed = with_class_reads(then, renamed, old, new, is_member=False)
        if renamed != text:
            changed[file] = FileChange(file, before, replace_text(data, renamed, file))
    return replace(changes, files=change_set("", list(changed.values())).files)


def with_other_uses(workspace: Workspace, changes: ChangeSet, target: Target, new: str) -> ChangeSet:
    """Return a rename with what else names a definition: stubs, what is asked for by name, private names outside."""
    changes = with_outside_names(workspace, with_stubs(workspace, changes, target, new), target, new)
    if target.is_member:
        changes = _with_names_around(changes, target.name, new)
        changes = with_accessors(changes, target.name, new)
        if is_argument(Classes(workspace), target):
            changes = _with_arguments(workspace, changes, target, new)
        changes = with_class_patterns(workspace, changes, target, new)
    changes = with_named_uses(workspace, changes, target, new)
    if target.is_member:
        refuse_outside_uses(changes, target, new)
    return with_fixture_uses(workspace, changes, target, new) if is_fixture(target) else changes


def _with_names_around(changes: ChangeSet, old: str, new: str) -> ChangeSet:
    """Return a rename of a member without what its class reads by that name before it has the member."""
    files = []
    for change in changes.files:
        after = change.after
        if change.before is not None and after is not None and change.path.endswith(".py"):
            text = with_class_reads(decode(change.before).text, decode(after).text, old, new, is_member=True)
            after = replace_text(after, text, change.path)
        files.append(replace(change, after=after))
    return change_set(changes.title, files)


def _with_arguments(workspace: Workspace, changes: ChangeSet, target: Target, new: str) -> ChangeSet:
    """Return a rename of a field with the arguments by which objects are made with it."""
    files = {change.path: change for change in changes.files}
    after = {change.path: change.after for change in changes.files}
    own = OwnCalls(workspace, changes, target)
    ends: dict[str, set[tuple[int, int]]] = {}
    for each in own.classes:
        made = Namesakes(workspace, find_target(read_python(own.files, each.path), each.symbol), after)
        for path in made.paths:
            ends.setdefault(path, set()).update(made.places(path))
    for path, call in own.calls():
        ends.setdefault(path, set()).add(end_of(call.func))
    for path, found in ends.items():
        change = files.get(path)
        before = change.before if change is not None else workspace.read(path)
        data = change.after if change is not None else before
        if data is not None:
            text = rename_keywords(text_or_nothing(data), found, target.name, new)
            files[path] = FileChange(path, before, replace_text(data, text, path))
    return change_set(changes.title, files.values())


def _refuse_hiding(target: Target, new: str, starred: frozenset[str]) -> None:
    """Refuse a name that an import of everything would not pass on any more."""
    if starred and new.startswith("_") and target.name not in public_names(target.source.text):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{min(starred)} has {target.name} by an import of everything (*), which leaves out what begins with _",
            f"import {target.name} by its name there first, or choose another name",
        )
