"""Which module of the repository is which file, which names it has, and whether every import still finds its name."""

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from khepri.edits.change import ChangeSet, FileChange
from khepri.edits.python.import_lines import is_typing_only
from khepri.edits.python.mentions import public_names, uses_of
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.errors import ToolError
from khepri.repo.text import decode


@dataclass(frozen=True)
class _Import:
    module: str
    """Dotted, absolute."""
    name: str
    line: int


class Modules:
    """The Python modules of a workspace, by their dotted names. One thread; for one refactoring."""

    def __init__(self, workspace: Workspace, changes: ChangeSet | None = None) -> None:
        """Name every module; nothing is read.

        Args:
            workspace: Where they lie.
            changes: What is to be taken for done; None takes the files as they are.
        """
        after = {change.path: change.after for change in changes.files} if changes is not None else {}
        kept = [path for path in workspace.files() if after.get(path, b"") is not None]
        self._files = {path for path in (*kept, *after) if path.endswith(".py")}
        self._namespaces = workspace.namespaces
        self._names = {path: self._name_by_place(path) for path in sorted(self._files)}
        self.paths: Mapping[str, str] = {name: path for path, name in self._names.items()}
        """Path of the file of each module."""

    def name(self, path: str) -> str:
        """Return the dotted name of the module in a Python file, by the packages that it lies in."""
        return self._names.get(path) or self._name_by_place(path)

    def is_doubled(self, name: str) -> bool:
        """Tell if several files are modules of one dotted name, in different folders."""
        return list(self._names.values()).count(name) > 1

    def package(self, path: str) -> str:
        """Return the dotted name of the package that relative imports of a file begin from."""
        name = self.name(path)
        return name if path.endswith("__init__.py") else name.rpartition(".")[0]

    def _name_by_place(self, path: str) -> str:
        parts = path.removesuffix(".py").split("/")
        top = len(parts) - 1
        while top > 0 and self._is_package("/".join(parts[:top])):
            top -= 1
        inside = parts[top:]
        return ".".join(inside[:-1] if inside[-1] == "__init__" and len(inside) > 1 else inside)

    def _is_package(self, folder: str) -> bool:
        return f"{folder}/__init__.py" in self._files or folder in self._namespaces


def passing_modules(modules: Modules, module: str, name: str, changes: ChangeSet) -> frozenset[str]:
    """Return the modules through which ``module.name`` can be reached: its own, and those that import it.

    Args:
        modules: Their names.
        module: Where the name is defined.
        name: The name that goes.
        changes: Its rename; a module that has the name after it as well means something else by it, too.
    """
    found = {module}
    for change in changes.files:
        if change.before is None or not change.path.endswith(".py"):
            continue
        if name in defined_names(change.after or b""):
            continue
        tree = parsed(change.before)
        if tree is not None and any(each.name == name for each in imports_in(tree, modules.package(change.path))):
            found.add(modules.name(change.path))
    return frozenset(found)


def star_passers(workspace: Workspace, modules: Modules, passing: frozenset[str], name: str) -> frozenset[str]:
    """Return the modules that have a name by an import of everything (``*``) from others that have it, or by several.

    Args:
        workspace: Where the modules lie.
        modules: Their names.
        passing: Those that are known to have the name.
        name: The name; one that begins with an underscore is not passed on.
    """
    if name.startswith("_"):
        return frozenset()
    stars: dict[str, set[str]] = {}
    for path in workspace.files():
        data = workspace.read(path) if path.endswith(".py") else None
        tree = parsed(data) if data is not None and b"import *" in data else None
        if tree is not None and data is not None and name not in defined_names(data):
            sources = {each.module for each in imports_in(tree, modules.package(path), is_star=True)}
            stars.setdefault(modules.name(path), set()).update(sources)
    found: set[str] = set()
    while new := {module for module, sources in stars.items() if sources & (passing | found)} - found - passing:
        found |= new
    return frozenset(found)


