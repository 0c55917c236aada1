"""Tells which uses of a name can mean a definition, and which only are called the same.

A function of a module is reached by its name where it is imported, or through its module; so
``urllib.parse.unquote`` is no use of an ``unquote`` of ours. A method may be called on any object of unknown type.
"""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from khepri.edits.locate import Target
from khepri.edits.python.imports import Modules, bindings_of, star_sources
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.workspace import Workspace
from khepri.repo.text import text_or_nothing

Place = tuple[int, int]
"""Last line and column of a name as ``ast`` counts them: where what is called ends, right before its brackets."""


@dataclass(frozen=True)
class _File:
    path: str
    tree: ast.Module
    text: str
    imported: Mapping[str, str]
    """What each imported name stands for, dotted."""
    stars: frozenset[str]


class Namesakes:
    """The uses of one definition in a workspace. One thread; reads every file that has the name."""

    def __init__(self, workspace: Workspace, target: Target, after: Mapping[str, bytes | None] | None = None) -> None:
        """Look for the name.

        Args:
            workspace: Where.
            target: The definition.
            after: Proposed contents, to be taken for those that are there.
        """
        self._target, self._is_member = target, target.is_member
        self._modules = Modules(workspace)
        self._home = self._modules.name(target.source.path)
        self._files: dict[str, _File] = {}
        for path in workspace.files():
            if path.endswith(".py"):
                data = after[path] if after is not None and path in after else workspace.read(path)
                if data is not None and (target.name.encode() in data or b"import *" in data):
                    self._add(path, data)
        self._reaching = self._modules_that_have_it()

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that may have a use, sorted."""
        return tuple(sorted(path for path in self._files if self.places(path)))

    def places(self, path: str) -> dict[Place, int]:
        """Return where a file may use the definition, with the line that each use begins in, first to last."""
        file = self._files.get(path)
        found: dict[Place, int] = {}
        for node in all_nodes(file.tree) if file is not None else ():
            assert file is not None
            if isinstance(node, ast.Name | ast.Attribute | ast.alias) and self._may_be_it(node, file):
                assert node.end_lineno is not None
                assert node.end_col_offset is not None
                found[node.end_lineno, node.end_col_offset] = node.lineno
        return dict(sorted(found.items(), key=lambda item: item[1]))

    def _add(self, path: str, data: bytes) -> None:
        text = text_or_nothing(data)
        try:
            tree = tree_of(text)
        except (SyntaxError, ValueError, RecursionError):
            return
        package = self._modules.package(path)
        self._files[path] = _File(path, tree, text, bindings_of(tree, package), star_sources(tree, package))

    def _modules_that_have_it(self) -> set[str]:
        """Return the modules through which a function can be reached: its own, and all that import it from there."""
        name, reaching = self._target.name, {self._home}
        while True:
            new = {
                self._modules.name(path)
                for path, file in self._files.items()
                if file.stars & reaching or any(f"{module}.{name}" in file.imported.values() for module in reaching)
            }
            if new <= reaching:
                return reaching
            reaching |= new

    def _may_be_it(self, node: ast.Name | ast.Attribute | ast.alias, file: _File) -> bool:
        name, is_home = self._target.name, file.path == self._target.source.path
        is_method = self._is_member
        if "." in self._target.symbol and not is_method:
            # What is defined inside a function is known by its bare name, in its file alone.
            return is_home and isinstance(node, ast.Name) and node.id == name
        match node:
            case ast.Name(id=found):
                return found == name and (
                    is_home or (not is_method and self._modules.name(file.path) in self._reaching)
                )
            case ast.alias(name=found):
                return not is_method and found == name and self._modules.name(file.path) in self._reaching
            case ast.Attribute(attr=found) if found == name:
                return self._may_be_attribute(node, file, is_method=is_method)
        return False

    def _may_be_attribute(self, node: ast.Attribute, file: _File, *, is_method: bool) -> bool:
        written = ast.unparse(node.value)
        root, _, rest = written.partition(".")
        if not re.fullmatch(r"\w+(\.\w+)*", written) or root not in file.imported:
            # What a module is called may be known to a variable.
            return is_method or self._home.rpartition(".")[2] in file.text
        meant = f"{file.imported[root]}.{rest}".rstrip(".")
        if not is_method:
            return meant in self._reaching
        top = meant.partition(".")[0]
        return any(module.partition(".")[0] == top for module in self._modules.paths)
