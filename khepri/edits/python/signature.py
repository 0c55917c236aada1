"""Finds the places of a Python function's signature and of the arguments of a call, and edits a text at them."""

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from khepri.edits.change import FileChange
from khepri.edits.exact import replace_text
from khepri.edits.locate import Source, Target, name_offset
from khepri.edits.python.calls import Function, parameters_of
from khepri.edits.python.offsets import Offsets
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.refusal import EditRefusedError, Refusal

_WORDS: Final = re.compile(
    r"#[^\n]*|(?P<long>\"\"\"|''')(?:\\.|.)*?(?P=long)|(?P<short>[\"'])(?:\\.|.)*?(?P=short)|.", re.DOTALL
)
_TAIL: Final = re.compile(r"[ \t]*,?[ \t]*(?:#[^\n]*)?(?=\n)")
_LEAD: Final = re.compile(r"(?:\s|#[^\n]*\n)*")


@dataclass(frozen=True)
class Edit:
    """What takes the place of a piece of a text."""

    start: int
    end: int
    text: str


class Definition:
    """A function definition with the places of its parameters."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.text = target.source.text
        self._offsets = Offsets(self.text)
        self.node = self._find()

    @property
    def is_method(self) -> bool:
        """True if calls pass its first parameter by the object."""
        names = {ast.unparse(decorator) for decorator in self.node.decorator_list}
        return self.target.is_member and "staticmethod" not in names

    @property
    def is_class_method(self) -> bool:
        """True if calls pass its first parameter even where they name the class."""
        return any(ast.unparse(decorator) == "classmethod" for decorator in self.node.decorator_list)

    @property
    def positional(self) -> list[str]:
        """Names of the parameters that may be passed by place."""
        return [each.arg for each in (*self.node.args.posonlyargs, *self.node.args.args)]

    @property
    def positional_only(self) -> list[str]:
        """Names of the parameters that may not be passed by name."""
        return [each.arg for each in self.node.args.posonlyargs]

    @property
    def keywords(self) -> list[str]:
        """Names of the parameters that may be passed by name."""
        return [each.arg for each in (*self.node.args.args, *self.node.args.kwonlyargs)]

    @property
    def parameter_names(self) -> list[str]:
        """Names of all parameters but ``*args`` and ``**kwargs``."""
        return parameters_of(self.node)

    def span(self, node: ast.expr) -> tuple[int, int]:
        """Return where an expression of the definition begins and ends in the text."""
        return self._offsets.start(node), self._offsets.end(node)

    def start(self, parameter: ast.arg) -> int:
        """Return where a parameter begins in the text."""
        return self._offsets.start(parameter)

    def uses(self, name: str, besides: Sequence[Edit] = ()) -> list[int]:
        """Return the lines of the body that use a name, but not in what some edits take out."""
        nodes = (node for statement in self.node.body for node in ast.walk(statement))
        found = [node for node in nodes if isinstance(node, ast.Name) and node.id == name]
        places = ((node.lineno, self._offsets.start(node)) for node in found)
        return sorted(line for line, place in places if not any(each.start <= place < each.end for each in besides))

    def parameter_offset(self, name: str) -> int:
        """Return where a parameter's name stands.

        Raises:
            EditRefusedError: There is none of that name.
        """
        every = (*self.node.args.posonlyargs, *self.node.args.args, *self.node.args.kwonlyargs)
        for each in every:
            if each.arg == name:
                return self._offsets.start(each)
        raise EditRefusedError(Refusal.NO_TARGET, f"{self.target.label} has no parameter {name}")

    def with_plain_parameters(self) -> str:
        """Return the text with spaces for ``/``, ``*``, ``*args`` and defaults: every place stays where it is.

        The parameters that are left may be passed by place and by name. A function that has no others stays as it is.
        """
        arguments = self.node.args
        if not (arguments.posonlyargs or arguments.kwonlyargs):
            return self.text
        every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        ends = {self._offsets.start(each): self._offsets.end(each.annotation or each) for each in every}
        text = self.text
        for start, end in split_arguments(text, self._after_opening()):
            first = _first(text, start, end)
            if text[first] == "/" or (text[first] == "*" and not text.startswith("**", first)):
                text = _blanked(text, first, end + (text[end] == ","))
            elif first in ends and "=" in text[ends[first] : end]:
                text = _blanked(text, text.index("=", ends[first]), end)
        return text

    def insertion(self, text: str) -> Edit:
        """Return the edit that puts a parameter after the ordinary ones, or after the keyword-only ones."""
        arguments = self.node.args
        last: ast.expr | ast.arg | None = None
        if arguments.kwonlyargs:
            name = arguments.kwonlyargs[-1]
            last = arguments.kw_defaults[-1] or name.annotation or name
        elif arguments.vararg:
            # Before it, it would take what calls pass on.
            last = arguments.vararg.annotation or arguments.vararg
        elif arguments.args or arguments.posonlyargs:
            name = (*arguments.posonlyargs, *arguments.args)[-1]
            last = arguments.defaults[-1] if arguments.defaults else name.annotation or name
        if last is None:
            place = self._after_opening()
            rest = ", " if arguments.kwarg else ""
            return Edit(place, place, text + rest)
        place = self._offsets.end(last)
        while self.text[place] == ")" and self._closes_default(place):
            place += 1
        if arguments.posonlyargs and not (arguments.args or arguments.vararg or arguments.kwonlyargs):
            slash = re.match(r"\s*,\s*/", self.text[place:])
            place += slash.end() if slash else 0
        return self._separated(place, text)

    def removal(self, name: str) -> Edit:
        """Return the edit that takes a parameter out, with its comma."""
        start = self.parameter_offset(name)
        pieces = split_arguments(self.text, self._after_opening())
        if self.positional_only == [name]:
            # A slash without a parameter before it is a syntax error as well.
            end = _first(self.text, *pieces[2]) if len(pieces) > 2 else pieces[1][1]
            return Edit(_first(self.text, *pieces[0]), end, "")
        if [each.arg for each in self.node.args.kwonlyargs] == [name] and self.node.args.vararg is None:
            # A star without a parameter after it is a syntax error; it goes along.
            star = next(
                i for i, piece in enumerate(pieces) if self.text[_first(self.text, *piece) : piece[1]].strip() == "*"
            )
            before = pieces[star - 1][1] if star else pieces[star][0]
            return Edit(before, pieces[star + 1][1], "")
        return removal_of(self.text, pieces, next(i for i, piece in enumerate(pieces) if piece[0] <= start < piece[1]))

    def _separated(self, place: int, text: str) -> Edit:
        """Put a parameter on a line of its own where the others are, with a comma where they have one."""
        rest = self.text[place:]
        trailing = re.match(r"\s*,(?=\s*\))", rest)
        line_start = self.text.rfind("\n", 0, place) + 1
        is_on_own_line = self._after_opening() <= line_start
        if not is_on_own_line:
            return Edit(place, place, f", {text}")
        indent = re.match(r"[ \t]*", self.text[line_start:])
        lead = ",\n" + (indent.group() if indent else "")
        return Edit(place, place + (trailing.end() if trailing else 0), lead + text + ("," if trailing else ""))

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

    def _find(self) -> Function:
        try:
            tree = tree_of(self.text)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise EditRefusedError(
                Refusal.SYNTAX, f"{self.target.source.path} cannot be parsed: {error}", "mend it first"
            ) from error
        for node in all_nodes(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == self.target.name:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                if first == self.target.start_line:
                    return node
        raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{self.target.label} is no function", "name a function")


def split_arguments(text: str, start: int) -> list[tuple[int, int]]:
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
    if _first(text, piece, place) < place:
        pieces.append((piece, place))
    return pieces


def removal_of(text: str, pieces: list[tuple[int, int]], index: int) -> Edit:
    """Return the edit that takes one of several arguments out, with its comma."""
    start, end = pieces[index]
    first, last = _first(text, start, end), _last(text, start, end)
    head, tail = text[start:first], _TAIL.match(text, last)
    if "\n" in head and tail is not None and ("," in tail[0] or "#" in head + tail[0]):
        # It has its lines to itself; what stands behind the comma before it speaks of the one before.
        return Edit(start + head.index("\n"), tail.end(), "")
    if index + 1 < len(pieces):
        lead = len(text[start:end]) - len(text[start:end].lstrip())
        following = pieces[index + 1][0]
        space = len(text[following:]) - len(text[following:].lstrip())
        return Edit(start + lead, following + space, "")
    if index:
        return Edit(pieces[index - 1][1], end, "")
    has_comma = text[end : end + 1] == ","
    return Edit(start, end + has_comma, "")


def with_edits(text: str, edits: list[Edit]) -> str:
    """Return a text with all of the edits, which do not overlap."""
    for edit in sorted(edits, key=lambda each: -each.start):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text


def edited(source: Source, edits: list[Edit]) -> FileChange:
    """Return the change of a file to its text with all of the edits."""
    return FileChange(source.path, source.data, replace_text(source.data, with_edits(source.text, edits), source.path))


def _first(text: str, start: int, end: int) -> int:
    """Return where an argument begins, behind spaces and comments."""
    lead = _LEAD.match(text, start, end)
    return lead.end() if lead else start


def _last(text: str, start: int, end: int) -> int:
    """Return where an argument ends, before spaces and comments."""
    words = (match for match in _WORDS.finditer(text, start, end) if match[0].strip() and match[0][0] != "#")
    return max((match.end() for match in words), default=start)


def _blanked(text: str, start: int, end: int) -> str:
    return text[:start] + re.sub(r"[^\n]", " ", text[start:end]) + text[end:]
