"""Which lines of a function a task names outright: by numbers, by what stands in the first and the last, by variables.

They are those lines or none at all. What a task only describes ("the checks") is not looked for here.
"""

import ast
import re
from collections.abc import Sequence
from typing import Final, NoReturn

from khepri.edits.locate import Source, Target
from khepri.edits.python.statements import Statement, Statements
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.repo.symbols import outline

_NUMBERS: Final = re.compile(
    r"(?:\b(?:lines?|rows?)\s+|\.pyi?:|\bL)(?P<numbers>\d+(?:\s*(?:,|-|\u2013|\u2014|\.\.+|\b(?:to|through|until|till|up\s+to|and)\b)+"
    r"\s*(?:lines?\s+|L)?\d+)*)(?!\w|\.\d)",
    re.IGNORECASE,
)
_LISTED: Final = re.compile(r",|\band\b", re.IGNORECASE)
_LINES: Final = r"(?:lines?|rows?|statements?|code|part|section|block|bit|everything|all)"
_END: Final = (
    r"(?P<last>(?P<q2>[`'\"]).{1,120}?(?P=q2)|.{1,120}?)(?=\s+(?:in|of|into|as|from|out|inside|within|to\s+(?:an?|the|its)\s"
    r"|and\s+(?:call|name))\b|[,;]|\.?\s*$|\.\s)"
)
_SPAN: Final = re.compile(
    rf"(?P<sure>\b{_LINES}\s+(?:(?:in|of)\s+\S+\s+)?)?"
    r"\b(?:from|start(?:s|ing)?\s+(?:at|with|from)|begin(?:s|ning)?\s+(?:at|with|from)|(?P<between>between))\s+"
    r"(?P<first>(?P<q1>[`'\"]).{1,120}?(?P=q1)|.{1,120}?)\s+(?:and\s+)?"
    r"(?:up\s+to|to|through|until|till|end(?:s|ing)?\s+(?:at|with)|(?(between)and|(?!)))\s+(?:and\s+including\s+)?"
    + _END,
    re.IGNORECASE | re.DOTALL,
)
_ALONE: Final = re.compile(
    r"\b(?:extract|factor\s+out|pull\s+out|split\s+out)\s+(?P<first>(?:the\s+)?(?:\w+\s+)?"
    r"(?:(?P<sure>(?:line|statement|assignment)\s.{1,120}?)|(?:for|while|if|try|with|match)(?:\s+(?:loop|block|statement))?"
    r"|loop|(?P<q>[`'\"]).{1,120}?(?P=q)))(?=\s+(?:in|of|into|from|to|as|out)\b)",
    re.IGNORECASE | re.DOTALL,
)
_NO_LINES: Final = re.compile(r"(?:an?|the|its|new|own|function|method|helper|module|file|class)\b", re.IGNORECASE)
_DOING: Final = (
    r"(?:sets?|setting|assigns?|assigning|computes?|calculates?|defines?|makes?|creates?|binds?|calls?|reads?)"
)
_LEADING: Final = re.compile(
    rf"(?:the\s+|where\s+|when\s+|(?:{_LINES}|assignment|definition|place|point)\s+(?:of\s+|to\s+|at\s+)?"
    rf"|(?:that|which|where|one|starting|beginning)\s+(?:with\s+)?|(?:start|begin)s?\s+with\s+|with\s+|{_DOING}\s+)",
    re.IGNORECASE,
)
_TRAILING: Final = re.compile(r"\s+(?:is|are|gets)\s+(?:set|assigned|computed|calculated|defined|made|created)$", re.I)
_ORDINALS: Final = {"first": 0, "second": 1, "third": 2, "fourth": 3, "last": -1}
_KIND: Final = re.compile(
    r"(for|while|if|try|with|match|return|raise|assert|yield|del)(?:\s+(?:loop|block|statement|clause|expression))?"
)
_EDGES: Final = {"beginning": 0, "start": 0, "top": 0, "end": -1, "bottom": -1}


