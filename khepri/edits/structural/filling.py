"""Puts a replacement in the place of every match of a pattern, so that each piece means there what it meant before.

What a hole took may bind less than what it comes to stand beside, and so may the whole replacement: with ``$A / 2`` for
``half($A)``, ``half(x + 1)`` is not ``x + 1 / 2``. Whether a piece is still one is seen in the tree of the new text, in
any language; where it is not it gets brackets, and where they do not help the place is left as it was.
"""

import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ast_grep_py import SgNode, SgRoot

from khepri.edits.python.quoted_types import QuotedUnion, quoted_unions
from khepri.edits.structural.accounting import HOLE, beyond, named, taken_in
from khepri.edits.structural.near_shapes import near_lines
from khepri.edits.structural.openings import is_misread, is_taken_for_generic, opening_of
from khepri.edits.structural.shadowed_names import shadowed_names
from khepri.edits.structural.shapes import find_shape, read

_PROSE: Final = ("string", "comment", "content", "text")
"""Words in the names of the nodes that hold no code."""
_OWN_NAME: Final = re.compile(r"(?<![\w.])[A-Za-z_]\w*")
"""A word of a pattern that is no attribute."""
_TYPES: Final = ("subscript", "generic_type")
_MOST_BEHIND: Final = 200
_COMMA: Final = re.compile(r"\s*,\s*")
_COMMA_BEFORE: Final = re.compile(r"\s*,\s*\Z")
_CLOSING: Final = re.compile(r"\s*[)\]}]")
_WIDE: Final = frozenset({"conditional_expression", "lambda"})
_WEAK: Final = _WIDE | {"not_operator", "boolean_operator", "comparison_operator"}
_BELOW: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("unary_operator", "binary_operator", "comparison_operator", "list_splat", "await"), _WEAK),
    **dict.fromkeys(("not_operator", "boolean_operator", "conditional_expression"), _WIDE),
}
"""What Python takes below an operator in brackets only, as in ``-(not x)``; its grammar here is not so strict."""


@dataclass(frozen=True)
class Filled:
    """A text with its matches replaced."""

    text: str
    count: int
    """How many matches were replaced, those inside others included."""
    left: tuple[int, ...]
    """The lines, from 1, of those that would have meant something else."""
    beyond: tuple[tuple[int, str], ...]
    """Lines of those that hold more than the pattern accounts for, and what; the new text would have lost it."""
    hidden: tuple[tuple[int, str], ...] = ()
    """Lines of those in whose place a name of the replacement means something else, and the name."""
    near: tuple[int, ...] = ()
    """The lines where the same is called or named as in the pattern, and does not match."""


@dataclass(frozen=True)
class _Piece:
    """Where something stands in the new text."""

    match: int
    start: int
    end: int
    is_many: bool
    """True if it may be several nodes that follow one another."""
    is_hole: bool
    """False for a whole replacement."""
    is_bracketed: bool
    """True if brackets were put around it."""


def fill(text: str, language: str, pattern: str, replacement: str) -> Filled:
    """Replace every match of a pattern, inside others too.

    Args:
        text: What to search.
        language: A grammar of ast-grep's.
        pattern: Code with holes.
        replacement: Code with some of the same holes.
    """
    pattern = named(pattern)
    matches = []
    more: list[tuple[int, str]] = []
    seen: list[tuple[int, int]] = []
    for match in find_shape(text, language, pattern):
        seen += _own_parts(match, pattern)
        rest = beyond(text, match, pattern)
        if rest:
            more.append((match.range().start.line + 1, rest))
        else:
            matches.append(match)
    near = near_lines(text, language, pattern, seen)
    left: list[int] = []
    hidden: list[tuple[int, str]] = []
    words, known = (frozenset(_OWN_NAME.findall(HOLE.sub(" ", each))) for each in (replacement, pattern))
    while matches:
        filled, stubborn = _bracketed(text, language, matches, replacement)
        unions = _unions(filled, matches) if language == "python" and "|" in replacement and not stubborn else {}
        stubborn |= {number for union, numbers in unions.items() if not union.quoted for number in numbers}
        is_asked = language == "python" and not stubborn
        shadowed = shadowed_names(filled.text, filled.match_at, words - known) if is_asked else {}
        if not stubborn and not shadowed:
            whole = filled.text
            for union in sorted(unions, key=lambda each: -each.start):
                whole = whole[: union.start] + union.quoted + whole[union.end :]
            return Filled(whole, len(filled.done), tuple(left), tuple(more), tuple(hidden), near)
        left += [matches[number].range().start.line + 1 for number in sorted(stubborn)]
        hidden += [(matches[number].range().start.line + 1, name) for number, name in sorted(shadowed.items())]
        matches = [match for number, match in enumerate(matches) if number not in stubborn | shadowed.keys()]
    return Filled(text, 0, tuple(left), tuple(more), tuple(hidden), near)


