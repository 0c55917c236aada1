"""Finds where a class makes objects of itself without its name, such as ``cls(…)`` and ``type(self)(…)``."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from khepri.edits.change import ChangeSet
from khepri.edits.locate import Target, find_target
from khepri.edits.python.class_relations import Class, Classes
from khepri.edits.python.fields import CONSTRUCTORS
from khepri.edits.python.imports import parsed
from khepri.edits.python.inline_calls import end_of
from khepri.edits.python.namesakes import Namesakes
from khepri.edits.python.passed_keys import may_pass
from khepri.edits.python.trees import all_nodes
from khepri.edits.refusal import EditRefusedError
from khepri.edits.rename.rename_notes import shown
from khepri.edits.workspace import Workspace

_OWN: Final = re.compile(rb"\bcls\s*\(|__class__\s*\(|\btype\s*\(")


class OwnCalls:
    """The calls by which a class, or one below it, makes objects of itself. One thread; for one refactoring."""

    def __init__(self, workspace: Workspace, changes: ChangeSet, target: Target) -> None:
        """Find the classes.

        Args:
            workspace: Where.
            changes: What is proposed; the calls are looked for there.
            target: A member of the class, as it was.
        """
        self.files = workspace.fork()
        """The workspace with what is proposed."""
        self.files.take(changes)
        self._classes = Classes(self.files)
        one = Class(target.source.path, target.symbol.rpartition(".")[0])
        others = {each for each in self._classes.below(one) - {one} if self._has_constructor(each)}
        # What is below a class with a constructor of its own is made with that.
        apart = {below for each in others for below in self._classes.below(each)}
        self.classes = self._classes.below(one) - apart
        """It, and those below it that have no constructor of their own."""
        self._sharing = self._classes.sharing_objects(one) - apart

    def calls(self, *, with_bases: bool = False) -> Iterator[tuple[str, ast.Call]]:
        """Yield the path and the call of each; with ``with_bases`` also where a base class makes what may be one."""
        wanted = self._sharing if with_bases else self.classes
        for path in self.files.files():
            data = self.files.read(path) if path.endswith(".py") else None
            tree = parsed(data) if data is not None and _OWN.search(data) else None
            for node in all_nodes(tree) if tree is not None else ():
                if isinstance(node, ast.Call) and _is_own(node.func):
                    if self._classes.around(path, node.lineno) in wanted:
                        yield path, node

    def _has_constructor(self, one: Class) -> bool:
        return any(self._classes.member(one, name) is not None for name in CONSTRUCTORS)


def notes_on_made(workspace: Workspace, changes: ChangeSet, target: Target, new: str) -> tuple[str, ...]:
    """Return a note on where objects are made with whatever ``**`` passes for a field that has another name now."""
    owner = target.symbol.rpartition(".")[0]
    try:
        made = find_target(target.source, owner)
    except EditRefusedError:
        return ()
    after = {change.path: change.after for change in changes.files}
    named = Namesakes(workspace, made, after)
    places = {
        f"{path}:{call.lineno}"
        for path, call in OwnCalls(workspace, changes, target).calls(with_bases=True)
        if may_pass(call, target.name)
    }
    for path in named.paths:
        data = after[path] if path in after else workspace.read(path)
        tree, ends = parsed(data or b"") or ast.Module([], []), named.places(path)
        calls = (node for node in all_nodes(tree) if isinstance(node, ast.Call) and end_of(node.func) in ends)
        places |= {f"{path}:{call.lineno}" for call in calls if may_pass(call, target.name)}
    if not places:
        return ()
    makes = "makes" if len(places) == 1 else "make"
    return (
        f"{shown(sorted(places))} {makes} objects of {owner} with what ** passes: "
        f"see that {target.name} is {new} there",
    )


def _is_own(called: ast.expr) -> bool:
    match called:
        case ast.Name(id="cls") | ast.Attribute(attr="__class__"):
            return True
        case ast.Call(func=ast.Name(id="type"), args=[ast.Name(id="self" | "cls")]):
            return True
    return False
