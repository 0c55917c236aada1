"""One line about the state of things: model, context, work under way, speed, cache, network, branch.

It shows figures that others set; a speed never stands without its acceptance rate.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rich.cells import cell_len
from textual.app import RenderResult
from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

_SEPARATOR = " · "


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
    """The status in one line. Where it is narrow, what matters least is left out first."""

    status: reactive[Status] = reactive(Status())

    def change(self, **changes: object) -> None:
        """Set some of what is shown."""
        self.status = replace(self.status, **changes)  # type: ignore[arg-type]

    def render(self) -> RenderResult:
        """Return the line."""
        return Content(fitted(parts_of(self.status), self.size.width))


def parts_of(status: Status) -> list[tuple[int, str]]:
    """Return what there is to show from left to right, each with its rank: the lowest ranks stay longest."""
    context = f"{status.context_tokens:,}/{status.context_limit:,} tokens" if status.context_limit else ""
    queued = f"{status.queued} queued" if status.queued else ""
    ranked = [
        (0, status.activity),
        (1, queued),
        (2, status.speed),
        (3, context),
        (6, status.cache),
        (4, status.model),
        (5, status.network),
        (7, status.branch),
    ]
    return [(rank, text) for rank, text in ranked if text]


def fitted(parts: Sequence[tuple[int, str]], width: int) -> str:
    """Return as many of the parts as fit into ``width`` cells, in their order."""
    kept = list(parts)
    while len(kept) > 1 and cell_len(_SEPARATOR.join(text for _, text in kept)) > width:
        kept.remove(max(kept))
    return _SEPARATOR.join(text for _, text in kept)
