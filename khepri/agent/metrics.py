"""Figures of a task from the figures of its generations."""

from collections import Counter
from collections.abc import Sequence
from statistics import median, quantiles
from time import perf_counter

from khepri.agent.events import DrafterFigures, Timing, Usage
from khepri.engine.request import Generation


def summarize(
    generations: Sequence[Generation], answer_started_s: float | None, started_s: float, load_ms: float
) -> tuple[Usage, Timing]:
    """Return the tokens and times of a task.

    Args:
        generations: All of the task, in order.
        answer_started_s: When the first token of the answer came, on ``time.perf_counter``'s scale; None if none did.
        started_s: When the task began, on the same scale.
        load_ms: What the load of the model took.
    """
    latencies_ms = [ms for generation in generations for ms in generation.token_ms]
    decode_s = sum(generation.decode_ms for generation in generations) / 1000
    decoded = sum(generation.decided_tokens for generation in generations)
    drafted = sum(generation.drafted_tokens for generation in generations)
    accepted = sum(generation.accepted_tokens for generation in generations)
    now_s = perf_counter()
    usage = Usage(
        prompt_tokens=sum(generation.prompt_tokens for generation in generations),
        cached_tokens=sum(generation.cached_tokens for generation in generations),
        completion_tokens=len(latencies_ms),
    )
    timing = Timing(
        ttft_ms=((answer_started_s or now_s) - started_s) * 1000,
        decode_tokens_per_s=decoded / decode_s if decode_s else 0.0,
        p50_ms=median(latencies_ms) if latencies_ms else 0.0,
        p99_ms=_percentile_99(latencies_ms),
        acceptance_rate=accepted / drafted if drafted else None,
        total_ms=(now_s - started_s) * 1000,
        load_ms=load_ms,
    )
    return usage, timing


def draft_figures(generations: Sequence[Generation]) -> tuple[DrafterFigures, ...]:
    """Return what came of each drafter in a task, by name."""
    drafted: Counter[str] = Counter()
    accepted: Counter[str] = Counter()
    for generation in generations:
        for name, count in generation.drafts.items():
            drafted[name] += count.drafted
            accepted[name] += count.accepted
    return tuple(DrafterFigures(name, drafted[name], accepted[name]) for name in sorted(drafted))


def _percentile_99(values: Sequence[float]) -> float:
    if len(values) < 2:
        return values[0] if values else 0.0
    return quantiles(values, n=100, method="inclusive")[98]