def _own_parts(match: SgNode, pattern: str) -> list[tuple[int, int]]:
    """Return where the words of a pattern stand in a match, without what its holes took."""
    start, end = _span(match)
    parts = []
    for first, last in sorted(taken_in(match, pattern)):
        parts.append((start, first))
        start = max(start, last)
    return [*parts, (start, end)]


def _unions(filled: "_Writer", matches: list[SgNode]) -> dict[QuotedUnion, set[int]]:
    """Return where a replacement puts a text beside a ``|``, with the matches that have to do with it."""
    found = {}
    for union in quoted_unions(filled.text):
        numbers = {
            piece.match
            for piece in filled.pieces
            if not piece.is_hole and piece.start < union.end and union.start < piece.end
        }
        if numbers and (union.quoted or any(matches[number].kind() in _TYPES for number in numbers)):
            found[union] = numbers
    return found


def _bracketed(text: str, language: str, matches: list[SgNode], replacement: str) -> tuple["_Writer", set[int]]:
    """Return the new text with brackets where they are needed, and the matches that they do not help."""
    bracketed: set[int] = set()
    openings = [opening_of(match, language) for match in matches]
    while True:
        written = _Writer(text, matches, replacement, bracketed)
        tree = _Tree(written.text, language)
        torn = {
            number
            for number, piece in enumerate(written.pieces)
            if not tree.holds(piece)
            or (not piece.is_hole and is_misread(openings[piece.match], language, written.whole(piece)))
            or is_taken_for_generic(language, written.whole(piece), written.behind(piece))
        }
        if torn <= bracketed:
            return written, {written.pieces[number].match for number in torn}
        # The inner pieces first: with them in brackets the outer ones may be whole.
        inner = {number for number in torn - bracketed if not _holds_another(written.pieces, number, torn - bracketed)}
        bracketed |= inner


def _holds_another(pieces: list[_Piece], number: int, others: set[int]) -> bool:
    """Return True if one of some pieces stands inside a piece: it was begun later, and is no longer."""
    return any(other > number and pieces[other].end <= pieces[number].end for other in others)


