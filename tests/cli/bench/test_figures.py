"""Ratios are taken within a repeat, and every figure is what its name says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.cli.bench.corpus import TaskClass
from khepri.cli.bench.figures import PROMISED_RATIOS, Latencies, Spread, agreeing_tokens, class_figures
from khepri.cli.bench.runs import ArmName
from khepri.engine.request import DraftCount, DrafterName
from tests.cli.bench.support import run_of

BASELINE, PLAIN, ACCELERATED = ArmName
SHORT = st.lists(st.integers(0, 2), max_size=8)


def test_a_ratio_is_taken_within_each_repeat_so_that_a_slow_one_does_not_count() -> None:
    slowness = (1.0, 10.0, 1.5)
    runs = [
        run_of(arm, repeat=repeat, decode_ms=slow * ms)
        for repeat, slow in enumerate(slowness)
        for arm, ms in ((BASELINE, 1200.0), (PLAIN, 1000.0), (ACCELERATED, 400.0))
    ]
    (figures,) = class_figures(runs)
    assert figures.to_plain == Spread(2.5, 2.5, 2.5)
    assert figures.to_baseline is not None
    assert figures.to_baseline.median == pytest.approx(3.0)
    assert figures.plain_to_baseline is not None
    assert figures.plain_to_baseline.median == pytest.approx(1.2)
    rate = figures.arms[PLAIN].tokens_per_s
    assert rate is not None
    assert (rate.low, rate.median, rate.high) == pytest.approx((1.0, 10 / 1.5, 10.0))


def test_the_items_of_a_class_count_together() -> None:
    runs = [run_of(PLAIN, item="one", decode_ms=1000.0), run_of(PLAIN, item="two", decode_ms=3000.0)]
    (figures,) = class_figures(runs)
    assert figures.arms[PLAIN].tokens_per_s == Spread(5.0, 5.0, 5.0)
    assert figures.arms[PLAIN].tokens == 22


def test_two_arms_on_one_engine_share_the_prefill_that_was_done_in_full() -> None:
    runs = [
        run_of(PLAIN, prefill_ms=5000.0, first_token_ms=2.0),
        run_of(ACCELERATED, prefill_ms=60.0, first_token_ms=4.0),
        run_of(BASELINE, prefill_ms=5500.0),
        run_of(PLAIN, repeat=1, prefill_ms=61.0, first_token_ms=2.0),
        run_of(ACCELERATED, repeat=1, prefill_ms=62.0, first_token_ms=6.0),
        run_of(BASELINE, repeat=1, prefill_ms=70.0),
    ]
    (figures,) = class_figures(runs)
    assert figures.arms[PLAIN].first_token_ms == 5002.0
    assert figures.arms[ACCELERATED].first_token_ms == 5005.0
    assert figures.arms[BASELINE].first_token_ms == 5500.0


def test_the_first_token_comes_without_a_pass_and_is_not_counted_by_tokens_a_pass() -> None:
    (figures,) = class_figures([run_of(PLAIN, tokens=range(11), passes=10), run_of(ACCELERATED, passes=4)])
    assert figures.arms[PLAIN].tokens_per_pass == 1.0
    assert figures.arms[ACCELERATED].tokens_per_pass == 2.5
    assert figures.arms[ACCELERATED].overhead_ms == 0.5


def test_drafts_are_summed_for_each_drafter() -> None:
    counts = {DrafterName.SUFFIX: DraftCount(10, 7), DrafterName.FORCED: DraftCount(3, 3)}
    (figures,) = class_figures([run_of(ACCELERATED, repeat=repeat, drafts=counts) for repeat in range(2)])
    assert figures.arms[ACCELERATED].drafts == {
        DrafterName.SUFFIX: DraftCount(20, 14),
        DrafterName.FORCED: DraftCount(6, 6),
    }


def test_answers_are_compared_up_to_their_first_difference() -> None:
    runs = [run_of(PLAIN, tokens=(1, 2, 3, 4)), run_of(ACCELERATED, tokens=(1, 2, 9, 4, 5))]
    (figures,) = class_figures(runs)
    assert (figures.agreeing_tokens, figures.compared_tokens) == (2, 4)


def test_an_answer_without_a_pass_has_no_speed() -> None:
    (figures,) = class_figures([run_of(PLAIN, decode_ms=0.0, tokens=(1,)), run_of(ACCELERATED)])
    assert figures.arms[PLAIN].tokens_per_s is None
    assert figures.to_plain is None
    assert figures.keeps_promise


@pytest.mark.parametrize(("class_", "ratio", "keeps"), [("edit", 2.4, False), ("new code", 0.98, True)])
def test_the_promise_depends_on_the_class(class_: str, ratio: float, keeps: bool) -> None:
    which = TaskClass(class_)
    runs = [run_of(PLAIN, class_=which), run_of(ACCELERATED, class_=which, decode_ms=1000.0 / ratio)]
    assert class_figures(runs)[0].keeps_promise is keeps


@given(SHORT, SHORT)
def test_agreement_is_the_length_of_the_common_prefix(one: list[int], other: list[int]) -> None:
    alike = [count for count in range(min(len(one), len(other)) + 1) if one[:count] == other[:count]]
    assert agreeing_tokens(one, other) == max(alike)


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_a_percentile_is_a_latency_that_occurred_with_its_share_at_or_below_it(values: list[float]) -> None:
    latencies = Latencies.of(values)
    assert latencies is not None
    for percent, value in ((50, latencies.p50), (95, latencies.p95), (99, latencies.p99)):
        assert value in values
        assert sum(each <= value for each in values) >= len(values) * percent / 100


def test_what_is_promised_of_each_kind_of_work_stays_what_it_is() -> None:
    assert PROMISED_RATIOS == {
        TaskClass.EDIT: 2.5,
        TaskClass.RENAME: 2.5,
        TaskClass.DOCSTRING: 1.25,
        TaskClass.TOOL_CALL: 2.0,
        TaskClass.EXPLANATION: 0.97,
        TaskClass.NEW_CODE: 0.97,
    }
