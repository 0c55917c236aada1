"""The figures of a task are those of its generations, added up."""

import pytest

from khepri.agent.generation import figures
from khepri.agent.metrics import summarize
from khepri.engine.buffer import Snapshot
from khepri.engine.request import DraftCount, DrafterName, Generation, StopReason


def generation(
    token_ms: tuple[float, ...], *, cached: int = 0, drafted: int = 0, accepted: int = 0, forced: int = 0
) -> Generation:
    return Generation(
        tokens=tuple(range(len(token_ms))),
        text="",
        stop_reason=StopReason.END,
        prompt_tokens=100,
        cached_tokens=cached,
        prefill_ms=50.0,
        ttft_ms=60.0,
        decode_ms=sum(token_ms),
        token_ms=token_ms,
        drafts={DrafterName.SUFFIX: DraftCount(drafted, accepted), DrafterName.FORCED: DraftCount(forced, forced)},
    )


def test_a_task_without_generations_has_no_speed() -> None:
    usage, timing = summarize([], None, 0.0, 12.0)
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (0, 0, 0)
    assert (timing.decode_tokens_per_s, timing.p50_ms, timing.p99_ms) == (0.0, 0.0, 0.0)
    assert timing.acceptance_rate is None
    assert timing.load_ms == 12.0
    assert timing.ttft_ms == timing.total_ms


def test_tokens_and_times_are_added_up() -> None:
    usage, timing = summarize([generation((10.0,) * 5), generation((30.0,) * 5, cached=90)], 7.5, 5.0, 0.0)
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (200, 90, 10)
    assert timing.decode_tokens_per_s == 40.0
    assert timing.p50_ms == 20.0
    assert timing.ttft_ms == 2500.0


def test_one_token_is_all_percentiles_and_no_speed() -> None:
    _, timing = summarize([generation((10.0,))], None, 0.0, 0.0)
    assert (timing.p50_ms, timing.p99_ms, timing.decode_tokens_per_s) == (10.0, 10.0, 0.0)


def test_what_the_constraint_forces_is_no_speed() -> None:
    _, timing = summarize([generation((0.1,) * 37, forced=36)], None, 0.0, 0.0)
    assert timing.decode_tokens_per_s == 0.0
    _, timing = summarize([generation((0.1,) * 37, forced=36), generation((10.0,) * 10, forced=5)], None, 0.0, 0.0)
    assert timing.decode_tokens_per_s == pytest.approx(4 / 0.1037)


def test_what_the_constraint_forces_is_no_speed_while_it_comes() -> None:
    assert figures(Snapshot(completion_tokens=37, forced_tokens=36, decode_s=0.005))[0] == 0.0
    assert figures(Snapshot(completion_tokens=47, forced_tokens=36, decode_s=0.5))[0] == 20.0


def test_the_slowest_hundredth_shows() -> None:
    _, timing = summarize([generation((*(1.0,) * 98, 100.0, 200.0))], None, 0.0, 0.0)
    assert timing.p50_ms == 1.0
    assert 100.0 <= timing.p99_ms <= 200.0


def test_a_rate_of_acceptance_is_over_all_drafts() -> None:
    _, timing = summarize(
        [generation((1.0,), drafted=6, accepted=3), generation((1.0,), drafted=2, accepted=3)], 0, 0, 0
    )
    assert timing.acceptance_rate == 6 / 8