def check_imports(workspace: Workspace, changes: ChangeSet) -> None:
    """Make sure that a change leaves no import behind whose name is gone, and no file that cannot be parsed.

    Raises:
        EditRefusedError: It would; such a change comes of code that a refactoring library does not understand.
    """
    modules = Modules(workspace, changes)
    gone = {modules.name(change.path): _gone(change) for change in changes.files if change.path.endswith(".py")}
    for change in changes.files:
        if not change.path.endswith(".py") or change.after is None:
            continue
        tree = parsed(change.after)
        if tree is None:
            if change.before is None or parsed(change.before) is not None:
                raise EditRefusedError(Refusal.SYNTAX, f"{change.path} would not be Python any more")
            continue
        _check_found(tree, change.path, modules, gone)
    changed = {change.path for change in changes.files}
    # Of two modules of one name nobody can tell which one a file that stays as it is means.
    gone = {module: names for module, names in gone.items() if names and not modules.is_doubled(module)}
    words = {name.encode() for names in gone.values() for name in names}
    for path in workspace.files() if words else ():
        data = workspace.read(path) if path.endswith(".py") and path not in changed else None
        if data is not None and any(word in data for word in words) and (tree := parsed(data)) is not None:
            _check_found(tree, path, modules, gone)


def _check_found(tree: ast.Module, path: str, modules: Modules, gone: Mapping[str, frozenset[str]]) -> None:
    for each in imports_in(tree, modules.package(path)):
        if each.name in gone.get(each.module, ()) and f"{each.module}.{each.name}" not in modules.paths:
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"{path} would import {each.name} from {each.module}, which does not have it any more",
                "make this change by hand, or in smaller steps",
            )


def check_passed_on(workspace: Workspace, changes: ChangeSet) -> None:
    """Make sure that no ``__all__`` names what is gone and was only there by an import of everything (``*``).

    Raises:
        EditRefusedError: One would, and its module could not be imported any more.
    """
    gone: set[str] = set()
    for change in changes.files:
        if change.path.endswith(".py"):
            gone |= _gone(change)
    after = {change.path: change.after for change in changes.files}
    modules = Modules(workspace, changes)

    def read(path: str) -> bytes:
        return (after[path] if path in after else workspace.read(path)) or b""

    for path in workspace.files() if gone else ():
        data = read(path) if path.endswith(".py") else b""
        if b"__all__" not in data or b"import *" not in data:
            continue
        text = decode(data).text
        for name in sorted(gone & public_names(text)):
            if not uses_of(text, name) and not any(
                _brings(each, name, modules, read, frozenset({path})) for each in _star_paths(data, path, modules)
            ):
                raise EditRefusedError(
                    Refusal.NOT_POSSIBLE,
                    f"{path} names {name} in its __all__ and has it by an import of everything (*)",
                    f"import {name} by its name there first",
                )


def _brings(path: str, name: str, modules: Modules, read: Callable[[str], bytes], seen: frozenset[str]) -> bool:
    """Tell if an import of everything from a file brings a name that it binds, or has in the same way itself."""
    data = read(path)
    if passes_on(data, name):
        return True
    if path in seen or name not in (public_names(decode(data).text) or {name}):
        return False
    return any(_brings(each, name, modules, read, seen | {path}) for each in _star_paths(data, path, modules))


def _star_paths(data: bytes, path: str, modules: Modules) -> list[str]:
    """Return the files of the repository from which one imports everything."""
    tree = parsed(data) if b"import *" in data else None
    stars = imports_in(tree, modules.package(path), is_star=True) if tree is not None else ()
    return [modules.paths[each.module] for each in stars if each.module in modules.paths]


def passes_on(data: bytes, name: str) -> bool:
    """Tell if an import of everything from a module brings a name that it binds itself."""
    return name in defined_names(data) and name in (public_names(decode(data).text) or {name})


