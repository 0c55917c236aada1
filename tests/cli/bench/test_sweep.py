"""A sweep holds what was measured against the arithmetic, and its picture keeps to itself."""

import itertools
import sys
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from rich.text import Text

from khepri.cli.bench.arithmetic import expected_tokens, predicted_speedup
from khepri.cli.bench.corpus import TaskClass
from khepri.cli.bench.runs import ArmName
from khepri.cli.bench.sweep import held_against_arithmetic, pass_times, run
from khepri.cli.bench.sweep_report import Point, Series, Sweep, as_svg, plots, show
from khepri.engine.request import DraftCount, DrafterName
from khepri.errors import UsageError
from tests.cli.bench.support import run_of
from tests.support.scripted_backend import ScriptedBackend

PASS_MS = tuple(60.0 * (1 + 0.3 * rows) for rows in range(17))


def series(drafter: str = "suffix", alpha: float = 0.9) -> Series:
    points = [
        Point(
            gamma=gamma,
            tokens_per_s=16 * (speedup := predicted_speedup(alpha, gamma, PASS_MS, 0.0)),
            speedup=speedup,
            predicted_speedup=speedup,
            tokens_per_pass=expected_tokens(alpha, gamma),
            coverage=1.0 if gamma else 0.0,
            drafted=100 * gamma,
            accepted=80 * gamma,
            break_even_alpha=0.3 if gamma else None,
        )
        for gamma in (0, 1, 4, 16)
    ]
    return Series(drafter, TaskClass.EDIT, alpha, 0.0, tuple(points))


def test_passes_are_timed_behind_the_prompt_and_leave_nothing_there() -> None:
    backend = ScriptedBackend()
    ticks = itertools.count()
    times_ms = pass_times(backend, tuple(range(40)), 5, lambda: float(next(ticks)))
    assert times_ms == [1000.0] * 5
    assert backend.sequence_length(0) == 35
    assert len(backend.evaluated) == 35 + 3 * (1 + 2 + 3 + 4 + 5)


def test_a_narrow_pass_that_was_held_up_costs_no_more_than_a_wider_one() -> None:
    spans_s = itertools.cycle([0.25, 0.08, 0.09, 0.14, 0.12])
    ticks = itertools.chain.from_iterable((0.0, span_s) for span_s in spans_s)
    times_ms = pass_times(ScriptedBackend(), tuple(range(40)), 5, lambda: next(ticks))
    assert times_ms == [80.0, 80.0, 90.0, 120.0, 120.0]


def test_what_was_measured_stands_beside_what_the_arithmetic_says() -> None:
    runs = {
        0: [run_of(ArmName.ACCELERATED, tokens=range(21), passes=20, decode_ms=2000.0)],
        1: [
            run_of(
                ArmName.ACCELERATED,
                tokens=range(19),
                passes=10,
                decode_ms=1000.0,
                drafts={DrafterName.SUFFIX: DraftCount(10, 8)},
            )
        ],
    }
    found = held_against_arithmetic("suffix", DrafterName.SUFFIX, TaskClass.EDIT, runs, PASS_MS, 0.0)
    plain, one = found.points
    assert found.alpha == pytest.approx(0.8, abs=1e-3)
    assert (plain.speedup, plain.acceptance, plain.break_even_alpha) == (1.0, None, None)
    assert one.speedup == pytest.approx(18 / 10)
    assert one.acceptance == 0.8
    assert one.tokens_per_pass == 1.8
    assert one.predicted_speedup == pytest.approx(1.8 / 1.3, abs=1e-3)
    assert one.break_even_alpha == pytest.approx(0.3)


def test_passes_without_a_draft_are_plain_ones_to_the_arithmetic() -> None:
    counts = {DrafterName.SUFFIX: DraftCount(20, 10)}
    runs = {
        0: [run_of(ArmName.ACCELERATED, passes=10)],
        4: [run_of(ArmName.ACCELERATED, tokens=range(21), passes=10, drafts=counts)],
        8: [run_of(ArmName.ACCELERATED, passes=10)],
    }
    _, some, none = held_against_arithmetic("suffix", DrafterName.SUFFIX, TaskClass.EDIT, runs, PASS_MS, 0.0).points
    assert some.coverage == 0.5
    assert some.predicted_speedup == pytest.approx((0.5 * 3 + 0.5) / (0.5 * PASS_MS[4] / PASS_MS[0] + 0.5), abs=1e-3)
    assert (none.coverage, none.predicted_speedup) == (0.0, 1.0)


def test_a_series_says_how_far_it_pays_and_from_which_acceptance_on() -> None:
    said = series().sentence()
    assert said.startswith("suffix, edit: alpha 0.90; pays up to gamma 16, best ")
    assert said.endswith("gamma 1 pays from alpha 0.30 on.")
    assert "pays at no gamma" in series(alpha=0.01).sentence()


def test_a_gain_that_the_arithmetic_does_not_allow_is_not_taken_for_one() -> None:
    plain, one, *wider = series(alpha=0.01).points
    lucky = replace(series(alpha=0.01), points=(plain, replace(one, speedup=1.11), *wider))
    assert (
        "pays at no gamma (at gamma 1 it was faster than the arithmetic allows: passes were timed once, before)"
        in lucky.sentence()
    )


def test_a_series_without_a_draft_claims_nothing() -> None:
    silent = replace(series(), points=tuple(replace(point, drafted=0, accepted=0) for point in series().points))
    assert silent.sentence() == "suffix, edit: nothing was drafted, so that nothing can be said of it."


def test_a_single_draft_model_is_said_to_be_the_only_one() -> None:
    said = Sweep("target", PASS_MS, (series(), series("small")), ("other: no shared vocabulary",)).sentences()
    assert "small is the only draft model here, so that no precisions could be compared." in said
    assert said[-1] == "Left out: other: no shared vocabulary."


def test_the_plots_name_every_series_and_the_picture_fetches_nothing() -> None:
    speed, accepted = plots(Sweep("target", PASS_MS, (series(), series("small")), ()), 96)
    for plot in (speed, accepted):
        assert "suffix, edit" in plot.plain
        assert "small, edit" in plot.plain
    picture = as_svg([speed, accepted], "a <title>")
    assert picture.startswith("<svg")
    assert "url(http" not in picture
    assert "small, edit" in picture.replace("&#160;", " ")


def test_a_picture_is_replaced_only_aloud(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sweep, picture = Sweep("target", PASS_MS, (series(),), ()), tmp_path / "sweep.svg"
    show(sweep, picture, as_json=False)
    assert f"wrote {picture}" in capsys.readouterr().err
    show(sweep, picture, as_json=True)
    assert f"replaced {picture}" in capsys.readouterr().err
    with pytest.raises(UsageError, match="--output"):
        show(sweep, tmp_path, as_json=True)


def test_the_picture_is_there_though_nobody_reads_what_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed(StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(BrokenPipeError):
        show(Sweep("target", PASS_MS, (series(),), ()), tmp_path / "sweep.svg", as_json=True)
    assert (tmp_path / "sweep.svg").read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(("name", "says"), [("", "is a folder"), ("none/sweep.svg", "there is no such folder")])
def test_a_picture_without_a_place_is_refused_before_anything_is_measured(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        run(tmp_path, {}, tmp_path / name, quick=True, as_json=False, repeats=None)


def test_a_plot_is_text_of_one_width() -> None:
    speed, _ = plots(Sweep("target", PASS_MS, (series(),), ()), 96)
    assert isinstance(speed, Text)
    assert max(len(line) for line in speed.plain.splitlines()) <= 96
