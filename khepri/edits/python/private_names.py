"""Private attributes: ``__secret`` in class ``A`` is ``_A__secret`` for everybody outside it.

So a rename of the class, or of the attribute, changes a name that stands in no definition; and an attribute that
becomes private is not there any more for those that use it from outside.
"""

import ast
import re
from collections.abc import Collection

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.locate import Target
from khepri.edits.python.imports import parsed
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.repo.text import decode, text_or_nothing


def is_private(name: str) -> bool:
    """Return True for a name that Python leads by the class in which it stands."""
    return name.startswith("__") and not name.endswith("__")


def is_inside_owner(target: Target, path: str, line: int) -> bool:
    """Return True if a line of a file, as it is now, stands in the class of an attribute."""
    owner = _owner(target)
    return path == target.source.path and owner is not None and _holds(owner, line)


def with_outside_names(workspace: Workspace, changes: ChangeSet, target: Target, new: str) -> ChangeSet:
    """Return a rename of a class or an attribute with the names that private attributes have outside.

    Raises:
        EditRefusedError: Another class gives its attributes the same names outside.
    """
    names = _outside_names(target, new)
    if not names:
        return changes
    pattern = re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, sorted(names)))})(?!\w)")
    files = {change.path: change for change in changes.files}
    used = []
    for path in workspace.files():
        change = files.get(path)
        before = change.before if change is not None else workspace.read(path) if path.endswith(".py") else None
        data = change.after if change is not None else before
        if data is None or not path.endswith(".py") or not any(name.encode() in data for name in names):
            continue
        text = pattern.sub(lambda found: names[found[0]], text_or_nothing(data))
        if text != text_or_nothing(data):
            used.append(path)
            files[path] = FileChange(path, before, replace_text(data, text, path))
    if used:
        _refuse_second(workspace, target, names, used[0])
    return change_set(changes.title, files.values())


def refuse_outside_uses(changes: ChangeSet, target: Target, new: str) -> None:
    """Refuse to make an attribute private that is used or overridden outside its class.

    Raises:
        EditRefusedError: It is.
    """
    if not is_private(new) or is_private(target.name):
        return
    classes = target.symbol.split(".")[:-1]
    for change in changes.files:
        if change.after is None or not change.path.endswith(".py"):
            continue
        tree = tree_of(decode(change.after).text)
        owner = _class(tree, classes) if change.path == target.source.path else None
        rows = {hunk.new_start + row for hunk in change.hunks for row in range(len(hunk.new_lines))}
        for node in all_nodes(tree):
            line = getattr(node, "lineno", 0)
            is_it = line in rows and new in (getattr(node, "attr", ""), getattr(node, "name", ""))
            if is_it and not (owner is not None and _holds(owner, line)):
                raise EditRefusedError(
                    Refusal.NOT_POSSIBLE,
                    f"{new} would be private to {classes[-1]}, and {change.path}:{line} uses or overrides it outside",
                    "choose a name that begins with one underscore",
                )


def _outside_names(target: Target, new: str) -> dict[str, str]:
    """Return the names outside that a rename changes, old to new."""
    owner = _owner(target)
    if owner is None:
        return {}
    if target.kind == "class":
        return {_outside(owner.name, name): _outside(new, name) for name in _private_names(owner)}
    if not is_private(target.name):
        return {}
    return {_outside(owner.name, target.name): _outside(owner.name, new) if is_private(new) else new}


def _refuse_second(workspace: Workspace, target: Target, names: Collection[str], used: str) -> None:
    """Refuse a rename if a use outside may be of another class that is called alike."""
    owner = _owner(target)
    assert owner is not None
    for path in workspace.files():
        data = workspace.read(path) if path.endswith(".py") else None
        tree = parsed(data) if data is not None and owner.name.strip("_").encode() in data else None
        for node in all_nodes(tree) if tree is not None else ():
            if not isinstance(node, ast.ClassDef) or (path, node.lineno) == (target.source.path, owner.lineno):
                continue
            shared = {_outside(node.name, each) for each in _private_names(node)} & set(names)
            if shared:
                raise EditRefusedError(
                    Refusal.AMBIGUOUS,
                    f"{min(shared)} in {used} may be of the class at {path}:{node.lineno} as well",
                    "rename that class first",
                )


def _owner(target: Target) -> ast.ClassDef | None:
    """Return the class that a target is, or is an attribute of."""
    names = target.symbol.split(".")
    tree = parsed(target.source.data)
    return _class(tree, names if target.kind == "class" else names[:-1]) if tree is not None else None


def _class(tree: ast.Module, names: list[str]) -> ast.ClassDef | None:
    body: list[ast.stmt] = tree.body
    found = None
    for name in names:
        found = next((node for node in body if isinstance(node, ast.ClassDef) and node.name == name), None)
        if found is None:
            return None
        body = found.body
    return found


def _private_names(owner: ast.ClassDef) -> set[str]:
    names = (getattr(node, field, None) for node in ast.walk(owner) for field in ("attr", "id", "name"))
    return {name for name in names if isinstance(name, str) and is_private(name)}


def _outside(owner: str, name: str) -> str:
    lead = owner.lstrip("_")
    return f"_{lead}{name}" if lead else name


def _holds(node: ast.ClassDef, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)
