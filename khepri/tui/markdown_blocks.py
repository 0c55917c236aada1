"""Cuts Markdown that is still being written into pieces that are drawn by themselves.

A piece that is finished never changes again, and no piece is long, so that drawing the last one stays cheap however
long the answer grows. Nothing is drawn here.
"""

import re
from dataclasses import dataclass
from typing import Final

_FENCE: Final = re.compile(r"^(?P<indent>[ \t]*)(?P<marks>`{3,}|~{3,})(?P<info>[^`]*)$")
_TABLE_RULE: Final = re.compile(r"^\s*\|?\s*:?-+:?\s*(\|\s*:?-*:?\s*)+$")
# What one frame draws again: a piece as long as that takes some ten milliseconds at most.
_MOST_TEXT_CHARS: Final = 1500
_MOST_TEXT_LINES: Final = 50
# Each cell of a table takes about as long as so many characters.
_CELL_CHARS: Final = 15
_CODE_LINES: Final = 25
_MOST_CODE_LINES: Final = 40
_MOST_CODE_CHARS: Final = 2000
_MOST_LINE_CHARS: Final = 1500


@dataclass(frozen=True)
class Piece:
    """A part of a Markdown text that is drawn by itself."""

    source: str
    """Markdown, or the code itself without its fence."""
    language: str | None = None
    """For code, the word after the fence (it may be empty); None for everything else."""
    continues: bool = False
    """True if it goes on with the piece before it: no blank line comes between them."""


class MarkdownBlocks:
    """One Markdown text that comes bit by bit. How it is cut does not depend on the bits."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._chars = 0
        self._rest = ""
        self._fence: re.Match[str] | None = None
        self._continues = False

    def push(self, text: str) -> list[Piece]:
        """Take a further bit and return the pieces that it finished."""
        *lines, self._rest = (self._rest + text).split("\n")
        finished: list[Piece] = []
        for line in lines:
            self._take_line(self._cut_long(line, finished), finished)
        self._rest = self._cut_long(self._rest, finished)
        if self._fence is None and self._lines and self._begins_block(self._rest):
            self._finish(finished)
        return finished

    def tail(self) -> Piece | None:
        """Return the piece that is still being written, or None if there is nothing of it yet."""
        # What may become a fence would flash up as text.
        is_fence = _FENCE.match(self._rest) is not None
        lines = self._lines if is_fence or not self._rest else [*self._lines, self._rest]
        return self._piece(lines) if any(lines) else None

    def _cut_long(self, line: str, finished: list[Piece]) -> str:
        """Finish the beginning of a line that is too long to be drawn at once, and return its end."""
        while len(line) > _MOST_LINE_CHARS:
            cut = line.rfind(" ", _MOST_LINE_CHARS // 2, _MOST_LINE_CHARS) + 1 or _MOST_LINE_CHARS
            self._take_line(line[:cut], finished)
            self._finish(finished, continues=True)
            line = line[cut:]
        return line

    def _take_line(self, line: str, finished: list[Piece]) -> None:
        fence = _FENCE.match(line)
        if self._fence is not None:
            if fence is not None and _closes(fence, self._fence):
                self._finish(finished)
                self._fence = None
            else:
                self._lines.append(_without_indent(line, self._fence["indent"]))
                self._chars += len(line) + 1
                # A blank line is the best place: few strings and comments, which are coloured as a whole, go beyond it.
                most_lines = _MOST_CODE_LINES if line.strip() else _CODE_LINES
                if len(self._lines) >= most_lines or self._chars > _MOST_CODE_CHARS:
                    self._finish(finished, continues=True)
            return
        if fence is not None:
            self._finish(finished)
            self._fence = fence
            return
        if self._lines and self._begins_block(line):
            self._finish(finished)
        elif self._is_long_before(line):
            head = self._table_head()
            self._finish(finished, continues=True)
            self._lines += head
        self._lines.append(line)
        self._chars += len(line) + 1 + _CELL_CHARS * line.count("|")

    def _begins_block(self, line: str) -> bool:
        """True if a line after a blank one starts something new; indented lines go on with the list above them."""
        return bool(line.strip()) and not self._lines[-1].strip() and not line.startswith((" ", "\t"))

    def _is_long_before(self, line: str) -> bool:
        """True if there is too much to draw at once; twice as much may be, where a line goes on with a list's item."""
        more = 2 if line.startswith((" ", "\t")) else 1
        return self._chars > more * _MOST_TEXT_CHARS or len(self._lines) >= more * _MOST_TEXT_LINES

    def _table_head(self) -> list[str]:
        """Return the head of the table that is being written, for its next piece to begin with; none without one."""
        for index in range(len(self._lines) - 1, 0, -1):
            if "|" not in self._lines[index]:
                return []
            if _TABLE_RULE.match(self._lines[index]):
                return self._lines[index - 1 : index + 1]
        return []

    def _finish(self, finished: list[Piece], *, continues: bool = False) -> None:
        if any(self._lines):
            finished.append(self._piece(self._lines))
            self._continues = continues
        elif not continues:
            self._continues = False
        self._lines = []
        self._chars = 0

    def _piece(self, lines: list[str]) -> Piece:
        source = "\n".join(lines)
        if self._fence is not None:
            return Piece(source, self._fence["info"].strip().partition(" ")[0], self._continues)
        return Piece(source.rstrip("\n"), None, self._continues)


def cut(text: str) -> list[Piece]:
    """Return all pieces of a complete Markdown text."""
    blocks = MarkdownBlocks()
    finished = blocks.push(text)
    tail = blocks.tail()
    return [*finished, tail] if tail is not None else finished


def code_of(text: str) -> list[str]:
    """Return the code blocks of a complete Markdown text, without their fences."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt().parse(text)
    return [token.content.removesuffix("\n") for token in tokens if token.type in ("fence", "code_block")]


def _closes(fence: re.Match[str], opened: re.Match[str]) -> bool:
    return (
        fence["marks"][0] == opened["marks"][0]
        and len(fence["marks"]) >= len(opened["marks"])
        and not fence["info"].strip()
    )


def _without_indent(line: str, indent: str) -> str:
    return line[len(indent) :] if line.startswith(indent) else line.lstrip()
