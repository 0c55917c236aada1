"""Inlines a function with rope, and mends what rope does wrong with its calls.

It looks for a ``from`` before a place and an ``import`` behind it, wherever they are: below a ``raise … from …`` and
above any import it takes every call for a name that is imported, and leaves it as it was. What one call passes it takes
for the default of the next ones. It copies what is passed without the brackets that it needs, and puts it in one
parameter after the other, also in what it has put there before. It writes a line anew for each of its calls.
"""

import ast
import io
import tokenize
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from rope.base.change import ChangeContents, ChangeSet
from rope.base.exceptions import AttributeNotFoundError, RefactoringError
from rope.base.pyobjectsdef import PyFunction
from rope.refactor.functionutils import CallInfo
from rope.refactor.inline import (
    InlineMethod,
    _add_imports,
    _DefinitionGenerator,
    _InlineFunctionCallsForModuleHandle,
    _Inliner,
    _remove_from,
)
from rope.refactor.move import ModuleSkipRenamer, moving_code_with_imports
from rope.refactor.occurrences import create_finder
from rope.refactor.sourceutils import get_body

from khepri.edits.inlining.inline_fstrings import UnwritableError, marked_tree, with_filled_f_strings
from khepri.edits.inlining.inline_safety import torn_values

if TYPE_CHECKING:
    from rope.base.codeanalyze import ChangeCollector
    from rope.base.project import Project
    from rope.base.pynames import PyName
    from rope.base.resources import File
    from rope.refactor.occurrences import Finder, Occurrence


_SEVERAL_LINES: Final = "its body has a text of several lines, which would be indented otherwise"
_CALLERS: Final = "__khepri_callers__"
"""Stands at the end of the names that a call passes while rope works on the body."""


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
    if function is None:
        raise RefactoringError("this is no function")
    if function.args.vararg is not None or function.args.kwarg is not None:
        raise RefactoringError("what a call passes to its * or ** cannot be told apart")
    try:
        return _Method(project, file, place, function).changed(files)
    except AttributeNotFoundError as error:
        raise RefactoringError(
            "its body cannot be put in the place of a call as text: write it more plainly"
        ) from error


class _Method(InlineMethod):  # type: ignore[misc]
    def __init__(self, project: "Project", file: "File", place: int, function: ast.FunctionDef) -> None:
        _Inliner.__init__(self, project, file, place)
        self.pyfunction = self.pyname.get_object() if self.pyname is not None else None
        if not isinstance(self.pyfunction, PyFunction):
            raise RefactoringError("this is no function")
        self.pymodule = self.pyfunction.get_module()
        self.resource = self.pymodule.get_resource()
        self.occurrence_finder = _Finder(create_finder(project, self.name, self.pyname))
        body = get_body(self.pyfunction)
        elsewhere, self.imports = moving_code_with_imports(project, self.resource, body)
        self.normal_generator = _Bodies(self, body, function)
        self.others_generator = _Bodies(self, elsewhere, function)

    def changed(self, files: "Sequence[File]") -> ChangeSet:
        """Return the change by which the calls in some files get the body, and the function goes."""
        changes = ChangeSet(f"inline {self.name}")
        for file in files:
            if file == self.resource:
                calls = _Calls(self.project, file, self.normal_generator)
                region = (*self._get_removed_range(), self._get_method_replacement())
                text = ModuleSkipRenamer(self.occurrence_finder, file, calls, *region).get_changed_module()
                changes.add_change(ChangeContents(file, text))
                continue
            calls = _Calls(self.project, file, self.others_generator)
            text = ModuleSkipRenamer(self.occurrence_finder, file, calls).get_changed_module()
            if text is not None:
                text = _add_imports(self.project, text, file, self.imports)
                changes.add_change(ChangeContents(file, _remove_from(self.project, self.pyname, text, file)))
        return changes


class _Calls(_InlineFunctionCallsForModuleHandle):  # type: ignore[misc]
    """Puts an expression in the place of a call, and statements before the line of one."""

    def __init__(self, project: "Project", file: "File", bodies: _DefinitionGenerator) -> None:
        super().__init__(project, file, bodies)
        self._before: set[int] = set()
        """The lines before which statements are put."""
        self._inside: dict[int, int] = {}
        """Where in a line the last call ends that an expression is put in the place of."""

    def occurred_outside_skip(self, change_collector: "ChangeCollector", occurrence: "Occurrence") -> None:
        start, end = occurrence.get_primary_range()
        if occurrence.is_in_import_statement():
            return
        number = self.lines.get_line_number(start)
        if not occurrence.is_called():
            raise RefactoringError(f"{self.resource.path}:{number} uses it without a call, or in an f-string")
        line = self.pymodule.logical_lines.logical_line_in(number)[0]
        end = self._find_end_parens(self.source, end - 1)
        scope = self.pymodule.get_scope().get_inner_scope_for_line(number)
        definition, returned = self.generator.get_definition(
            *occurrence.get_primary_and_pyname(), self.source[start:end], scope.get_names(), returns=True
        )
        is_value = not definition.strip() and returned is not None
        if line in self._before or (line in self._inside and (not is_value or start < self._inside[line])):
            raise RefactoringError(
                f"the calls in line {line} of {self.resource.path} cannot be told apart: give each a line of its own"
            )
        if is_value:
            self._inside[line] = end
            change_collector.add_change(start, end, returned)
        else:
            self._before.add(line)
            super().occurred_outside_skip(change_collector, occurrence)


