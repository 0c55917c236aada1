"""Draws pieces of a conversation as lines of styled text.

Everything that a model, a file or a tool wrote passes through here on its way to the screen, and loses what could steer
the terminal. What an entry is made of is not known here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Final

from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme
from textual.color import Color
from textual.strip import Strip

from khepri.repo.text import printable
from khepri.tui.code import Lexers, Palette, draw_code
from khepri.tui.markdown_blocks import Piece

_LEAST_WIDTH = 8
CODE_BAR: Final = "▎ "
"""Stands before each line of code."""
_SAMPLES = (
    Piece("# Head\n\nSome *words* of **text** with `code` and [a link](x).\n\n> Quoted.\n\n1. one\n   - two\n\n---\n"),
    Piece("| a | b |\n|---|---|\n| 1 | 2 |\n"),
    Piece("x = 1", ""),
    *(Piece("x = 1", language) for language in ("python", "sh", "json", "diff")),
)


class Tone(StrEnum):
    """What a line is, as far as its colour goes."""

    TEXT = "text"
    """An answer."""
    USER = "user"
    """What the user wrote."""
    STEP = "step"
    """What the agent did."""
    DETAIL = "detail"
    """What a step showed."""
    NOTE = "note"
    """A remark of Khepri's."""
    WARNING = "warning"
    """Something that did not go as asked."""
    ERROR = "error"
    """Something that failed."""
    ADDED = "added"
    """A line that a change adds."""
    REMOVED = "removed"
    """A line that a change takes away."""


@dataclass(frozen=True)
class Look:
    """How things look in the theme in force."""

    styles: tuple[tuple[Tone, Style], ...]
    """One style for each tone."""
    accent: Style
    """Style of what leads the eye: marks and headings."""
    faint: Style
    """Style of gutters and of what matters least."""
    code_theme: str
    """Name of the Pygments style for code."""
    grounds: tuple[Color, ...]
    """What text stands on; all of its colours can be read there."""
    lexers: Lexers
    """The languages that can be coloured."""

    @cached_property
    def by_tone(self) -> dict[Tone, Style]:
        """The styles by tone."""
        return dict(self.styles)

    @cached_property
    def palette(self) -> Palette:
        """The colours of code."""
        return Palette(self.code_theme, self.by_tone[Tone.TEXT], self.grounds)

    @cached_property
    def console(self) -> Console:
        """A console that only lays out: nothing is ever printed on it."""
        accent, faint = self.accent, self.faint
        bold = Style(bold=True)
        theme = Theme(
            {
                "markdown.h1": accent + bold,
                "markdown.h2": accent + bold,
                "markdown.h3": accent + bold,
                "markdown.h4": accent,
                "markdown.h5": accent,
                "markdown.h6": accent,
                "markdown.code": accent,
                "markdown.code_block": Style(),
                "markdown.item.bullet": accent,
                "markdown.item.number": accent,
                "markdown.hr": faint,
                "markdown.block_quote": faint,
                "markdown.link": accent,
                "markdown.link_url": faint,
                "markdown.table.border": faint,
                "markdown.table.header": bold,
            }
        )
        return Console(width=80, theme=theme, color_system="truecolor", force_terminal=True, legacy_windows=False)


def warm_up(look: Look) -> None:
    """Draw one of everything, so that what libraries load with the first of a kind holds no frame up later.

    Any thread, with a look of its own. Takes some tenths of a second.
    """
    for piece in _SAMPLES:
        if piece.language:
            look.lexers.learn(piece.language)
        draw_markdown(piece, look, 80)
    draw_plain("text", look, 80, Tone.TEXT)


def draw_markdown(piece: Piece, look: Look, width: int) -> list[Strip]:
    """Return the lines of a piece of Markdown; code has a bar at its left, and colours once its language is learned."""
    text = printable(piece.source)
    if piece.language is not None:
        room = max(_LEAST_WIDTH, width - cell_len(CODE_BAR))
        lines = draw_code(text, look.lexers.find(piece.language), look.palette, look.console, room)
        bar = Segment(CODE_BAR, look.faint)
        return [Strip([bar, *line]) for line in lines]
    from khepri.tui.prose import Prose

    return _lines(Prose(text, hyperlinks=False), look, width, Tone.TEXT, "", "")


def draw_plain(text: str, look: Look, width: int, tone: Tone, first: str = "", rest: str = "") -> list[Strip]:
    """Return the lines of a text that is shown as it is, with one mark before the first and another before the rest."""
    shown = Text(printable(text), style=look.by_tone[tone], tab_size=4)
    return _lines(shown, look, width, tone, first, rest)


def draw_line(text: str, look: Look, width: int, tone: Tone, first: str = "") -> list[Strip]:
    """Return one line of a text that is cut where the screen ends."""
    shown = Text(printable(text), style=look.by_tone[tone], no_wrap=True, overflow="ellipsis", end="")
    return _lines(shown, look, width, tone, first, "")


def _lines(renderable: RenderableType, look: Look, width: int, tone: Tone, first: str, rest: str) -> list[Strip]:
    console = look.console
    gutter = Segment(first).cell_length
    options = console.options.update(width=max(_LEAST_WIDTH, width - gutter), height=None, highlight=False)
    rendered = _without_blank_ends(console.render_lines(renderable, options, pad=False))
    mark = look.faint if tone in (Tone.TEXT, Tone.DETAIL) else look.by_tone[tone]
    strips = []
    for number, segments in enumerate(rendered):
        lead = first if number == 0 else rest
        strips.append(Strip([Segment(lead, mark), *segments] if lead else segments))
    return strips


def _without_blank_ends(lines: Sequence[list[Segment]]) -> Sequence[list[Segment]]:
    start, end = 0, len(lines)
    while start < end and _is_blank(lines[start]):
        start += 1
    while end > start and _is_blank(lines[end - 1]):
        end -= 1
    return lines[start:end]


def _is_blank(line: Sequence[Segment]) -> bool:
    return not any(segment.text.strip() for segment in line)
