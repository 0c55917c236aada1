"""A few lines above the composer with what could be meant: commands, files, symbols.

It shows what it is given and knows which line is chosen; where the lines come from is not known here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

from rich.cells import cell_len
from textual import events
from textual.app import RenderResult
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from khepri.repo.text import printable

_MOST_LINES: Final = 8


@dataclass(frozen=True)
class Candidate:
    """One thing that could be meant."""

    insert: str
    """What is put into the composer for it."""
    label: str
    """How it is shown."""
    note: str = ""
    """A few words beside it."""


class Completion(Widget):
    """What could be meant. Hidden while it is empty."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"completion--chosen", "completion--note"}

    candidates: reactive[tuple[Candidate, ...]] = reactive((), layout=True)
    chosen: reactive[int] = reactive(0)
    _first = 0
    """Which of them is in the first line."""

    class Picked(Message):
        """A line was clicked on."""

        def __init__(self, candidate: Candidate) -> None:
            super().__init__()
            self.candidate = candidate

    @property
    def is_open(self) -> bool:
        """True while there is something to choose from."""
        return bool(self.candidates)

    @property
    def choice(self) -> Candidate | None:
        """What is chosen."""
        return self.candidates[self.chosen] if self.candidates else None

    def show(self, candidates: Sequence[Candidate]) -> None:
        """Show these; the first one is chosen."""
        self.chosen = self._first = 0
        self.candidates = tuple(candidates)
        self.display = bool(candidates)

    def move(self, step: int) -> None:
        """Choose the line below or above, around the ends; lines that do not fit come into view."""
        if self.candidates:
            chosen = (self.chosen + step) % len(self.candidates)
            self._first = min(max(self._first, chosen - _MOST_LINES + 1), chosen)
            self.chosen = chosen

    @property
    def _in_view(self) -> Sequence[Candidate]:
        return self.candidates[self._first : self._first + _MOST_LINES]

    def get_content_height(self, *_: object) -> int:
        """Return one line for each that is in view."""
        return len(self._in_view)

    def on_click(self, event: events.Click) -> None:
        """Pick what was clicked on."""
        offset = event.get_content_offset(self)
        if offset is not None and offset.y < len(self._in_view):
            self.post_message(self.Picked(self._in_view[offset.y]))

    def render(self) -> RenderResult:
        """Return the lines."""
        labels = [_ending(candidate.label, self.size.width) for candidate in self._in_view]
        width = max(map(cell_len, labels), default=0)
        lines = []
        for number, (candidate, label) in enumerate(zip(self._in_view, labels, strict=True), start=self._first):
            line = Content(label + " " * (width - cell_len(label) + 2))
            note = Content.styled(candidate.note, self.get_visual_style("completion--note"))
            line = line + note
            if number == self.chosen:
                line = line.stylize(self.get_visual_style("completion--chosen"))
            lines.append(line)
        return Content("\n").join(lines)


def _ending(label: str, width: int) -> str:
    """Return a label as it fits into a line: of a long path the end, which names the file."""
    shown = " ".join(printable(label).split("\n"))
    if cell_len(shown) <= width:
        return shown
    while shown and cell_len(shown) >= width:
        shown = shown[1:]
    return f"…{shown}"