def function_at(source: Source, task: str) -> str:
    """Return the qualified name of the innermost function that holds the lines a task numbers; empty if none does."""
    numbers = _NUMBERS.search(task)
    if numbers is None:
        return ""
    lines = [int(number) for number in re.findall(r"\d+", numbers["numbers"])]
    holding = [
        each
        for each in outline(source.path, source.text)
        if each.kind in ("function", "method") and each.start_line <= min(lines) and max(lines) <= each.end_line
    ]
    return max(holding, key=lambda each: each.start_line).qualified_name if holding else ""


def asked_lines(target: Target, statements: Statements, task: str, new_name: str) -> tuple[int, int] | None:
    """Return the first and the last line that a task names; None if it names none.

    Args:
        target: The function.
        statements: Its statements.
        task: What the user asked for.
        new_name: What is made of the lines, which is none of them.

    Raises:
        EditRefusedError: The lines that it names are not there, may be several, or are no whole statements.
    """
    reading = _Reading(target, statements, new_name)
    if numbers := _NUMBERS.search(task):
        return reading.whole(*reading.numbered(numbers["numbers"]))
    alone = _ALONE.search(task)
    if alone is not None and (alone["sure"] or reading.names(_unquoted(alone["first"]))):
        return reading.whole(*reading.found(_unquoted(alone["first"])))
    for span in _SPAN.finditer(task):
        first, last = _unquoted(span["first"]), _unquoted(span["last"])
        is_sure = bool(span["sure"]) or span["q1"] is not None
        if first in (target.name, target.symbol, new_name) or (not is_sure and _NO_LINES.match(last)):
            continue
        if not is_sure and not (reading.names(first) and reading.names(last)):
            continue
        if span["between"]:
            reading.refuse(Refusal.AMBIGUOUS, f"between {first} and {last} leaves open whether these two are meant")
        start, end = reading.found(first), reading.found(last)
        return reading.whole(start[0], end[1])
    return None


