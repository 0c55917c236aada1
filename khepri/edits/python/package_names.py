"""Tells what a package has by the name of a module in it: after ``from .retry import retry`` it is the function.

Python puts a module into its package once, as it is loaded. What ``__init__.py`` binds by that name later stays there.
"""

import ast
from collections.abc import Callable, Iterator

from khepri.edits.python.import_lines import is_typing_only
from khepri.edits.python.imports import Modules, defined_names, module_of, parsed
from khepri.edits.python.mentions import public_names
from khepri.edits.workspace import Workspace
from khepri.repo.text import decode

_Read = Callable[[str], bytes | None]


class PackageNames:
    """The packages of a workspace whose names are no modules of theirs. One thread; for one refactoring."""

    def __init__(self, workspace: Workspace) -> None:
        """Read nothing yet."""
        self._workspace = workspace
        self._modules = Modules(workspace)

    def over_modules(self, path: str) -> frozenset[str]:
        """Return the names by which a package has something else than its module of that name.

        Args:
            path: Its ``__init__.py``.
        """
        data = self._workspace.read(path)
        return names_over_modules(data, self._modules.name(path), self._read) if data is not None else frozenset()

    def is_over_module(self, module: str, name: str) -> bool:
        """Tell if ``module.name`` is something else than the module of the repository that is called so."""
        path = self._modules.paths.get(module, "")
        is_there = f"{module}.{name}" in self._modules.paths and path.endswith("__init__.py")
        return is_there and name in self.over_modules(path)

    def _read(self, module: str) -> bytes | None:
        path = self._modules.paths.get(module)
        return self._workspace.read(path) if path is not None else None


def names_over_modules(data: bytes, package: str, read: _Read) -> frozenset[str]:
    """Return the names that the ``__init__.py`` of a package binds, and after which it loads no module of that name.

    Args:
        data: What is in it.
        package: Its dotted name.
        read: Returns what is in a module; None for one that is not there.
    """
    bound: dict[str, int] = {}
    loaded: dict[str, int] = {}
    tree = parsed(data)
    for node in _statements(tree.body if tree is not None else []):
        for module in _loads(node, package):
            inside = module.removeprefix(f"{package}.").partition(".")[0]
            if module.startswith(f"{package}."):
                loaded.setdefault(inside, node.lineno)
        for name in _binds(node, package, read):
            bound[name] = node.lineno
    return frozenset(name for name, line in bound.items() if loaded.get(name, line) <= line)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that run as a module is loaded, in their order."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
            continue
        if isinstance(node, ast.If) and is_typing_only(node):
            yield from _statements(node.orelse)
            continue
        yield node
        for name in ("body", "handlers", "orelse", "finalbody"):
            for inner in getattr(node, name, ()):
                yield from _statements(inner.body if isinstance(inner, ast.ExceptHandler) else [inner])


def _loads(node: ast.stmt, package: str) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (each.name for each in names)
        case ast.ImportFrom():
            yield module_of(node, package)


def _binds(node: ast.stmt, package: str, read: _Read) -> Iterator[str]:
    """Yield what a statement binds to anything but the module of the package by that very name."""
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names):
            for each in names:
                name = each.asname or each.name.partition(".")[0]
                if each.asname is None or each.name != f"{package}.{name}":
                    yield name
        case ast.ImportFrom(names=names):
            module = module_of(node, package)
            for each in names:
                name = each.asname or each.name
                if each.name == "*":
                    yield from _public(read(module))
                elif f"{module}.{each.name}" != f"{package}.{name}":
                    yield name
        case ast.Assign(targets=targets):
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr()):
            yield name


def _public(data: bytes | None) -> frozenset[str]:
    """Return what an import of everything from a module brings, as far as it binds that itself."""
    if data is None:
        return frozenset()
    listed = public_names(decode(data).text)
    return frozenset(name for name in defined_names(data) if (name in listed if listed else name[:1] != "_"))
