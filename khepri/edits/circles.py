"""Refuses a change after which modules would import from each other in a way that Python cannot do."""

import ast

from khepri.edits.change import ChangeSet
from khepri.edits.imports import Modules, imports_in, parsed
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace


def refuse_circle(workspace: Workspace, changes: ChangeSet) -> None:
    """Refuse a change by which a module comes to import a name from one that needs it first, as Python cannot do.

    Raises:
        EditRefusedError: It would.
    """
    modules = Modules(workspace, changes)
    proposed = {change.path: change for change in changes.files if change.path.endswith(".py")}
    for path, change in proposed.items():
        before = _needed(change.before or b"", path, modules)
        for other in sorted(_needed(change.after or b"", path, modules) - before):
            way: dict[str, str] = {other: path}
            queue = [other]
            while queue and path not in way:
                here = queue.pop()
                data = proposed[here].after if here in proposed else workspace.read(here)
                for next_ in sorted(_needed(data or b"", here, modules) - way.keys()):
                    way[next_] = here
                    queue.append(next_)
            if path in way:
                last = way[path]
                circle = "each other" if last == other else f"each other, by way of {last}"
                raise EditRefusedError(
                    Refusal.NOT_POSSIBLE,
                    f"{path} and {other} would import from {circle}",
                    "move what it needs along with it, or choose another file",
                )


def _needed(data: bytes, path: str, modules: Modules) -> set[str]:
    """Return the files whose names a module imports before anything else of it runs."""
    tree = parsed(data)
    top = ast.Module([node for node in tree.body if isinstance(node, ast.ImportFrom)], []) if tree is not None else None
    found = set()
    around = modules.name(path).split(".")
    both = (
        [each for star in (True, False) for each in imports_in(top, modules.package(path), is_star=star)] if top else []
    )
    for each in both:
        # A submodule is there as soon as its own import is done.
        if f"{each.module}.{each.name}" not in modules.paths:
            found.add(each.module)
        # The packages that it lies in come first, unless they have begun already.
        parts = each.module.split(".")
        packages = (parts[:number] for number in range(1, len(parts)))
        found |= {".".join(package) for package in packages if package != around[: len(package)]}
    return {modules.paths[name] for name in found if name in modules.paths} - {path}
