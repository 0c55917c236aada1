"""What one Python file means by a module: its imports of it, the dotted paths to it, and the names that stand for it.

Works on text alone. An import says what it means by the packages that it lies in, so a module of the same bare name
that comes from elsewhere is never taken for it.
"""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from khepri.edits.python.imports import module_of
from khepri.edits.python.mentions import public_names, quoted_names
from khepri.edits.python.trees import all_nodes
from khepri.edits.refusal import EditRefusedError, Refusal

_Edit = tuple[int, int, str]


@dataclass(frozen=True)
class ModuleName:
    """A module, and what it is called then."""

    old: str
    """Dotted, absolute."""
    new: str
    """A bare name."""

    @property
    def parent(self) -> str:
        """The package that it lies in, dotted; empty for none."""
        return self.old.rpartition(".")[0]

    @property
    def bare(self) -> str:
        """Its last part."""
        return self.old.rpartition(".")[2]


class ModuleUses:
    """The uses of a module in one file."""

    def __init__(self, path: str, text: str, tree: ast.Module, package: str, module: ModuleName) -> None:
        """Take a file; it is looked through when it is asked.

        Args:
            path: Where it lies.
            text: The file, which is valid.
            tree: What it says.
            package: What its relative imports begin from, dotted.
            module: What is looked for.
        """
        self.path = path
        self.text = text
        self._tree = tree
        self._package = package
        self._module = module
        self._starts = [0]
        self._lines = text.split("\n")
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    @cached_property
    def bindings(self) -> dict[str, set[str]]:
        """What each imported name may stand for, dotted."""
        found: dict[str, set[str]] = defaultdict(set)
        for node in all_nodes(self._tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    root = alias.name.partition(".")[0]
                    found[alias.asname or root].add(alias.name if alias.asname else root)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    found[alias.asname or alias.name].add(f"{module_of(node, self._package)}.{alias.name}")
        return found

    @cached_property
    def imported(self) -> frozenset[str]:
        """Every module and every name of a module that is imported, dotted."""
        plain = {
            alias.name for node in all_nodes(self._tree) if isinstance(node, ast.Import) for alias in node.names
        } | {module_of(node, self._package) for node in all_nodes(self._tree) if isinstance(node, ast.ImportFrom)}
        return frozenset(plain.union(*self.bindings.values()) if self.bindings else plain)

    @cached_property
    def stars(self) -> frozenset[str]:
        """The modules from which everything is imported."""
        return frozenset(each.removesuffix(".*") for each in self.bindings.get("*", ()))

    @cached_property
    def made(self) -> frozenset[str]:
        """The names that are bound by anything but an import."""
        found: set[str] = set()
        for node in all_nodes(self._tree):
            match node:
                case ast.Name(ctx=ast.Store() | ast.Del()):
                    found.add(node.id)
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    found.add(node.name)
                case ast.arg():
                    found.add(node.arg)
                case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                    found.add(name)
                case ast.MatchMapping(rest=str(name)):
                    found.add(name)
                case _:
                    pass
        return frozenset(found)

    @cached_property
    def read(self) -> frozenset[str]:
        """The bare names that are read."""
        return frozenset(node.id for node in all_nodes(self._tree) if isinstance(node, ast.Name))

    @cached_property
    def strings(self) -> tuple[tuple[int, str], ...]:
        """Line and value of every text, docstrings left out."""
        prose = {id(node.value) for node in all_nodes(self._tree) if isinstance(node, ast.Expr)}
        return tuple(
            (node.lineno, node.value)
            for node in all_nodes(self._tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose
        )

    @property
    def is_import(self) -> bool:
        """True if something here imports the module, or from it."""
        return self._module.old in self.imported

    def reached(self) -> Iterator[str]:
        """Yield each dotted path that ends in the bare name of the module and is not the module itself."""
        bare = self._module.bare
        found = {f"{star}.{bare}" for star in self.stars if bare in self.read - self.made - self.bindings.keys()}
        found |= {each for values in self.bindings.values() for each in values if each.endswith(f".{bare}")}
        found |= {path for _, path, _ in self._chains()}
        for _, value in self.strings:
            found |= set(re.findall(rf"[\w.]+\.{re.escape(bare)}(?!\w)", value))
            if value == bare:  # setattr(module, "name", …)
                found |= {f"{each}.{bare}" for each in self.imported}
        yield from found - {self._module.old}

    def renamed(self, *, is_reached: bool, is_parent: bool) -> str:
        """Return the text with every use of the module renamed.

        Args:
            is_reached: True if other files reach the module by its name in this one, which then stays.
            is_parent: True for the package that the module lies in.

        Raises:
            EditRefusedError: What is meant cannot be told.
        """
        edits, names = self._paths(), self._names()
        if names is None or is_reached or (not is_parent and self._module.bare in public_names(self.text)):
            edits += self._imports(keeps_name=True)
        else:
            edits += [*self._imports(keeps_name=False), *names]
        text = self.text
        for start, end, new in sorted(set(edits), reverse=True):
            text = text[:start] + new + text[end:]
        return text

    def _names(self) -> list[_Edit] | None:
        """Return the edits of the bare name; None if it may stand for something else here, or the new one does."""
        bare, new = self._module.bare, self._module.new
        taken = self.made | self.read | self.bindings.keys()
        if self.bindings.get(bare) != {self._module.old} or bare in self.made or self.stars or new in taken:
            return None
        aliases = (
            name
            for node in all_nodes(self._tree)
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in node.names
        )
        if any(alias.asname == bare for alias in aliases):
            return None
        if bare in quoted_names(self.text) or (">>>" in self.text and f"{bare}." in self.text):
            return None
        edits = []
        for node in all_nodes(self._tree):
            if isinstance(node, ast.Global | ast.Nonlocal) and bare in node.names:
                return None
            if isinstance(node, ast.Name) and node.id == bare:
                start = self._place(node.lineno, node.col_offset)
                if self.text[start : start + len(bare)] != bare:
                    return None
                edits.append((start, start + len(bare), new))
        return edits

    def _imports(self, *, keeps_name: bool) -> list[_Edit]:
        edits: list[_Edit] = []
        for node in all_nodes(self._tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name == self._module.old:
                        edits.append(self._alias(alias, keeps_name=keeps_name and "." not in alias.name))
            elif isinstance(node, ast.ImportFrom):
                source = module_of(node, self._package)
                if source == self._module.old:
                    edits.append(self._source(node))
                elif source and source == self._module.parent:
                    edits += [
                        self._alias(alias, keeps_name=keeps_name)
                        for alias in node.names
                        if alias.name == self._module.bare
                    ]
        return edits

    def _alias(self, alias: ast.alias, *, keeps_name: bool) -> _Edit:
        start = self._place(alias.lineno, alias.col_offset)
        end = start + len(alias.name)
        if self.text[start:end] != alias.name:
            raise self._unclear(alias.lineno)
        new = self._module.new + (f" as {self._module.bare}" if keeps_name and not alias.asname else "")
        return end - len(self._module.bare), end, new

    def _source(self, node: ast.ImportFrom) -> _Edit:
        start = self._place(node.lineno, node.col_offset)
        written = re.compile(r"from[ \t]*\.*[ \t]*([\w.]+)").match(self.text, start)
        if written is None or written[1] != node.module:
            raise self._unclear(node.lineno)
        return written.end() - len(self._module.bare), written.end(), self._module.new

    def _paths(self) -> list[_Edit]:
        """Return the edits of the dotted paths that mean the module."""
        edits = []
        for node, path, is_sure in self._chains():
            if path != self._module.old:
                continue
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            end = self._place(node.end_lineno, node.end_col_offset)
            if not is_sure or self.text[end - len(node.attr) : end] != node.attr:
                raise self._unclear(node.end_lineno)
            edits.append((end - len(node.attr), end, self._module.new))
        return edits

    def _chains(self) -> Iterator[tuple[ast.Attribute, str, bool]]:
        """Yield what ends in the bare name behind a dot: what it may mean, dotted, and if it can mean nothing else."""
        for node in all_nodes(self._tree):
            if not isinstance(node, ast.Attribute) or node.attr != self._module.bare:
                continue
            parts, value = [node.attr], node.value
            while isinstance(value, ast.Attribute):
                parts.append(value.attr)
                value = value.value
            if isinstance(value, ast.Name) and value.id in self.bindings:
                meanings = self.bindings[value.id]
                is_sure = len(meanings) == 1 and value.id not in self.made
                for each in meanings:
                    yield node, ".".join([each, *reversed(parts)]), is_sure

    def _place(self, line: int, column: int) -> int:
        # The columns of ast are bytes of UTF-8.
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode(errors="ignore"))

    def _unclear(self, line: int) -> EditRefusedError:
        return EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{self.path}:{line} names {self._module.bare}, and nobody can tell whether that is {self._module.old}",
            "write it plainly there first",
        )
