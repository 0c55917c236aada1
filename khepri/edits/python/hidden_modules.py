"""Refuses a name in a package that is that of a module in it: ``pkg.run`` would be the function and no module."""

import ast
from collections.abc import Iterator

from khepri.edits.change import ChangeSet, FileChange
from khepri.edits.python.imports import Modules, bindings_of, defined_names, module_of, parsed
from khepri.edits.python.trees import all_nodes
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace


def refuse_hidden_modules(workspace: Workspace, changes: ChangeSet) -> None:
    """Refuse a change by which a package has something else by the name of a module that is reached through it.

    Raises:
        EditRefusedError: It would have.
    """
    modules = Modules(workspace, changes)
    for change in changes.files:
        _refuse_hiding_name(workspace, changes, modules, change)
        if not change.path.endswith("__init__.py") or change.after is None:
            continue
        package = modules.name(change.path)
        new = _hiding(change.after, package) - _hiding(change.before or b"", package)
        for name in sorted(new):
            path = modules.paths.get(f"{package}.{name}")
            use = next(_uses(workspace, package, name), None) if path is not None else None
            if use is not None:
                raise EditRefusedError(
                    Refusal.NOT_POSSIBLE,
                    f"{change.path} would have another {name}, and {use} means the module {path} by {package}.{name}",
                    "choose another name, or rename the module first",
                )


def _refuse_hiding_name(workspace: Workspace, changes: ChangeSet, modules: Modules, change: FileChange) -> None:
    """Refuse a new module by whose import its package loses something of that name."""
    package, _, name = modules.name(change.path).rpartition(".")
    if change.before is not None or not change.path.endswith(".py") or package not in modules.paths:
        return
    path = modules.paths[package]
    after = next((each.after for each in changes.files if each.path == path), workspace.read(path)) or b""
    imported = bindings_of(parsed(after) or ast.Module([], []), package)
    if name in _hiding(after, package) and imported.get(name) != f"{package}.{name}.{name}":
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{path} has another {name}, which would be gone as soon as something imports {package}.{name}",
            "choose another name",
        )


def _hiding(data: bytes, package: str) -> set[str]:
    """Return the names of a package that are no modules of it by their own name."""
    tree = parsed(data)
    imported = bindings_of(tree, package) if tree is not None else {}
    return {name for name in defined_names(data) if imported.get(name) != f"{package}.{name}"}


def _uses(workspace: Workspace, package: str, name: str) -> Iterator[str]:
    """Yield where a file has a module of a package as its attribute."""
    modules = Modules(workspace)
    for path in workspace.files():
        data = workspace.read(path) if path.endswith(".py") else None
        tree = parsed(data) if data is not None and name.encode() in data else None
        for node in all_nodes(tree) if tree is not None else ():
            match node:
                case ast.Import(names=names):
                    found = any(f"{each.name}.".startswith(f"{package}.{name}.") for each in names)
                case ast.ImportFrom(names=names):
                    found = module_of(node, modules.package(path)) == package and any(e.name == name for e in names)
                case _:
                    continue
            if found:
                yield f"{path}:{node.lineno}"
