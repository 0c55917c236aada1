"""Inlines a function with rope, and mends what rope does wrong with its calls.

It looks for a ``from`` before a place and an ``import`` behind it, wherever they are: below a ``raise … from …`` and
above any import it takes every call for a name that is imported, and leaves it as it was. What one call passes it takes
for the default of the next ones. It copies what is passed without the brackets that it needs.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rope.base.exceptions import RefactoringError
from rope.refactor.functionutils import CallInfo
from rope.refactor.inline import InlineMethod, _DefinitionGenerator, create_inline

from khepri.edits.inline_safety import torn_values

if TYPE_CHECKING:
    from rope.base.change import ChangeSet
    from rope.base.project import Project
    from rope.base.pynames import PyName
    from rope.base.resources import File
    from rope.refactor.occurrences import Finder, Occurrence


def inline_function(
    project: "Project", file: "File", place: int, files: "Sequence[File]", function: ast.FunctionDef | None
) -> "ChangeSet":
    """Return rope's change by which the body of a function takes the place of its calls.

    Args:
        project: Where the files are.
        file: The one that defines the function.
        place: Where its name stands, in characters of what rope sees.
        files: Those that may call it.
        function: What it is, if that is known.

    Raises:
        RopeError: rope refuses.
    """
    refactoring = create_inline(project, file, place)
    if not isinstance(refactoring, InlineMethod) or function is None:
        raise RefactoringError("this is no function")
    refactoring.normal_generator = _Bodies(refactoring, refactoring.normal_generator.body, function)
    refactoring.others_generator = _Bodies(refactoring, refactoring.others_generator.body, function)
    refactoring.occurrence_finder = _Finder(refactoring.occurrence_finder)
    return refactoring.get_changes(resources=files)


class _Bodies(_DefinitionGenerator):  # type: ignore[misc]
    """Makes for each call what takes its place."""

    def __init__(self, refactoring: InlineMethod, body: str, function: ast.FunctionDef) -> None:
        super().__init__(refactoring.project, refactoring.pyfunction, body=body)
        self._function = function

    def _calculate_header(self, primary: "PyName", pyname: "PyName", call: str) -> tuple[str, list[str]]:
        try:
            node = ast.parse(call.strip(), mode="eval").body
        except SyntaxError as error:
            raise RefactoringError(f"a call cannot be read: {call[:40]}") from error
        assert isinstance(node, ast.Call)
        if any(isinstance(each, ast.Starred) for each in node.args) or any(each.arg is None for each in node.keywords):
            raise RefactoringError("what a call passes on with * or ** cannot be told apart")
        is_bound = CallInfo.read(primary, pyname, self.definition_info, call).implicit_arg
        values = self._values(node, is_bound=is_bound)
        torn = torn_values(self._function, values)
        header, names = "", []
        for name, value in values.items():
            text = ast.get_source_segment(call.strip(), value) if value in ast.walk(node) else ast.unparse(value)
            written = " ".join((text or "").split("\n"))
            if written != name:
                header += f"{name} = {f'({written})' if name in torn else written}\n"
                names.append(name)
        return header, names

    def _values(self, call: ast.Call, *, is_bound: bool) -> dict[str, ast.expr]:
        """Return what each parameter stands for in a call, its default if nothing is passed for it."""
        arguments = self._function.args
        places = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        values: dict[str, ast.expr] = dict(
            zip(places[len(places) - len(arguments.defaults) :], arguments.defaults, strict=True)
        )
        passed = [call.func.value, *call.args] if is_bound and isinstance(call.func, ast.Attribute) else call.args
        values |= dict(zip(places, passed, strict=False))
        return values | {each.arg: each.value for each in call.keywords if each.arg is not None}


class _Finder:
    def __init__(self, finder: "Finder") -> None:
        self._finder = finder

    def find_occurrences(self, file: "File") -> "Iterator[Occurrence]":
        lines: set[int] | None = None
        for each in self._finder.find_occurrences(file):
            if lines is None:
                lines = _import_lines(each.tools.pymodule.source_code)
            is_import = each.lineno in lines
            each.is_in_import_statement = lambda is_import=is_import: is_import
            yield each


def _import_lines(text: str) -> set[int]:
    return {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
