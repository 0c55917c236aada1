"""Adds, removes and renames a parameter of a Python function, its calls included.

rope finds the calls. It does not write the definition: its own change of a signature drops annotations and breaks
keyword-only parameters, so the text is edited here, at the places that ``ast`` gives.
"""

import ast
import builtins
import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.imports import check_imports
from khepri.edits.locate import Target, find_python, name_offset, read_source
from khepri.edits.mentions import uses_of
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename import Refactoring, check_name
from khepri.edits.rope_project import RopeProject
from khepri.edits.soundness import check_sound
from khepri.edits.workspace import Workspace

if TYPE_CHECKING:
    from rope.base.change import ChangeSet as RopeChanges

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class _Edit:
    start: int
    end: int
    text: str


def add_parameter(
    workspace: Workspace, path: str, symbol: str, name: str, default: str, annotation: str = ""
) -> Refactoring:
    """Add a parameter with a default after the others, so that no call has to change.

    Raises:
        EditRefusedError: There is no such function, it has that parameter, or the default is no expression.
    """
    function = _Definition(find_python(workspace, path, symbol))
    check_name(name)
    if not default.strip():
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"a new parameter of {function.target.label} needs a default, or every call would break",
            "name a default, such as None",
        )
    for words in filter(None, (default, annotation)):
        _check_expression(words)
    default = _as_meant(default, function.text)
    if name in function.parameter_names:
        raise EditRefusedError(Refusal.NO_OP, f"{function.target.label} has a parameter {name} already")
    text = f"{name}: {annotation} = {default}" if annotation else f"{name}={default}"
    edit = function.insertion(text)
    title = f"add {text} to {function.target.label}"
    return _finished(workspace, change_set(title, [_edited(function.target, [edit])]))


def remove_parameter(workspace: Workspace, path: str, symbol: str, name: str) -> Refactoring:
    """Remove a parameter that the function does not use, and what its calls pass for it.

    Raises:
        EditRefusedError: There is no such parameter, it is used, or a call hides what it passes behind ``*`` or ``**``.
    """
    function = _Definition(find_python(workspace, path, symbol))
    if name not in function.parameter_names:
        known = ", ".join(function.parameter_names) or "none"
        raise EditRefusedError(
            Refusal.NO_TARGET, f"{function.target.label} has no parameter {name}", f"its parameters are {known}"
        )
    used = function.uses(name)
    if used:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{function.target.label} uses {name} at line {used[0]}",
            "rewrite the function without it first",
        )
    title = f"remove {name} from {function.target.label}"
    edits: dict[str, list[_Edit]] = {function.target.source.path: [function.removal(name)]}
    sources = {function.target.source.path: function.target.source}
    for call_path, offset in _calls(workspace, function.target):
        source = sources.setdefault(call_path, read_source(workspace, call_path))
        edit = _argument_removal(source.text, offset, name, function)
        if edit is not None:
            edits.setdefault(call_path, []).append(edit)
    files = []
    for edited_path, places in edits.items():
        source = sources[edited_path]
        after = replace_text(source.data, _with_edits(source.text, places))
        files.append(FileChange(edited_path, source.data, after))
    return _finished(workspace, change_set(title, files))


def rename_parameter(workspace: Workspace, path: str, symbol: str, old: str, new: str) -> Refactoring:
    """Rename a parameter in its function and in the calls that pass it by name.

    Raises:
        EditRefusedError: There is no such parameter, or the new name is none or is taken.
    """
    function = _Definition(find_python(workspace, path, symbol))
    check_name(new)
    place = function.parameter_offset(old)
    if new in function.parameter_names or function.uses(new):
        raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{function.target.label} uses the name {new} already")
    project = RopeProject(workspace)

    def run() -> "RopeChanges":
        from rope.refactor.rename import Rename

        offset = project.place(function.target.source.text, place)
        refactoring = Rename(project.project, project.file(function.target.source.path), offset)
        return refactoring.get_changes(new, resources=project.candidates(old))

    title = f"rename {old} of {function.target.label} to {new}"
    return _finished(workspace, project.change_of(title, run))


def _as_meant(default: str, text: str) -> str:
    """Return a default as it was meant: a word that nothing in the file is called is a text that lost its quotes."""
    word = default.strip()
    if word.isidentifier() and not keyword.iskeyword(word) and not hasattr(builtins, word) and not uses_of(text, word):
        return f'"{word}"'
    return word


def _check_expression(words: str) -> None:
    try:
        ast.parse(words, mode="eval")
    except (SyntaxError, ValueError) as error:
        raise EditRefusedError(Refusal.SYNTAX, f"{words[:60]!r} is no Python expression") from error