class _Reading:
    """A function with the words for its lines."""

    def __init__(self, target: Target, statements: Statements, new_name: str) -> None:
        self._target = target
        self._statements = statements
        self._new_name = new_name

    def numbered(self, written: str) -> tuple[int, int]:
        numbers = [int(number) for number in re.findall(r"\d+", written)]
        first, last = numbers[0], numbers[-1]
        listed = bool(_LISTED.search(written))
        if first > last or (listed and numbers != list(range(first, last + 1))):
            self.refuse(Refusal.NOT_POSSIBLE, f"lines {written} do not follow one another")
        if not self._target.start_line <= first <= last <= self._target.end_line:
            self.refuse(
                Refusal.NO_TARGET,
                f"{_lines(first, last)} of {self._target.source.path} are not in {self._target.symbol}, "
                f"which has lines {self._target.start_line}-{self._target.end_line}",
            )
        return first, last

    def whole(self, first: int, last: int) -> tuple[int, int]:
        """Return lines without the empty ones and the comments around them, which have to be whole statements."""
        if first > last:
            self.refuse(Refusal.NOT_POSSIBLE, f"line {first} comes after line {last}")
        start, end = first, last
        while start < end and self._is_blank(start):
            start += 1
        while end > start and self._is_blank(end):
            end -= 1
        found = self._statements.around(start, end)
        if found != (start, end) or not any(each.first == start for each in self._statements.all):
            other = f"; {_lines(*found)} would be" if found != (start, end) else ""
            self.refuse(Refusal.NOT_POSSIBLE, f"{_lines(first, last)} are not whole statements side by side{other}")
        return start, end

    def names(self, words: str) -> bool:
        """Tell if some words name at least one statement."""
        return bool(self._meant(words))

    def found(self, words: str) -> tuple[int, int]:
        """Return the lines of the one statement that some words name."""
        meant = self._meant(words)
        if not meant:
            self.refuse(Refusal.NO_TARGET, f"no line of {self._target.label} is, begins with or sets {words!r}")
        outer = [each for each in meant if not any(_holds(other, each) for other in meant)]
        if len(outer) > 1:
            places = " and ".join(str(each.first) for each in outer)
            self.refuse(Refusal.AMBIGUOUS, f"{words!r} may be each of the lines {places} of {self._target.source.path}")
        return outer[0].first, outer[0].last

    def refuse(self, reason: Refusal, message: str) -> NoReturn:
        body = self._statements.blocks[0]
        example = f"{body[0].first}-{body[-1].last}"
        raise EditRefusedError(
            reason,
            message,
            "name the first and the last line by their numbers in the file, as in: "
            f"extract lines {example} of {self._target.symbol} into {self._new_name}",
        )

    def _meant(self, words: str) -> Sequence[Statement]:
        every = self._statements.all
        plain = " ".join(words.split())
        if plain.isdecimal():
            return [each for each in every if each.first <= int(plain) <= each.last][-1:]
        if exact := self._by_words(plain):
            return exact
        place = None
        bare = _TRAILING.sub("", plain)
        while match := _LEADING.match(bare) or re.match(rf"({'|'.join(_ORDINALS)})\s+", bare, re.I):
            place = _ORDINALS.get(match[0].strip().lower(), place)
            bare = bare[match.end() :]
        bare = _unquoted(bare)
        found = self._by_words(bare)
        if not found and (bare.lower() in _EDGES or (re.fullmatch(_LINES, bare, re.I) and place is not None)):
            body = self._statements.blocks[0]
            has_docstring = isinstance(body[0].node, ast.Expr) and isinstance(body[0].node.value, ast.Constant)
            at = _EDGES.get(bare.lower(), place)
            return body[has_docstring:][at : (at + 1) or None] if at is not None else ()
        return found if place is None or not found else found[place : (place + 1) or None]

    def _by_words(self, words: str) -> Sequence[Statement]:
        every = self._statements.all
        if re.fullmatch(r"[\w.]+", words):
            setting = [each for each in every if words in _bound(each.node)]
            setting = [each for each in setting if not isinstance(each.node, ast.AugAssign)] or setting
            if setting:
                return setting
        if kind := _KIND.fullmatch(words.lower()):
            return [each for each in every if re.match(rf"(?:async\s+)?{kind[1]}\b", self._statements.line(each.first))]
        if words.lower() == "loop":
            return [each for each in every if isinstance(each.node, ast.For | ast.AsyncFor | ast.While)]
        if not words:
            return ()
        pattern = re.compile(re.escape(words) + (r"(?!\w)" if words[-1].isalnum() or words[-1] == "_" else ""))
        return [each for each in every if pattern.match(" ".join(self._statements.line(each.first).split()))]

    def _is_blank(self, line: int) -> bool:
        text = self._statements.line(line)
        return not text or (text.startswith("#") and not any(e.first < line <= e.last for e in self._leaves()))

    def _leaves(self) -> list[Statement]:
        return [each for each in self._statements.all if not hasattr(each.node, "body")]


def _holds(outer: Statement, inner: Statement) -> bool:
    return outer is not inner and outer.first <= inner.first and inner.last <= outer.last


def _bound(node: ast.stmt) -> set[str]:
    """Return the names and attributes that a statement sets itself, not what is inside it."""
    match node:
        case ast.Assign(targets=targets):
            found: list[ast.expr] = targets
        case ast.AnnAssign(target=target) | ast.AugAssign(target=target) | ast.For(target=target):
            found = [target]
        case ast.AsyncFor(target=target):
            found = [target]
        case ast.With(items=items) | ast.AsyncWith(items=items):
            found = [each.optional_vars for each in items if each.optional_vars is not None]
        case _:
            found = []
    names = [ast.unparse(each) for top in found for each in ast.walk(top) if isinstance(each, ast.Name | ast.Attribute)]
    return {*names, *(name.rpartition(".")[2] for name in names)}


def _unquoted(words: str) -> str:
    return words.strip().strip("`'\"").strip() if words[:1] in "`'\"" else words.strip()


def _lines(first: int, last: int) -> str:
    return f"lines {first}-{last}" if first != last else f"line {first}"