def check_found(workspace: Workspace, change: FileChange) -> None:
    """Make sure that a new file imports nothing from this repository that is not there.

    Raises:
        EditRefusedError: It does.
    """
    tree = parsed(change.after or b"")
    if tree is None:
        return
    modules = Modules(workspace, ChangeSet("", (change,)))
    ours = {name.partition(".")[0] for name in modules.paths}
    folders = {name.rpartition(".")[0] for name in modules.paths}
    for each in imports_in(tree, modules.package(change.path)):
        path = modules.paths.get(each.module)
        is_module = f"{each.module}.{each.name}" in modules.paths or f"{each.module}.{each.name}" in folders
        if is_module or each.module.partition(".")[0] not in ours or (path is None and each.module in folders):
            continue
        data = workspace.read(path) if path is not None and path != change.path else b""
        if path is None or (each.name not in defined_names(data or b"") and not _binds_anything(data or b"")):
            where = sorted(modules.name(other) for other in _defining(workspace, modules, each.name))
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"{change.path} imports {each.name} from {each.module}, which is not there",
                f"import it from {where[0]}" if where else "use what is there",
            )


def _defining(workspace: Workspace, modules: Modules, name: str) -> Iterator[str]:
    for path in modules.paths.values():
        data = workspace.read(path) or b""
        if name.encode() in data and name in defined_names(data):
            yield path


def _binds_anything(data: bytes) -> bool:
    """Return True for a module whose names cannot be told: it imports with a star, or makes them as it is asked."""
    return (
        "__getattr__" in defined_names(data)
        or re.search(rb"^\s*from\s+\S+\s+import\s+\*", data, re.MULTILINE) is not None
    )


def imported_from(workspace: Workspace, modules: Modules, path: str) -> frozenset[str]:
    """Return the names that other files import from a module."""
    name = modules.name(path)
    last = name.rpartition(".")[2].encode()
    found: set[str] = set()
    for other in workspace.files():
        data = workspace.read(other) if other.endswith(".py") and other != path else None
        if data is not None and (last in data or b"from ." in data) and (tree := parsed(data)) is not None:
            found |= {each.name for each in imports_in(tree, modules.package(other)) if each.module == name}
    return frozenset(found)


def _gone(change: FileChange) -> frozenset[str]:
    """Return the names that a module had before a change and has not after it."""
    before, after = (defined_names(data) if data is not None else frozenset() for data in (change.before, change.after))
    return before - after


def bindings_of(tree: ast.Module, package: str) -> dict[str, str]:
    """Return what each imported name of a module stands for, dotted; ``import a.b`` binds ``a``."""
    found = {}
    for node in all_nodes(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                found[alias.asname or root] = alias.name if alias.asname else root
        elif isinstance(node, ast.ImportFrom):
            module = module_of(node, package)
            found |= {alias.asname or alias.name: f"{module}.{alias.name}" for alias in node.names}
    return found


def star_sources(tree: ast.Module, package: str) -> frozenset[str]:
    """Return the modules that a module imports everything from."""
    return frozenset(each.module for each in imports_in(tree, package, is_star=True))


def module_of(node: ast.ImportFrom, package: str) -> str:
    """Return the dotted name of the module that a statement imports from, as seen from a package."""
    base = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
    return ".".join([*base, *([node.module] if node.module else [])])


def imports_in(tree: ast.Module, package: str, *, is_star: bool = False) -> Iterator[_Import]:
    """Yield what is imported by its name from modules, or else everything that is imported without one."""
    for node in all_nodes(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        module = module_of(node, package)
        for alias in node.names:
            if (alias.name == "*") == is_star:
                yield _Import(module, alias.name, node.lineno)


def defined_names(data: bytes) -> frozenset[str]:
    """Return every name that a module binds anywhere at its top level, blocks included; a star import may bind all.

    What only type checkers see is not there when the module runs.
    """
    tree = parsed(data)
    names: set[str] = set()
    queue: list[ast.AST] = list(tree.body) if tree is not None else []
    while queue:
        node = queue.pop()
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(node.name)
                continue
            case ast.If() if is_typing_only(node):
                queue.extend(node.orelse)
                continue
            case ast.Import() | ast.ImportFrom():
                names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
            case ast.Name(ctx=ast.Store()):
                names.add(node.id)
            case _:
                pass
        queue.extend(ast.iter_child_nodes(node))
    return frozenset(names)


def parsed(data: bytes) -> ast.Module | None:
    """Return the tree of a Python file; None for what is none."""
    try:
        return tree_of(decode(data).text)
    except (SyntaxError, ValueError, RecursionError, ToolError):
        return None
