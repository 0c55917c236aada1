"""Finds attributes that are passed by their names to what sets whatever it is told: ``setattr(self, key, value)``."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from khepri.edits.change import ChangeSet
from khepri.edits.locate import Target
from khepri.edits.python.calls import parameters_of
from khepri.edits.python.class_relations import Class, Classes
from khepri.edits.python.imports import parsed
from khepri.edits.python.reflection import Owners
from khepri.edits.python.trees import all_nodes
from khepri.edits.rename.rename_notes import shown
from khepri.edits.workspace import Workspace

_SETTING: Final = re.compile(rb"\bsetattr\([^,()]*,\s*[A-Za-z_]\w*\s*,|(?:__dict__|\bvars\(\w+\))\.update\(")
_OPEN: Final = re.compile(rb"\bdef\b[^:]*\*\*")


def notes_on_set(workspace: Workspace, changes: ChangeSet, target: Target, new: str) -> tuple[str, ...]:
    """Return a note on where an attribute is passed by its old name to what sets it, as proposed.

    Args:
        workspace: Where, before the change.
        changes: The rename.
        target: The attribute, as it was.
        new: Its new name.
    """
    if target.kind != "variable":
        return ()
    forked = workspace.fork()
    forked.take(changes)
    written = re.compile(rb"[(,]\s*%s\s*=(?!=)" % target.name.encode())
    calls = [
        (path, node, called)
        for path, tree in _trees(forked, written)
        for node, called in _calls(tree)
        if any(each.arg == target.name for each in node.keywords)
    ]
    found = [(path, tree, *each) for path, tree in _trees(forked, _SETTING) for each in _setting(tree)] if calls else []
    if not found:
        return ()
    classes, owners = Classes(forked), Owners(forked, target, ChangeSet("", ()))
    one = Class(target.source.path, target.symbol.rpartition(".")[0])
    sharing = classes.sharing_objects(one)
    setting = set()
    for path, tree, call, owner in found:
        is_own = isinstance(owner, ast.Name) and owner.id in ("self", "cls")
        if classes.around(path, call.lineno) in sharing if is_own else owners.has(path, tree, owner):
            setting.add(f"{path}:{call.lineno}")
    if not setting:
        return ()
    named = {each.name for each in classes.below(one) if not _is_made_with(classes, each, target.name)}
    named |= {name for _, tree in _trees(forked, _OPEN) for name in _taking_any(tree, target.name)}
    passed = {f"{path}:{node.lineno}" for path, node, called in calls if called in named}
    if not passed:
        return ()
    sets = "sets" if len(setting) == 1 else "set"
    return (
        f"{shown(sorted(setting))} {sets} what comes by any name, and {target.name} is passed at "
        f"{shown(sorted(passed))}, which was left: see whether it is {new} now",
    )


def _trees(workspace: Workspace, wanted: re.Pattern[bytes]) -> Iterator[tuple[str, ast.Module]]:
    for path in workspace.files():
        data = workspace.read(path) if path.endswith(".py") else None
        tree = parsed(data) if data is not None and wanted.search(data) else None
        if tree is not None:
            yield path, tree


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls with the last word of what is called."""
    for node in all_nodes(tree):
        match node:
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)):
                yield node, called


def _is_made_with(classes: Classes, one: Class, name: str) -> bool:
    """Tell if a constructor of a class, or of one that it inherits, takes an argument of a name."""
    nodes = (classes.node(each) for each in classes.above(one))
    methods = (each for node in nodes if node is not None for each in node.body)
    return any(
        name in parameters_of(each)
        for each in methods
        if isinstance(each, ast.FunctionDef) and each.name in ("__init__", "__new__")
    )


def _setting(tree: ast.Module) -> Iterator[tuple[ast.Call, ast.expr]]:
    """Yield where attributes are set by names that are not written there, each with what has them."""
    for node in all_nodes(tree):
        match node:
            case ast.Call(func=ast.Name(id="setattr"), args=[owner, ast.Name(), _]):
                yield node, owner
            case ast.Call(
                func=ast.Attribute(
                    value=ast.Attribute(value=owner, attr="__dict__")
                    | ast.Call(func=ast.Name(id="vars"), args=[owner]),
                    attr="update",
                )
            ):
                yield node, owner


def _taking_any(tree: ast.Module, name: str) -> Iterator[str]:
    """Yield the functions that take anything by ``**``, and not this name by itself."""
    for node in all_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.args.kwarg is not None:
            if name not in parameters_of(node):
                yield node.name
