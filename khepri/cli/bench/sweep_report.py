"""Shows a sweep: a table, a plot in the terminal, the same plot as a picture, and what it amounts to in sentences."""

import io
import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import plotext
from rich.console import Console
from rich.text import Text

from khepri.cli.bench.corpus import TaskClass
from khepri.cli.bench.report import open_console, print_table
from khepri.errors import UsageError

_PICTURE_COLUMNS: Final = 96
_LEAST_COLUMNS: Final = 60
"""A narrower terminal gets no plot: its legend would cover the marks."""
_PLOT_LINES: Final = 24
_COLOURS: Final = ("green", "orange", "blue", "magenta", "cyan", "red")
_MARKERS: Final = ("●", "■", "▲", "◆", "○", "□")
_FOREIGN_FONTS: Final = re.compile(r"@font-face \{.*?\}", re.DOTALL)


@dataclass(frozen=True)
class Point:
    """What came of one gamma."""

    gamma: int
    """Drafted tokens of a pass, at most."""
    tokens_per_s: float
    """Decoding speed, the median of the repeats."""
    speedup: float
    """The same in terms of gamma 0."""
    predicted_speedup: float
    """What the arithmetic says of it."""
    tokens_per_pass: float
    """Tokens that a pass committed, E in the papers."""
    coverage: float
    """Drafted tokens in terms of gamma for every pass: less than 1 where there was nothing to draft."""
    drafted: int
    """Tokens that were checked."""
    accepted: int
    """Those of them that held."""
    break_even_alpha: float | None
    """The chance of a token from which on this gamma pays; None if it never does, and for gamma 0."""

    @property
    def acceptance(self) -> float | None:
        """The share of the checked tokens that held; None without any."""
        return self.accepted / self.drafted if self.drafted else None


@dataclass(frozen=True)
class Series:
    """One drafter on one class of work."""

    drafter: str
    """``suffix``, or the name of the smaller model."""
    class_: TaskClass
    """What kind of work it was."""
    alpha: float
    """The chance of a drafted token that explains best how many tokens the passes with a draft committed."""
    draft_ms: float
    """What drafting a token takes; 0 if it takes no pass."""
    points: tuple[Point, ...]
    """What came of each gamma, gamma 0 first."""

    @property
    def name(self) -> str:
        """What the series is called."""
        return f"{self.drafter}, {self.class_}"

    def sentence(self) -> str:
        """Return where it breaks even; a gain that the arithmetic does not allow is called noise."""
        if not any(point.drafted for point in self.points):
            return f"{self.name}: nothing was drafted, so that nothing can be said of it."
        best = max(self.points, key=lambda point: point.speedup)
        faster = [point for point in self.points if point.drafted and point.speedup > 1.0]
        paying = [point.gamma for point in faster if point.predicted_speedup > 1.0]
        measured = f"pays up to gamma {max(paying)}" if paying else "pays at no gamma"
        doubtful = [str(point.gamma) for point in faster if point.predicted_speedup <= 1.0]
        if doubtful:
            gammas = ", ".join(doubtful)
            measured += f" (at gamma {gammas} it was faster than the arithmetic allows: passes were timed once, before)"
        needed = next((point.break_even_alpha for point in self.points if point.gamma), None)
        needs = "no acceptance could make gamma 1 pay" if needed is None else f"gamma 1 pays from alpha {needed:.2f} on"
        at_best = f", accepted {best.acceptance:.0%}" if best.acceptance is not None else ""
        at_best = f"best {best.speedup:.2f} x at gamma {best.gamma}{at_best}"
        return f"{self.name}: alpha {self.alpha:.2f}; {measured}, {at_best}; {needs}."


@dataclass(frozen=True)
class Sweep:
    """All of a sweep."""

    model: str
    """The target."""
    pass_ms: tuple[float, ...]
    """What passes of 1, 2, ... rows take."""
    series: tuple[Series, ...]
    """What was measured."""
    left_out: tuple[str, ...]
    """Smaller models that cannot draft for this target, with the reason."""

    def sentences(self) -> list[str]:
        """Return what the sweep amounts to."""
        drafting = list(dict.fromkeys(each.drafter for each in self.series if each.drafter != "suffix"))
        said = [series.sentence() for series in self.series]
        if len(drafting) == 1:
            said.append(f"{drafting[0]} is the only draft model here, so that no precisions could be compared.")
        return [*said, *(f"Left out: {reason}." for reason in self.left_out)]