class _Writer:
    """The new text, and where its pieces stand. They come in the same order whatever is in brackets."""

    def __init__(self, text: str, matches: list[SgNode], replacement: str, bracketed: set[int]) -> None:
        self._old = text
        self._matches = matches
        self._starts = [match.range().start.index for match in matches]
        self._replacement = replacement
        self._bracketed = bracketed
        self._parts: list[str] = []
        self._length = 0
        self.pieces: list[_Piece] = []
        self.done: set[int] = set()
        """The matches that stand in the new text: not those in what a replacement leaves out."""
        self._copy(0, len(text), 0)
        self.text = "".join(self._parts)

    def whole(self, piece: _Piece) -> str:
        """Return a piece with the brackets around it."""
        return self.text[piece.start - piece.is_bracketed : piece.end + piece.is_bracketed]

    def behind(self, piece: _Piece) -> str:
        """Return the first characters behind a piece."""
        end = piece.end + piece.is_bracketed
        return self.text[end : end + _MOST_BEHIND]

    def match_at(self, place: int) -> int | None:
        """Return the match whose replacement itself, and no hole of it, wrote what stands at a place of the text."""
        # The innermost piece comes last.
        inner = next((each for each in reversed(self.pieces) if each.start <= place < each.end), None)
        return inner.match if inner is not None and not inner.is_hole else None

    def _copy(self, start: int, end: int, first: int) -> None:
        """Write a part of the old text with the matches in it replaced, from the match ``first`` on."""
        number = bisect_left(self._starts, start, first)
        while number < len(self._matches) and self._starts[number] < end:
            match = self._matches[number].range()
            if self._starts[number] >= start and match.end.index <= end:
                self._add(self._old[start : match.start.index])
                self._replace(number)
                start = match.end.index
            number += 1
        self._add(self._old[start:end])

    def _replace(self, number: int) -> None:
        self.done.add(number)
        piece = self._open()
        place = 0
        for hole in HOLE.finditer(self._replacement):
            before, place = self._replacement[place : hole.start()], hole.end()
            nodes = self._taken(number, hole)
            if hole[1] and not nodes:
                # Where nothing stands there is nothing to part from what is beside it.
                if comma := _COMMA.match(self._replacement, place):
                    place = comma.end()
                elif _CLOSING.match(self._replacement, place):
                    before = _COMMA_BEFORE.sub("", before)
            self._add(before)
            self._put(number, nodes, is_many=bool(hole[1]))
        self._add(self._replacement[place:])
        self._close(piece, number, is_many=True, is_hole=False)

    def _taken(self, number: int, hole: re.Match[str]) -> list[SgNode]:
        """Return what a hole took in a match."""
        match = self._matches[number]
        one = match.get_match(hole[2]) if hole[2] else None
        return match.get_multiple_matches(hole[1]) if hole[1] else [one] if one is not None else []

    def _put(self, number: int, nodes: list[SgNode], *, is_many: bool) -> None:
        if nodes:
            piece = self._open()
            self._copy(nodes[0].range().start.index, nodes[-1].range().end.index, number + 1)
            self._close(piece, number, is_many=is_many, is_hole=True)

    def _open(self) -> int:
        number = len(self.pieces)
        self._add("(" if number in self._bracketed else "")
        self.pieces.append(_Piece(0, self._length, self._length, False, False, False))
        return number

    def _close(self, number: int, match: int, *, is_many: bool, is_hole: bool) -> None:
        is_bracketed = number in self._bracketed
        self.pieces[number] = _Piece(match, self.pieces[number].start, self._length, is_many, is_hole, is_bracketed)
        self._add(")" if is_bracketed else "")

    def _add(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)


class _Tree:
    """The nodes of a text."""

    def __init__(self, text: str, language: str) -> None:
        self._text = text
        self._language = language
        self._root = read(text, language)
        self._spans: set[tuple[int, int]] = set()
        self._faults: list[tuple[int, int]] = []
        queue = [self._root]
        weak: set[tuple[int, int]] = set()
        while queue:
            node = queue.pop()
            kind, children = node.kind(), node.children()
            self._spans.add(_span(node))
            faults = [_span(child) for child in children if child.kind() == "ERROR"]
            if faults:
                # What stands beside a fault may be a part of what the fault should have been.
                self._faults += faults
                weak |= {_span(child) for child in children}
            # Behind its ``else`` a conditional takes everything.
            operands = children[:-1] if kind == "conditional_expression" else children
            weak |= {_span(child) for child in operands if child.kind() in _BELOW.get(kind, ())}
            queue.extend(children)
        self._spans -= weak

    def holds(self, piece: _Piece) -> bool:
        """Return True if a piece is a node, or may be several and is; what stands in a string or comment is no code."""
        if piece.start == piece.end or (piece.start, piece.end) in self._spans:
            return True
        if piece.is_bracketed:
            # A tuple, for one, has its brackets in itself.
            is_fault_in = any(piece.start <= start and end <= piece.end for start, end in self._faults)
            return not is_fault_in and (piece.start - 1, piece.end + 1) in self._spans
        node = self._root
        while inner := next((each for each in node.children() if _surrounds(each, piece)), None):
            node = inner
        children = node.children()
        if not children:
            return any(word in node.kind() for word in _PROSE)
        starts, ends = zip(*(_span(child) for child in children), strict=True)
        is_run = piece.is_many and piece.start in starts and piece.end in ends
        return is_run and (piece.is_hole or not self._is_one(self._text[piece.start : piece.end]))

    def _is_one(self, text: str) -> bool:
        """Return True if a text is a single expression or statement by itself, and so must be one where it stands."""
        root = SgRoot(text, self._language).root()
        return len(root.children()) == 1 and root.find(kind="ERROR") is None


def _span(node: SgNode) -> tuple[int, int]:
    place = node.range()
    return place.start.index, place.end.index


def _surrounds(node: SgNode, piece: _Piece) -> bool:
    start, end = _span(node)
    return start <= piece.start and piece.end <= end