class _Bodies(_DefinitionGenerator):  # type: ignore[misc]
    """Makes for each call what takes its place."""

    def __init__(self, refactoring: InlineMethod, body: str, function: ast.FunctionDef) -> None:
        super().__init__(refactoring.project, refactoring.pyfunction, body=body)
        self._function = function
        self._whole = body
        if not _texts(body) <= {each.value for each in ast.walk(function) if isinstance(each, ast.Constant)}:
            raise RefactoringError(_SEVERAL_LINES)

    def _get_definition_params(self) -> dict[str, str]:
        return {}  # They are told apart for each call.

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
        self.body = self._with_f_strings(values, set(ast.walk(node)))
        torn = torn_values(self._function, values)
        header, names = "", []
        passed = set(ast.walk(node))
        for name, value in values.items():
            text = ast.get_source_segment(call.strip(), value) if value in passed else ast.unparse(value)
            written = " ".join((text or "").split("\n"))
            if written != name:
                marked = _marked(written, values.keys()) if value in passed else written
                header += f"{name} = {f'({marked})' if name in torn else marked}\n"
                names.append(name)
        return header, names

    def _calculate_definition(self, *call: object, **options: object) -> tuple[str, str | None]:
        definition, returned = super()._calculate_definition(*call, **options)
        definition = definition.replace(_CALLERS, "")
        return definition, _without_last_comment(returned.replace(_CALLERS, "")) if returned is not None else None

    def _with_f_strings(self, values: dict[str, ast.expr], passed: Collection[ast.AST]) -> str:
        """Return the body with what stands for the parameters in its f-strings, where rope would break the quotes."""
        changed = {
            name: marked_tree(value, _CALLERS) if value in passed else value
            for name, value in values.items()
            if not (isinstance(value, ast.Name) and value.id == name)
        }
        try:
            return with_filled_f_strings(self._whole, changed)
        except UnwritableError as error:
            name = self._function.name
            raise RefactoringError(
                f"what a call passes cannot be written into an f-string of {name}, for its quotes or backslashes: "
                "assign it to a name first"
            ) from error

    def _values(self, call: ast.Call, *, is_bound: bool) -> dict[str, ast.expr]:
        """Return what each parameter stands for in a call, its default if nothing is passed for it."""
        arguments = self._function.args
        places = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
        values: dict[str, ast.expr] = dict(
            zip(places[len(places) - len(arguments.defaults) :], arguments.defaults, strict=True)
        )
        named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        values |= {each.arg: default for each, default in named if default is not None}
        passed = [call.func.value, *call.args] if is_bound and isinstance(call.func, ast.Attribute) else call.args
        values |= dict(zip(places, passed, strict=False))
        return values | {each.arg: each.value for each in call.keywords if each.arg is not None}


def _texts(body: str) -> set[object]:
    """Return the constants in some statements, but for texts that stand alone and say something of the code.

    Raises:
        RefactoringError: They cannot be read.
    """
    try:
        tree = ast.parse(body)
    except SyntaxError as error:
        raise RefactoringError(_SEVERAL_LINES) from error
    alone = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    return {each.value for each in ast.walk(tree) if isinstance(each, ast.Constant) and id(each) not in alone}


def _without_last_comment(expression: str) -> str:
    """Return an expression without the comment behind it, which would hide what follows its place."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(expression).readline))
    except (tokenize.TokenError, SyntaxError):
        return expression
    line, column = max(each.end for each in tokens if each.string.strip() and each.type != tokenize.COMMENT)
    rows = expression.split("\n")[:line]
    return "\n".join([*rows[:-1], rows[-1][:column]])


def _marked(written: str, parameters: Collection[str]) -> str:
    """Return what a call passes with its names marked as the caller's: a parameter may be called like them.

    Raises:
        RefactoringError: It is no expression.
    """
    line = f"({written})"
    try:
        tree = ast.parse(line, mode="eval")
    except SyntaxError as error:
        raise RefactoringError(f"what is passed cannot be read: {written[:40]}") from error
    strings = [each for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for each in ast.walk(node)]
    if any(isinstance(each, ast.Name) and each.id in parameters for each in strings):
        # Where names stand in an f-string cannot be told from every Python's tree.
        return ast.unparse(marked_tree(tree.body, _CALLERS))
    row = line.encode()
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and node not in strings)
    for end in sorted((node.end_col_offset or 0 for node in names), reverse=True):
        row = row[:end] + _CALLERS.encode() + row[end:]
    return row.decode()[1:-1]


class _Finder:
    def __init__(self, finder: "Finder") -> None:
        self._finder = finder

    def find_occurrences(self, file: "File") -> "Iterator[Occurrence]":
        lines: set[int] | None = None
        for each in self._finder.find_occurrences(file):
            text = each.tools.pymodule.source_code
            if text[each.get_word_range()[1] :][:1] in ("'", '"'):
                continue  # It is the letter before a string: f"…".
            if lines is None:
                lines = _import_lines(text)
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