def show(sweep: Sweep, picture: Path, *, as_json: bool) -> None:
    """Write the picture and print the sweep on standard output; says on standard error if a file was replaced.

    The picture comes first: a reader that closes standard output early loses nothing of it.

    Raises:
        UsageError: The picture cannot be written.
    """
    _write(picture, as_svg(plots(sweep, _PICTURE_COLUMNS), f"khepri bench --sweep: {sweep.model}"))
    if as_json:
        print(json.dumps(_as_json(sweep, picture), indent=2, ensure_ascii=False))
    else:
        console = open_console()
        console.print(_pass_line(sweep), soft_wrap=True)
        for series in sweep.series:
            print_table(console, *_table(series))
        for plot in plots(sweep, min(_PICTURE_COLUMNS, console.width)) if console.width >= _LEAST_COLUMNS else ():
            console.print(plot)
        for sentence in sweep.sentences():
            console.print(sentence, soft_wrap=True)


def _write(picture: Path, svg: str) -> None:
    existed = picture.exists()
    try:
        picture.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--output {picture}: {error.strerror}", "name another file") from error
    print(f"khepri: {'replaced' if existed else 'wrote'} {picture}", file=sys.stderr)


def _as_json(sweep: Sweep, picture: Path) -> dict[str, object]:
    series = [
        {**asdict(each), "points": [{**asdict(point), "acceptance": point.acceptance} for point in each.points]}
        for each in sweep.series
    ]
    return {**asdict(sweep), "series": series, "sentences": sweep.sentences(), "picture": str(picture)}


def _pass_line(sweep: Sweep) -> str:
    one = sweep.pass_ms[0]
    costs = ", ".join(f"{rows} {sweep.pass_ms[rows - 1] / one:.2f}" for rows in (2, 3, 4, 5, 7, 9, 13, 17))
    return f"{sweep.model}: a pass of one row takes {one:.0f} ms; in terms of it, rows and cost: {costs}"


def _table(series: Series) -> tuple[str, Sequence[str], list[Sequence[str]]]:
    title = f"{series.name}: alpha {series.alpha:.2f}, d {series.draft_ms:.1f} ms a drafted token"
    headings = (
        "gamma", "tokens/s", "speed-up", "predicted", "tokens/pass", "drafted", "accepted", "break-even alpha"
    )  # fmt: skip
    rows: list[Sequence[str]] = [
        (
            str(point.gamma),
            f"{point.tokens_per_s:.1f}",
            f"{point.speedup:.2f}",
            f"{point.predicted_speedup:.2f}",
            f"{point.tokens_per_pass:.2f}",
            f"{point.coverage:.0%}" if point.gamma else "-",
            "-" if point.acceptance is None else f"{point.acceptance:.0%} of {point.drafted}",
            "-" if point.gamma == 0 else "never" if point.break_even_alpha is None else f"{point.break_even_alpha:.2f}",
        )
        for point in series.points
    ]
    return title, headings, rows


def plots(sweep: Sweep, columns: int) -> tuple[Text, Text]:
    """Return speed-up and acceptance against gamma, drawn in characters of a terminal of so many columns."""
    looks = list(zip(_COLOURS * len(sweep.series), _MARKERS * len(sweep.series), sweep.series, strict=False))
    _begin("speed-up against gamma: marks are measured, lines predicted", columns)
    plotext.hline(1.0)
    for colour, marker, series in looks:
        x = [point.gamma for point in series.points]
        plotext.plot(x, [point.predicted_speedup for point in series.points], color=colour)
        plotext.scatter(x, [point.speedup for point in series.points], color=colour, marker=marker, label=series.name)
    speed = _end(sweep)
    _begin("acceptance against gamma: per cent of the checked tokens", columns)
    for colour, marker, series in looks:
        known = [(point.gamma, 100 * point.acceptance) for point in series.points if point.acceptance is not None]
        if known:
            x, y = [gamma for gamma, _ in known], [share for _, share in known]
            plotext.plot(x, y, color=colour)
            plotext.scatter(x, y, color=colour, marker=marker, label=series.name)
    plotext.ylim(0, 100)
    return speed, _end(sweep)


def _begin(title: str, columns: int) -> None:
    plotext.clear_figure()
    plotext.canvas_color("default")
    plotext.axes_color("default")
    plotext.ticks_color("default")
    plotext.limit_size(False, False)
    plotext.plotsize(columns, _PLOT_LINES)
    plotext.title(title)
    plotext.xlabel("gamma")


def _end(sweep: Sweep) -> Text:
    gammas = sorted({point.gamma for series in sweep.series for point in series.points})
    plotext.xlim(0, gammas[-1])
    plotext.xticks(gammas)
    return Text.from_ansi(plotext.build())


def as_svg(drawn: Sequence[Text], title: str) -> str:
    """Return the plots as an SVG picture that fetches nothing when it is looked at."""
    console = Console(
        record=True, width=_PICTURE_COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor"
    )
    for plot in drawn:
        console.print(plot)
    return _FOREIGN_FONTS.sub("", console.export_svg(title=title))
