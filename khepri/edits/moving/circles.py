"""Refuses a change after which modules would import from each other in a way that Python cannot do."""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence

from khepri.edits.change import ChangeSet, FileChange
from khepri.edits.python.bare_names import bare_name
from khepri.edits.python.imports import Modules, imports_in, parsed
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace


def refuse_circle(workspace: Workspace, changes: ChangeSet) -> None:
    """Refuse a change by which modules come to run one another as they are imported, and one needs a name of another.

    Where no name is needed yet, as after ``import a.b``, Python finds a module that is still running.

    Raises:
        EditRefusedError: They would.
    """
    modules = Modules(workspace, changes)
    proposed = {change.path: change.after or b"" for change in changes.files}
    made = {change.path: change for change in changes.files if change.before is None}
    known: dict[str, dict[str, bool]] = {}

    def needed(path: str) -> dict[str, bool]:
        if path not in known:
            data = proposed[path] if path in proposed else workspace.read(path)
            known[path] = _needed(data or b"", path, modules)
            if path in made:
                had = {other for other in known[path] if _had_before(changes, made[path], other, modules)}
                known[path] = {other: is_name for other, is_name in known[path].items() if other not in had}
        return known[path]

    for change in changes.files:
        if not change.path.endswith(".py"):
            continue
        before = _needed(change.before or b"", change.path, modules)
        new = {other: is_name for other, is_name in needed(change.path).items() if is_name > before.get(other, -1)}
        for other, is_name in sorted(new.items()):
            last = _way_back(change.path, other, is_name, needed)
            if last:
                circle = "each other" if last == other else f"each other, by way of {last}"
                raise EditRefusedError(
                    Refusal.NOT_POSSIBLE,
                    f"{change.path} and {other} would import from {circle}",
                    "move what it needs along with it, or choose another file",
                )


def _had_before(changes: ChangeSet, made: FileChange, package: str, modules: Modules) -> bool:
    """Tell if a new file has of the package around it only what the file had that imports the new one instead.

    The package has begun to run before each of them, so the new file finds there what the other one found.
    """
    folder, _, last = package.rpartition("/")
    if last != "__init__.py":
        return False
    module = modules.name(package)
    asked = _asked(made.after, made.path, module, modules)
    return bool(asked) and any(
        asked <= _asked(each.before, each.path, module, modules)
        for each in changes.files
        if each.before is not None and each.path != package and _lie_in(folder, made.path, each.path)
    )


def _lie_in(folder: str, *paths: str) -> bool:
    return all(path.startswith(f"{folder}/") for path in paths)


def _asked(data: bytes | None, path: str, module: str, modules: Modules) -> set[str]:
    """Return the names that the imports at the top of a file have of a module."""
    tree = parsed(data or b"")
    top = [node for node in running_imports(tree.body) if isinstance(node, ast.ImportFrom)] if tree is not None else []
    package = modules.package(path)
    every = (each for star in (True, False) for each in imports_in(ast.Module([*top], []), package, is_star=star))
    return {each.name for each in every if each.module == module}


def _way_back(start: str, first: str, is_name: bool, needed: Callable[[str], Mapping[str, bool]]) -> str:
    """Return the last file of a circle of imports in which one needs a name; empty if there is none."""
    seen = {(first, is_name)}
    queue = [(first, is_name)]
    while queue:
        here, has_name = queue.pop()
        for next_, needs_name in sorted(needed(here).items()):
            if next_ == start and (has_name or needs_name):
                return here
            state = next_, has_name or needs_name
            if next_ != start and state not in seen:
                seen.add(state)
                queue.append(state)
    return ""


def _needed(data: bytes, path: str, modules: Modules) -> dict[str, bool]:
    """Return the files that run before anything else of a module does, each with whether it needs a name of them."""
    tree = parsed(data)
    found: dict[str, bool] = {}
    around = modules.name(path).split(".")
    top = [*running_imports(tree.body)] if tree is not None else []
    imported = [(alias.name, False) for node in top if isinstance(node, ast.Import) for alias in node.names]
    package = modules.package(path)
    for each in (each for star in (True, False) for each in imports_in(ast.Module([*top], []), package, is_star=star)):
        # A submodule is there as soon as its own import is done.
        inside = f"{each.module}.{each.name}"
        imported.append((inside, False) if inside in modules.paths else (each.module, True))
    for name, is_name in imported:
        found[name] = found.get(name, False) or is_name
        # The packages that it lies in come first, unless they have begun already.
        parts = name.split(".")
        packages = (parts[:number] for number in range(1, len(parts)))
        for outer in (".".join(part) for part in packages if part != around[: len(part)]):
            found.setdefault(outer, False)
    paths = {modules.paths[name]: is_name for name, is_name in found.items() if name in modules.paths}
    return {other: is_name for other, is_name in paths.items() if other != path}


def running_imports(body: Sequence[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that may run as a module is imported."""
    for statement in body:
        match statement:
            case ast.Import() | ast.ImportFrom():
                yield statement
            case ast.If(test=test, body=inside, orelse=otherwise):
                # What only a type checker looks at does not run.
                yield from running_imports(otherwise if bare_name(test) == "TYPE_CHECKING" else [*inside, *otherwise])
            case ast.Try(body=inside, handlers=handlers, orelse=otherwise, finalbody=last):
                caught = (each for handler in handlers for each in handler.body)
                yield from running_imports([*inside, *caught, *otherwise, *last])
            case ast.With(body=inside):
                yield from running_imports(inside)