class _Definition:
    """A function definition with the places of its parameters."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.text = target.source.text
        self._starts = [0]
        for line in self.text.split("\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._lines = self.text.split("\n")
        self.node = self._find()

    @property
    def is_method(self) -> bool:
        """True if calls pass its first parameter by the object."""
        names = {ast.unparse(decorator) for decorator in self.node.decorator_list}
        return "." in self.target.symbol and "staticmethod" not in names

    @property
    def positional(self) -> list[str]:
        """Names of the parameters that may be passed by place."""
        return [each.arg for each in (*self.node.args.posonlyargs, *self.node.args.args)]

    @property
    def parameter_names(self) -> list[str]:
        """Names of all parameters but ``*args`` and ``**kwargs``."""
        return [*self.positional, *(each.arg for each in self.node.args.kwonlyargs)]

    def uses(self, name: str) -> list[int]:
        """Return the lines of the body that use a name."""
        nodes = (node for statement in self.node.body for node in ast.walk(statement))
        return sorted(node.lineno for node in nodes if isinstance(node, ast.Name) and node.id == name)

    def parameter_offset(self, name: str) -> int:
        """Return where a parameter's name stands.

        Raises:
            EditRefusedError: There is none of that name.
        """
        every = (*self.node.args.posonlyargs, *self.node.args.args, *self.node.args.kwonlyargs)
        for each in every:
            if each.arg == name:
                return self._place(each.lineno, each.col_offset)
        raise EditRefusedError(Refusal.NO_TARGET, f"{self.target.label} has no parameter {name}")

    def insertion(self, text: str) -> _Edit:
        """Return the edit that puts a parameter after the ordinary ones, or after the keyword-only ones."""
        arguments = self.node.args
        last: ast.expr | ast.arg | None = None
        if arguments.kwonlyargs:
            name = arguments.kwonlyargs[-1]
            last = arguments.kw_defaults[-1] or name.annotation or name
        elif arguments.args or arguments.posonlyargs:
            name = (*arguments.posonlyargs, *arguments.args)[-1]
            last = arguments.defaults[-1] if arguments.defaults else name.annotation or name
        if last is None:
            place = self._after_opening()
            rest = ", " if arguments.vararg or arguments.kwarg else ""
            return _Edit(place, place, text + rest)
        assert last.end_lineno is not None
        assert last.end_col_offset is not None
        place = self._place(last.end_lineno, last.end_col_offset)
        while self.text[place] == ")" and self._closes_default(place):
            place += 1
        if arguments.posonlyargs and not arguments.args and not arguments.kwonlyargs:
            slash = re.match(r"\s*,\s*/", self.text[place:])
            place += slash.end() if slash else 0
        return self._separated(place, text)

    def removal(self, name: str) -> _Edit:
        """Return the edit that takes a parameter out, with its comma."""
        start = self.parameter_offset(name)
        pieces = _split_arguments(self.text, self._after_opening())
        if [each.arg for each in self.node.args.kwonlyargs] == [name] and self.node.args.vararg is None:
            # A star without a parameter after it is a syntax error; it goes along.
            star = next(i for i, piece in enumerate(pieces) if self.text[piece[0] : piece[1]].strip() == "*")
            before = pieces[star - 1][1] if star else pieces[star][0]
            return _Edit(before, pieces[star + 1][1], "")
        return _removal_of(self.text, pieces, next(i for i, piece in enumerate(pieces) if piece[0] <= start < piece[1]))

    def _separated(self, place: int, text: str) -> _Edit:
        """Put a parameter on a line of its own where the others are, with a comma where they have one."""
        rest = self.text[place:]
        trailing = re.match(r"\s*,(?=\s*\))", rest)
        line_start = self.text.rfind("\n", 0, place) + 1
        is_on_own_line = self._after_opening() <= line_start
        if not is_on_own_line:
            return _Edit(place, place, f", {text}")
        indent = re.match(r"[ \t]*", self.text[line_start:])
        lead = ",\n" + (indent.group() if indent else "")
        return _Edit(place, place + (trailing.end() if trailing else 0), lead + text + ("," if trailing else ""))

    def _closes_default(self, place: int) -> bool:
        """True if a bracket belongs to a parenthesized default, which ``ast`` does not count in."""
        opened = self.text.count("(", self._after_opening(), place)
        return opened > self.text.count(")", self._after_opening(), place)

    def _after_opening(self) -> int:
        start = name_offset(self.target) + len(self.target.name)
        if self.text[start : start + 1] == "[":
            depth = 0
            for place in range(start, len(self.text)):
                depth += {"[": 1, "]": -1}.get(self.text[place], 0)
                if not depth:
                    start = place
                    break
        return self.text.index("(", start) + 1

    def _place(self, line: int, column: int) -> int:
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def _find(self) -> _Function:
        try:
            tree = ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise EditRefusedError(
                Refusal.SYNTAX, f"{self.target.source.path} cannot be parsed: {error}", "mend it first"
            ) from error
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == self.target.name:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                if first == self.target.start_line:
                    return node
        raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{self.target.label} is no function", "name a function")


def _calls(workspace: Workspace, target: Target) -> Iterator[tuple[str, int]]:
    """Yield the path and the place of the opening bracket of every call that rope finds."""
    from rope.refactor.occurrences import create_finder

    project = RopeProject(workspace)
    resource = project.file(target.source.path)
    found: list[tuple[str, int]] = []

    def run() -> "RopeChanges":
        from rope.base import evaluate
        from rope.base.change import ChangeSet as RopeChanges

        module = project.project.get_pymodule(resource)
        primary, name = evaluate.eval_location2(module, project.offset(target))
        finder = create_finder(project.project, target.name, name, instance=primary, only_calls=True)
        for file in project.candidates(target.name):
            for occurrence in finder.find_occurrences(file):
                found.append((file.path, occurrence.get_word_range()[1]))
        return RopeChanges("")

    project.change_of(f"find the calls of {target.label}", run)
    for path, veiled_place in found:
        text = read_source(workspace, path).text
        place = project.unveiled(text, veiled_place)
        opening = text.find("(", place)
        if opening >= 0 and not text[place:opening].strip():
            yield path, opening


def _argument_removal(text: str, opening: int, name: str, function: _Definition) -> _Edit | None:
    if re.search(rf"\bdef\s+{re.escape(function.target.name)}\s*\Z", text[:opening]):
        return None
    pieces = _split_arguments(text, opening + 1)
    words = [text[start:end].strip() for start, end in pieces]
    for index, word in enumerate(words):
        if re.match(rf"{re.escape(name)}\s*=(?!=)", word):
            return _removal_of(text, pieces, index)
    if any(word.startswith("*") for word in words):
        line = text.count("\n", 0, opening) + 1
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"a call at line {line} passes * or **, so that nobody can tell whether {name} is among it",
            "change that call first",
        )
    names = function.positional[1:] if function.is_method else function.positional
    if name not in names:
        return None
    place = names.index(name)
    by_place = [word for word in words if not re.match(r"\w+\s*=(?!=)", word)]
    return _removal_of(text, pieces, place) if place < len(by_place) else None


def _split_arguments(text: str, start: int) -> list[tuple[int, int]]:
    """Return where each argument begins and ends, from behind the opening bracket on; strings are stepped over."""
    pieces, depth, place, piece = [], 0, start, start
    while place < len(text):
        character = text[place]
        if character in "\"'":
            mark = character * 3 if text.startswith(character * 3, place) else character
            place += len(mark)
            while place < len(text) and not text.startswith(mark, place):
                place += 2 if text[place] == "\\" else 1
            place += len(mark)
            continue
        if character == "#":
            place = text.find("\n", place)
            continue
        if character in "([{":
            depth += 1
        elif character in ")]}":
            if depth == 0:
                break
            depth -= 1
        elif character == "," and depth == 0:
            pieces.append((piece, place))
            piece = place + 1
        place += 1
    if text[piece:place].strip():
        pieces.append((piece, place))
    return pieces


def _removal_of(text: str, pieces: list[tuple[int, int]], index: int) -> _Edit:
    start, end = pieces[index]
    if index + 1 < len(pieces):
        lead = len(text[start:end]) - len(text[start:end].lstrip())
        following = pieces[index + 1][0]
        space = len(text[following:]) - len(text[following:].lstrip())
        return _Edit(start + lead, following + space, "")
    if index:
        return _Edit(pieces[index - 1][1], end, "")
    has_comma = text[end : end + 1] == ","
    return _Edit(start, end + has_comma, "")


def _edited(target: Target, edits: list[_Edit]) -> FileChange:
    source = target.source
    return FileChange(source.path, source.data, replace_text(source.data, _with_edits(source.text, edits)))


def _with_edits(text: str, edits: list[_Edit]) -> str:
    for edit in sorted(edits, key=lambda each: -each.start):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def _finished(workspace: Workspace, changes: ChangeSet) -> Refactoring:
    if not changes.files:
        raise EditRefusedError(Refusal.NO_OP, f"{changes.title}: nothing would change")
    check_imports(workspace, changes)
    return Refactoring(changes, check_sound(changes))
