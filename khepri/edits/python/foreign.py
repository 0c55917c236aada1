"""Tells which uses of a name are of something outside the repository: ``platform.system`` where a method is ``system``.

What is reached from an import by dots alone is known by that import, whatever else in the repository has the name, and
so is an object that a class from there makes, or that a function of ours says that it returns. What a function from
there returns is not known: it may hand back an object of ours.
"""

import ast
import builtins
from collections.abc import Mapping

from khepri.edits.python.foreign_types import ForeignTypes, Origin
from khepri.edits.python.imports import Modules, bindings_of, parsed
from khepri.edits.python.offsets import Offsets
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.workspace import Workspace


class Foreign:
    """What the files of a workspace have from outside. One thread; for one refactoring."""

    def __init__(self, workspace: Workspace) -> None:
        """Note what can be imported from the workspace itself; nothing is read."""
        self._workspace, self._modules = workspace, Modules(workspace)
        self._types: dict[str, tuple[ForeignTypes, Mapping[str, str]] | None] = {}
        tops = {name.partition(".")[0] for name in self._modules.paths}
        # Without an __init__.py a folder is a package all the same, by each of its names.
        parts = [path.split("/")[:-1] for path in self._modules.paths.values()]
        packages = {path.rpartition("/")[0] for path in self._modules.paths.values() if path.endswith("/__init__.py")}
        folders = {
            folders[depth]
            for folders in parts
            for depth in range(len(folders))
            if "/".join(folders[: depth + 1]) not in packages
        }
        self._own = tops | folders

    def ends(self, path: str, text: str, name: str) -> frozenset[int]:
        """Return where the uses of a name end, in characters of the text, that are of something outside.

        Args:
            path: A Python file.
            text: What it holds; nothing is foreign in a text that cannot be parsed.
            name: The last word of the use.
        """
        return self._ends(path, text, name)[0]

    def doubtful_ends(self, path: str, text: str, name: str) -> frozenset[int]:
        """Return where the uses of a name end that may be of something outside, by one of the ways to get there."""
        return self._ends(path, text, name)[1]

    def _known(self, path: str, tree: ast.Module) -> tuple[ForeignTypes, Mapping[str, str], set[str]]:
        """Return the types of a file, its names from outside with what they stand for, and those of Python's own."""
        imported = bindings_of(tree, self._modules.package(path))
        bound = _bound_otherwise(tree)
        outside = {
            each: meant
            for each, meant in imported.items()
            if meant.partition(".")[0] not in self._own and each not in bound
        }
        given = set(dir(builtins)) - bound - imported.keys()

        def returned(written: str) -> Origin:
            root, _, rest = written.partition(".")
            is_ours = root in imported and root not in outside and root not in bound
            return self._returned(f"{imported[root]}.{rest}".rstrip("."), frozenset()) if is_ours else Origin.UNKNOWN

        return ForeignTypes(tree, {each: each for each in given} | outside, returned), outside, given

    def _returned(self, dotted: str, seen: frozenset[str]) -> Origin:
        """Return what a function of the repository says that it returns, by the path that it is imported by."""
        parts = dotted.split(".")
        for length in range(len(parts) - 1, 0, -1):
            path = self._modules.paths.get(".".join(parts[:length]))
            if path is None or dotted in seen:
                continue
            if path not in self._types:
                tree = parsed(self._workspace.read(path) or b"")
                imported = bindings_of(tree, self._modules.package(path)) if tree is not None else {}
                self._types[path] = (self._known(path, tree)[0], imported) if tree is not None else None
            known = self._types[path]
            if known is None:
                return Origin.UNKNOWN
            root, *rest = parts[length:]
            if root in known[1]:
                return self._returned(".".join([known[1][root], *rest]), seen | {dotted})
            return known[0].returned(".".join([root, *rest]))
        return Origin.UNKNOWN

    def _ends(self, path: str, text: str, name: str) -> tuple[frozenset[int], frozenset[int]]:
        try:
            tree = tree_of(text)
        except (SyntaxError, ValueError, RecursionError):
            return frozenset(), frozenset()
        types, outside, given = self._known(path, tree)
        origins = dict(types.uses(name))
        offsets = Offsets(text)
        found: set[int] = set()
        doubtful: set[int] = set()
        for node in all_nodes(tree):
            match node:
                case ast.Attribute(attr=last) if last == name:
                    is_foreign = _root(node) in outside or origins[node] is Origin.OUTSIDE
                case ast.Name(id=last) if last == name:
                    is_foreign = last in outside or last in given
                case _:
                    continue
            if is_foreign or (isinstance(node, ast.Attribute) and origins[node] is Origin.MAYBE_OUTSIDE):
                (found if is_foreign else doubtful).add(offsets.end(node))
        return frozenset(found), frozenset(doubtful)


def _root(node: ast.expr) -> str:
    """Return the name that a use begins with if only dots follow it; empty otherwise."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _bound_otherwise(tree: ast.Module) -> set[str]:
    """Return the names that a file binds by anything but an import."""
    found: set[str] = set()
    for node in all_nodes(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.add(name)
    return found
