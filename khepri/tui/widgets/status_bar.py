"""The state of things: work under way, speed, context and cache; and, in a line of their own or after it, the rest.

It shows figures that others set; a speed never stands without its acceptance rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from rich.cells import cell_len
from textual.app import RenderResult
from textual.content import Content
from textual.geometry import Size
from textual.reactive import reactive
from textual.widget import Widget

from khepri.repo.text import printable

_SEPARATOR: Final = " · "
_WIDE_CELLS: Final = 150
Part = tuple[int, str]
"""A text and its rank: of those that find no room together, the lowest ranks stay."""


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
    """The status in one line, or two where it is too narrow for one; what matters least is left out first."""

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
    context = f"{status.context_tokens:,}/{status.context_limit:,} tokens" if status.context_limit else ""
    queued = f"{status.queued} queued" if status.queued else ""
    return [part for part in ((0, status.activity), (1, queued), (2, status.speed), (3, context)) if part[1]]


def place_of(status: Status) -> list[Part]:
    """Return what it is done with, and where."""
    ranked = ((6, status.cache), (4, status.model), (5, status.network), (7, status.branch))
    return [part for part in ranked if part[1]]


def laid_out(work: Sequence[Part], place: Sequence[Part], width: int, most_lines: int) -> list[str]:
    """Return lines of ``width`` cells: the place in one of its own if there is one, and without what finds no room."""
    apart = [*_flowed(work, width), *_flowed(place, width)]
    if len(apart) <= most_lines:
        return apart
    kept = [*work, *place]
    while len(kept) > 1 and len(_flowed(kept, width)) > most_lines:
        kept.remove(max(kept))
    return _flowed(kept, width)


def _flowed(parts: Sequence[Part], width: int) -> list[str]:
    lines: list[str] = []
    for _, text in parts:
        longer = f"{lines[-1]}{_SEPARATOR}{text}" if lines else text
        if lines and cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(text)
    return lines
