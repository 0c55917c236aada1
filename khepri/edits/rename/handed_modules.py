"""Finds where a module is handed on as an object, so that a name of it may be asked for through any variable."""

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final

from khepri.edits.change import ChangeSet
from khepri.edits.python.bare_names import bare_name
from khepri.edits.python.imports import Modules, bindings_of, parsed
from khepri.edits.python.package_names import PackageNames
from khepri.edits.python.trees import all_nodes
from khepri.edits.rename.rename_notes import shown
from khepri.edits.workspace import Workspace

_LOOKING: Final = frozenset(
    "getattr setattr hasattr delattr object spy vars dir reload getsource getmembers testmod".split()
)
"""What is told of a module which attribute is meant, or wants none of its own."""
_Look = Callable[[ast.Module, dict[str, str], str], Iterator[int]]
_OWN: Final = ("self", "cls")


def notes_on_handed(workspace: Workspace, changes: ChangeSet, module: str, name: str) -> tuple[str, ...]:
    """Return a note on uses of a name on any object, if a module that had it is handed on.

    Args:
        workspace: Where.
        changes: What is proposed, by which the module has the name no more.
        module: Its dotted name.
        name: The name.
    """
    modules = Modules(workspace)
    if PackageNames(workspace).is_over_module(*module.rpartition(".")[::2]):
        return ()  # Its dotted name is that of what its package has by it.
    after = {change.path: change.after for change in changes.files}
    last = re.escape(module.rpartition(".")[2].encode())
    bound = re.compile(rb"(?<![\w.])%s(?!\w)|\bimport\s+[\w.]+\.%s(?!\w)" % (last, last))
    named = re.compile(rb"\.\s*%s(?!\w)" % re.escape(name.encode()))

    def places_of(wanted: re.Pattern[bytes], look: _Look, word: str) -> list[str]:
        found = []
        for path in sorted({*workspace.files(), *after}):
            data = after[path] if path in after else workspace.read(path) if path.endswith(".py") else None
            if data is not None and path.endswith(".py") and wanted.search(data):
                tree = parsed(data) or ast.Module([], [])
                found += [f"{path}:{line}" for line in look(tree, bindings_of(tree, modules.package(path)), word)]
        return list(dict.fromkeys(found))

    handed = places_of(bound, _handed, module)
    asked = places_of(named, _asked, name) if handed else []
    if not asked:
        return ()
    return (
        f"the module {module} is handed on at {shown(handed)}: "
        f"see whether {name} of it is meant at {shown(asked)}, which was left",
    )


def notes_on_aliased(workspace: Workspace, changes: ChangeSet, name: str) -> list[str]:
    """Return a note on what has a name of a package by ``import pkg.retry as retry`` and gets the module now.

    Args:
        workspace: Where, before the change.
        changes: The rename.
        name: The name that goes.
    """
    names, modules = PackageNames(workspace), Modules(workspace)
    gone = {modules.name(each.path) for each in changes.files if each.path.endswith("__init__.py")}
    lost = {f"{module}.{name}" for module in gone if names.is_over_module(module, name)}
    places = []
    for path in workspace.files() if lost else ():
        data = workspace.read(path) if path.endswith(".py") else None
        tree = parsed(data) if data is not None and name.encode() in data else None
        for node in all_nodes(tree) if tree is not None else ():
            match node:
                case ast.Import(names=found) if any(each.asname and each.name in lost for each in found):
                    places.append(f"{path}:{node.lineno}")
    if not places:
        return []
    return [f"{shown(places)} had {name} by an import of the module of that name, and has the module itself now"]


def _handed(tree: ast.Module, imported: dict[str, str], module: str) -> Iterator[int]:
    """Yield the lines where a module is a value, and not only what has the attribute behind the dot."""
    taken = {node.arg for node in all_nodes(tree) if isinstance(node, ast.arg)}
    for parent in all_nodes(tree):
        if isinstance(parent, ast.Attribute | ast.Expr):
            continue
        called = parent.func if isinstance(parent, ast.Call) else None
        if isinstance(called, ast.Name | ast.Attribute) and bare_name(called) in _LOOKING:
            continue
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                root, _, rest = ast.unparse(node).partition(".")
                if root in imported and root not in taken and f"{imported[root]}.{rest}".rstrip(".") == module:
                    yield node.lineno


def _asked(tree: ast.Module, imported: dict[str, str], name: str) -> Iterator[int]:
    """Yield the lines where an attribute of a name is read of what is no import and no object of the class around."""
    for node in all_nodes(tree):
        if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load):
            root: ast.expr = node.value
            while isinstance(root, ast.Attribute):
                root = root.value
            is_known = isinstance(root, ast.Name) and root.id in imported
            if not is_known and not (isinstance(node.value, ast.Name) and node.value.id in _OWN):
                yield node.lineno
