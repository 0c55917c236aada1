"""Extracts a function with rope, and tells it which names some lines read and bind where rope does not know.

rope overlooks what an ``import`` and an ``except … as`` bind, takes the variables of a comprehension or a lambda for
those of the function around it, and does not look at the defaults and decorators of a function inside. It takes what a
branch behind the lines binds for bound whichever way is taken, and in the lines what stands behind an inner branch, or
in a ``try``. It finds the lines again by a pattern that it makes of them, which f-strings spoil; here they are where
they were said to be.
"""

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rope.base.change import ChangeContents, ChangeSet
from rope.refactor.extract import (
    ExtractMethod,
    _ExtractInfo,
    _ExtractMethodParts,
    _ExtractPerformer,
    _FunctionInformationCollector,
    _parse_text,
)

if TYPE_CHECKING:
    from rope.base.project import Project
    from rope.base.resources import File
    from rope.refactor.extract import _ExtractCollector

_SETS = ("prewritten", "written", "maybe_written", "postwritten", "read", "postread")


def extract_function(project: "Project", file: "File", start: int, end: int, name: str) -> ChangeSet:
    """Return rope's change by which some code becomes a function or method.

    Args:
        project: Where the file is.
        file: A Python file.
        start: Where the code begins, in characters of what rope sees.
        end: Where it ends.
        name: What the function is called.

    Raises:
        RopeError: rope refuses.
    """
    checked = ExtractMethod(project, file, start, end)
    info = _ExtractInfo(project, file, checked.start_offset, checked.end_offset, name, False, False, False)
    info.kind = ExtractMethod.kind
    changes = ChangeSet(f"Extract {name}")
    changes.add_change(ChangeContents(file, _Performer(info).extract()))
    return changes


class _Names(_FunctionInformationCollector):  # type: ignore[misc]
    """Which names are read and bound before, in and after the lines."""

    conditional: bool
    _is_later_branch = False
    """Whether what is visited stands behind the lines, and may not be run."""

    def _written_variable(self, name: str, lineno: int) -> None:
        if lineno <= self.end or not self._is_later_branch:
            super()._written_variable(name, lineno)

    def _read_variable(self, name: str, lineno: int) -> None:
        # What another branch binds may be as it was before the lines.
        if self.start <= lineno <= self.end and name not in self.written:
            self.read.add(name)
        super()._read_variable(name, lineno)

    def _If(self, node: ast.If) -> None:
        self.visit(node.test)
        self._branches(node, node.body, node.orelse)

    def _While(self, node: ast.While) -> None:
        with self._handle_loop_context(node):
            self._If(node)  # type: ignore[arg-type]

    def _For(self, node: ast.For | ast.AsyncFor) -> None:
        with self._handle_loop_context(node):
            self.visit(node.iter)
            self._branches(node, [node.target, *node.body], node.orelse)

    _AsyncFor = _For

    def _Try(self, node: ast.Try) -> None:
        self._branches(node, node.body, *([each] for each in node.handlers), node.orelse)
        for each in node.finalbody:
            self.visit(each)

    _TryStar = _Try

    def _Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        self._branches(node, *([each.pattern, *filter(None, [each.guard]), *each.body] for each in node.cases))

    def _branches(self, node: ast.stmt, *blocks: Sequence[ast.AST]) -> None:
        """Visit the code of a statement of which each block may be run or not, but for what runs if the lines do."""
        is_inside = self.start <= node.lineno <= self.end
        for block in filter(None, blocks):
            first, last = getattr(block[0], "lineno", 0), getattr(block[-1], "end_lineno", 0)
            before = self.conditional, self._is_later_branch
            self.conditional |= is_inside
            self._is_later_branch |= not is_inside and not first <= self.start <= self.end <= last
            for each in block:
                self.visit(each)
            self.conditional, self._is_later_branch = before

    def _Import(self, node: ast.Import | ast.ImportFrom) -> None:
        for alias in node.names:
            self._written_variable(alias.asname or alias.name.partition(".")[0], node.lineno)

    _ImportFrom = _Import

    def _ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.type is not None:
            self.visit(node.type)
        if node.name is not None:
            self._written_variable(node.name, node.lineno)
        for child in node.body:
            self.visit(child)

    def _FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if self.is_global or not self.host_function:
            defaults = (each for each in (*node.args.defaults, *node.args.kw_defaults) if each is not None)
            for child in (*node.decorator_list, *defaults):
                self.visit(child)
        super()._FunctionDef(node)

    def _Lambda(self, node: ast.Lambda) -> None:
        for child in (*node.args.defaults, *node.args.kw_defaults):
            if child is not None:
                self.visit(child)
        with self._own({each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}):
            self.visit(node.body)

    def _comp_exp(self, node: ast.AST) -> None:
        generators: Sequence[ast.comprehension] = node.generators  # type: ignore[attr-defined]
        # What comes first is read outside.
        self.visit(generators[0].iter)
        targets = (each for generator in generators for each in ast.walk(generator.target))
        with self._own({each.id for each in targets if isinstance(each, ast.Name)}):
            for child in ast.iter_child_nodes(node):
                self.visit(child)

    @contextmanager
    def _own(self, names: set[str]) -> Iterator[None]:
        """Leave what happens to some names out: they are others inside."""
        before = {each: set(getattr(self, each)) for each in _SETS}
        yield
        for each in _SETS:
            for name in names - before[each]:
                getattr(self, each).discard(name)


class _Parts(_ExtractMethodParts):  # type: ignore[misc]
    def _create_info_collector(self) -> _Names:
        before = self.info.scope.get_start() - 1
        start, end = (line - before for line in self.info.region_lines)
        names = _Names(start, end, self.info.global_)
        first, last = self.info.scope_region
        names.visit(_parse_text(self.info.source[first:last]))
        return names


class _Performer(_ExtractPerformer):  # type: ignore[misc]
    def _find_definition(self, collector: "_ExtractCollector") -> None:
        parts = _Parts(self.info)
        collector.definition = parts.get_definition()
        collector.replacement_pattern = parts.get_replacement_pattern()

    def _find_matches(self, collector: "_ExtractCollector") -> None:
        collector.matches = [_Lines(self.info)]


class _Lines:
    """The lines, as rope asks for a match."""

    def __init__(self, info: _ExtractInfo) -> None:
        start, end = info.region
        code = info.source[start:end]
        self._region = start + len(code) - len(code.lstrip()), start + len(code.rstrip())

    def get_region(self) -> tuple[int, int]:
        return self._region

    def get_ast(self, name: str) -> None:
        """Every name is called in the new function as it was."""
