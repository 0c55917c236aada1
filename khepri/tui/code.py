"""Draws code in colours, of the languages whose lexers are there.

Making a lexer compiles its patterns, which takes up to some tenths of a second: that is done on a thread, and the code
is plain until then. So is code with very long lines, on which some lexers take quadratic time. What a piece costs is
bounded by how it was cut. Where it is shown is not known here.
"""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.color import Color

from khepri.tui.contrast import legible

Kind = tuple[str, ...]
"""The kind of a token, as lexers and styles name it."""

_TAB: Final = 4
_MOST_COLOURED_LINE_CHARS: Final = 400
_NO_COLOUR: Final = "#000000"
"""What a style gives to what it gives no colour."""


class Lexer(Protocol):
    """Cuts code of a language into tokens, with a line break at its end."""

    def get_tokens(self, text: str) -> Iterable[tuple[Kind, str]]:
        """Yield the tokens of a text."""
        ...


class Lexers:
    """The languages that can be coloured so far. The event loop's thread asks; ``learn`` is for any thread."""

    def __init__(self) -> None:
        self._known: dict[str, Lexer | None] = {}
        self._missing: set[str] = set()
        self._asked_for: set[str] = set()

    def find(self, language: str) -> Lexer | None:
        """Return what reads a language; None if nothing does, or not yet: then ``take_missing`` names it."""
        if language and language not in self._known and language not in self._asked_for:
            self._missing.add(language)
        return self._known.get(language)

    def take_missing(self) -> frozenset[str]:
        """Return the languages that were asked for and are not known, each of them once."""
        missing, self._missing = frozenset(self._missing), set()
        self._asked_for |= missing
        return missing

    def learn(self, language: str) -> None:
        """Make what reads a language, ready for use. Takes up to some tenths of a second."""
        # A highlighter, which no first frame of a new conversation waits for.
        from rich.syntax import Syntax

        lexer = Syntax("", language, tab_size=_TAB).lexer
        if lexer is not None:
            for _ in lexer.get_tokens("x = 1\n"):
                pass  # its patterns are compiled for the first text
        self._known[language] = lexer


class Palette:
    """The colours of code.

    Args:
        name: Name of a Pygments style.
        plain: The style of what has no colour of its own there.
        grounds: What code stands on, where each of its colours has to be read.
    """

    def __init__(self, name: str, plain: Style, grounds: Sequence[Color]) -> None:
        from rich.syntax import Syntax

        self.plain = plain
        self._grounds = grounds
        self._theme = Syntax.get_theme(name)
        self._by_kind: dict[Kind, Style] = {}

    def style_of(self, kind: Kind) -> Style:
        """Return the style of a token of this kind."""
        found = self._by_kind.get(kind)
        if found is None:
            told = self._theme.get_style_for_token(kind)
            is_coloured = told.color is not None and told.color.name != _NO_COLOUR
            colour = legible(told.color.name, self._grounds) if told.color is not None and is_coloured else None
            own = Style(color=colour, bold=told.bold, italic=told.italic, underline=told.underline)
            found = self._by_kind[kind] = self.plain + own
        return found


def draw_code(text: str, lexer: Lexer | None, palette: Palette, console: Console, width: int) -> list[list[Segment]]:
    """Return the lines of a piece of code, those that are too long folded."""
    if lexer is None or any(len(line) > _MOST_COLOURED_LINE_CHARS for line in text.split("\n")):
        lines = [[Segment(line, palette.plain)] for line in text.expandtabs(_TAB).split("\n")]
    else:
        lines = _coloured(lexer.get_tokens(f"{text}\n"), palette)
    return [folded for line in lines for folded in _folded(line, console, width)]


def _coloured(tokens: Iterable[tuple[Kind, str]], palette: Palette) -> list[list[Segment]]:
    lines: list[list[Segment]] = [[]]
    for kind, value in tokens:
        style = palette.style_of(kind)
        for number, part in enumerate(value.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append(Segment(part, style))
    del lines[-1]  # what follows the line break at the end, which every lexer adds
    return lines


def _folded(line: list[Segment], console: Console, width: int) -> list[list[Segment]]:
    if sum(segment.cell_length for segment in line) <= width:
        return [line]
    text = Text.assemble(*((segment.text, segment.style or "") for segment in line))
    return [list(part.render(console)) for part in text.wrap(console, width, overflow="fold")]
