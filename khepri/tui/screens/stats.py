"""How the session went: speed, acceptance, time to the first token and cache use, turn by turn."""

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid
from textual.widgets import Footer, Label
from textual_plotext import PlotextPlot

from khepri.agent.events import Finished
from khepri.agent.words import describe_speed
from khepri.repo.text import counted
from khepri.tui.screens.modal import Modal


class Stats(Modal[None]):
    """The figures of a session, with a plot for each."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Close", id="stats.close")]

    def __init__(self, finished: Sequence[Finished]) -> None:
        super().__init__()
        self._finished = finished

    def compose(self) -> ComposeResult:
        """Lay out a line of totals and four plots."""
        yield Label(totals(self._finished), markup=False)
        with Grid():
            for _ in plots(self._finished):
                yield PlotextPlot()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Draw the plots."""
        for widget, (title, lines) in zip(self.query(PlotextPlot), plots(self._finished), strict=True):
            plot = widget.plt
            drawn = [(label, points) for label, values in lines if (points := _points(values))]
            plot.title(title if drawn else f"{title}: none yet")
            for label, points in drawn:
                plot.plot(*zip(*points, strict=True), marker="braille", label=label or None)
            if not drawn:  # the library cannot draw the axes of nothing
                continue
            plot.xlabel("turn")
            numbers = [float(number) for number in range(1, len(self._finished) + 1)]
            plot.xticks(numbers[:: max(1, len(numbers) // 8)])
            plot.ylim(0, 100 if title.endswith("%") else None)


Line = tuple[str, list[float | None]]
"""The name of a line, empty where there is only one, and its values by turn; None where a turn has none."""


def plots(finished: Sequence[Finished]) -> list[tuple[str, list[Line]]]:
    """Return the title of each plot and its lines."""
    drafters = sorted({figures.drafter for each in finished for figures in each.drafts if figures.drafter != "forced"})
    acceptance: list[Line] = [(name, [_accepted(each, name) for each in finished]) for name in drafters]
    return [
        ("tokens/s", [("", [each.timing.decode_tokens_per_s or None for each in finished])]),
        ("accepted drafts, %", acceptance or [("", [_percent(each.timing.acceptance_rate) for each in finished])]),
        ("seconds to the first token", [("", [each.timing.ttft_ms / 1000 or None for each in finished])]),
        ("prompt from the cache, %", [("", [_percent(cached_share(each)) for each in finished])]),
    ]


def totals(finished: Sequence[Finished]) -> str:
    """Return the session in one or two lines; a speed never stands without its acceptance rate."""
    tokens = sum(each.usage.completion_tokens for each in finished)
    seconds = sum(each.timing.total_ms for each in finished) / 1000
    speeds = [each.timing.decode_tokens_per_s for each in finished if each.timing.decode_tokens_per_s]
    rates = [each.timing.acceptance_rate for each in finished if each.timing.acceptance_rate is not None]
    mean = sum(speeds) / len(speeds) if speeds else 0.0
    speed = describe_speed(mean, sum(rates) / len(rates) if rates else None) or "nothing written yet"
    return f"{counted(len(finished), 'turn')} · {counted(tokens, 'token')} in {seconds:,.0f} s · {speed}"


def cached_share(finished: Finished) -> float | None:
    """Return the part of a turn's prompts that was reused; None if it had none."""
    usage = finished.usage
    return usage.cached_tokens / usage.prompt_tokens if usage.prompt_tokens else None


def _points(values: Sequence[float | None]) -> list[tuple[float, float]]:
    """Return the turns that have a value, with it."""
    return [(float(number), value) for number, value in enumerate(values, 1) if value is not None]


def _accepted(finished: Finished, drafter: str) -> float | None:
    figures = next((each for each in finished.drafts if each.drafter == drafter and each.drafted), None)
    return None if figures is None else 100 * figures.accepted / figures.drafted


def _percent(rate: float | None) -> float | None:
    return None if rate is None else 100 * rate
