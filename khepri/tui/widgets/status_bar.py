"""The state of things: work under way, speed, context and cache; and, in a line of their own or after it, the rest.

It shows figures that others set; a speed never stands without its acceptance rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from rich.cells import cell_len, set_cell_size
from textual.app import RenderResult
from textual.content import Content
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from khepri.repo.text import printable

_SEPARATOR: Final = " · "
_WIDE_CELLS: Final = 150
_MOST_NAME_CELLS: Final = 20
"""So much of a name is shown where there is little room."""


@dataclass(frozen=True)
class Part:
    """One thing that is shown."""

    rank: int
    """Of those that find no room together, the lowest ranks stay."""
    text: str
    short: str
    """What stands for the text where there is little room."""


@dataclass(frozen=True)
class Status:
    """What the status bar can show."""

    model: str = ""
    """Name of the model; empty while none is chosen."""
    activity: str = ""
    """What is being done; empty when nothing is."""
    context_tokens: int = 0
    """Tokens of the conversation in the context."""
    context_limit: int = 0
    """Tokens that the context holds; 0 if that is not known yet."""
    speed: str = ""
    """Tokens a second with the acceptance rate and gamma."""
    cache: str = ""
    """How much of the turn's prompt was reused."""
    network: str = ""
    """How the network is locked."""
    branch: str = ""
    """The branch of the repository; empty where there is none."""
    queued: int = 0
    """Messages that wait for their turn."""


class StatusBar(Widget):
    """The status in one line, or two where it is too narrow for one.

    Where that is not enough, texts are shortened; then what matters least is left out first.
    """

    status: reactive[Status] = reactive(Status())

    def change(self, **changes: object) -> None:
        """Set some of what is shown."""
        self.status = replace(self.status, **changes)  # type: ignore[arg-type]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the lines that it takes, which does not change with what there is to say."""
        return 1 if width >= _WIDE_CELLS else 2

    def render(self) -> RenderResult:
        """Return the lines."""
        work, place = work_of(self.status), place_of(self.status)
        return Content("\n".join(map(printable, laid_out(work, place, self.size.width, self.size.height))))


def work_of(status: Status) -> list[Part]:
    """Return what is done and what it costs."""
    context = f"{status.context_tokens:,}/{status.context_limit:,}" if status.context_limit else ""
    queued = f"{status.queued} queued" if status.queued else ""
    parts = (
        Part(0, status.activity, status.activity),
        Part(1, queued, queued),
        Part(2, status.speed, status.speed.replace("acceptance", "acc.")),
        Part(3, f"{context} tokens" if context else "", context),
    )
    return [part for part in parts if part.text]


def place_of(status: Status) -> list[Part]:
    """Return what it is done with, and where. The model matters less while the figures of its work are to be seen."""
    parts = (
        Part(6, status.cache, status.cache),
        Part(8 if status.activity else 5, status.model, _clipped(status.model)),
        Part(4, status.network, status.network.replace("network", "net")),
        Part(7, status.branch, _clipped(status.branch)),
    )
    return [part for part in parts if part.text]


def laid_out(work: Sequence[Part], place: Sequence[Part], width: int, most_lines: int) -> list[str]:
    """Return lines of ``width`` cells: the place in one of its own if there is one.

    Where it has none, what matters most comes first. What finds no room is shortened, and what finds none then is left
    out.
    """
    apart = [*_in_few_lines(work, width), *_in_few_lines(place, width)]
    if len(apart) <= most_lines:
        return apart
    kept = sorted([*work, *place], key=lambda part: part.rank)
    while kept:
        lines = _in_few_lines(kept, width, most_lines)
        if len(lines) <= most_lines or len(kept) == 1:
            return lines
        kept.pop()
    return []


def _in_few_lines(parts: Sequence[Part], width: int, few: int = 1) -> list[str]:
    whole = _flowed([part.text for part in parts], width)
    return whole if len(whole) <= few else _flowed([part.short for part in parts], width)


def _clipped(name: str) -> str:
    return name if cell_len(name) <= _MOST_NAME_CELLS else f"{set_cell_size(name, _MOST_NAME_CELLS - 1)}…"


def _flowed(texts: Sequence[str], width: int) -> list[str]:
    lines: list[str] = []
    for text in texts:
        longer = f"{lines[-1]}{_SEPARATOR}{text}" if lines else text
        if lines and cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(text)
    return lines
