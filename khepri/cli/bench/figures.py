"""From runs to figures: speeds, ratios, acceptance and latencies of a class of work.

Pure arithmetic: nothing runs and nothing is printed here.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType
from typing import Final

from khepri.cli.bench.corpus import TaskClass
from khepri.cli.bench.runs import ArmName, Run
from khepri.engine.request import DraftCount, DrafterName

PROMISED_RATIOS: Final[Mapping[TaskClass, float]] = MappingProxyType(
    {
        TaskClass.EDIT: 2.5,
        # Half of the answer is new: if the copied half cost nothing, it would be twice as fast.
        TaskClass.DOCSTRING: 1.25,
        TaskClass.RENAME: 2.5,
        TaskClass.TOOL_CALL: 2.0,
        TaskClass.EXPLANATION: 0.97,
        TaskClass.NEW_CODE: 0.97,
    }
)
"""What is promised of accelerated to plain, as the median of the repeats."""


@dataclass(frozen=True)
class Spread:
    """A figure that was taken once in each repeat."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Collection[float]) -> "Spread | None":
        """Return the spread of ``values``; None if there are none."""
        return cls(median(values), min(values), max(values)) if values else None


@dataclass(frozen=True)
class Latencies:
    """Percentiles of the latency of a token in milliseconds."""

    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Latencies | None":
        """Return the percentiles of ``values``, each of them one that occurred; None if there are none."""
        if not values:
            return None
        ordered = sorted(values)
        p50, p95, p99 = (ordered[min(len(ordered) - 1, len(ordered) * percent // 100)] for percent in (50, 95, 99))
        return cls(p50, p95, p99)


@dataclass(frozen=True)
class ArmFigures:
    """One arm in one class."""

    tokens: int
    """Tokens of all its answers."""
    tokens_per_s: Spread | None
    """Decoding speed; None if no answer took a pass."""
    token_ms: Latencies | None
    """Latency of a token."""
    first_token_ms: float
    """Time to the first token with nothing of the item's own text in the cache, the mean of the items: the prefill of
    the run that had to do it, and the arm's own median from there to its first token."""
    tokens_per_pass: float | None
    """Tokens for each pass of the target; the first token comes from the prefill and is not counted."""
    overhead_ms: float | None
    """Median of what a step takes besides the pass."""
    drafts: Mapping[DrafterName, DraftCount]
    """What each drafter proposed, and what was kept of it."""


@dataclass(frozen=True)
class ClassFigures:
    """One class of work."""

    class_: TaskClass
    """Which."""
    arms: Mapping[ArmName, ArmFigures]
    """What each arm did."""
    to_baseline: Spread | None
    """Accelerated to baseline, taken within each repeat."""
    to_plain: Spread | None
    """Accelerated to plain, taken within each repeat."""
    plain_to_baseline: Spread | None
    """Plain to baseline, taken within each repeat."""
    agreeing_tokens: int
    """Tokens before the first difference between accelerated and plain answers."""
    compared_tokens: int
    """Tokens of the plain answers that were compared."""

    @property
    def keeps_promise(self) -> bool:
        """True if accelerated is as fast as is promised for this class, to two decimals as shown, or was not run."""
        return self.to_plain is None or round(self.to_plain.median, 2) >= PROMISED_RATIOS[self.class_]


def class_figures(runs: Sequence[Run]) -> list[ClassFigures]:
    """Return the figures of every class in ``runs``, in the order of the corpus."""
    return [_of_class(each, [run for run in runs if run.class_ is each]) for each in _classes(runs)]


def _classes(runs: Iterable[Run]) -> list[TaskClass]:
    present = {run.class_ for run in runs}
    return [each for each in TaskClass if each in present]


def _of_class(class_: TaskClass, runs: Sequence[Run]) -> ClassFigures:
    by_arm = {name: [run for run in runs if run.arm is name] for name in ArmName}
    rates = {name: _rates(of_arm) for name, of_arm in by_arm.items()}
    agreeing, compared = _agreement(by_arm[ArmName.PLAIN], by_arm[ArmName.ACCELERATED])
    return ClassFigures(
        class_,
        {name: _of_arm(of_arm, runs) for name, of_arm in by_arm.items() if of_arm},
        to_baseline=_ratio(rates[ArmName.ACCELERATED], rates[ArmName.BASELINE]),
        to_plain=_ratio(rates[ArmName.ACCELERATED], rates[ArmName.PLAIN]),
        plain_to_baseline=_ratio(rates[ArmName.PLAIN], rates[ArmName.BASELINE]),
        agreeing_tokens=agreeing,
        compared_tokens=compared,
    )


def _of_arm(runs: Sequence[Run], all_runs: Sequence[Run]) -> ArmFigures:
    passes = sum(len(run.passes_ms) for run in runs)
    decoded = sum(max(0, len(run.tokens) - 1) for run in runs)
    overheads_ms = [ms for run in runs for ms in run.overheads_ms]
    return ArmFigures(
        tokens=sum(len(run.tokens) for run in runs),
        tokens_per_s=Spread.of(_rates(runs).values()),
        token_ms=Latencies.of([ms for run in runs for ms in run.token_ms]),
        first_token_ms=_first_token_ms(runs, all_runs),
        tokens_per_pass=decoded / passes if passes else None,
        overhead_ms=median(overheads_ms) if overheads_ms else None,
        drafts=_counts(runs),
    )


def _rates(runs: Sequence[Run]) -> dict[int, float]:
    """Return tokens per second of each repeat, over the items of the class; without repeats that took no pass.

    The first token of an answer comes from the prefill and is counted by no arm.
    """
    rates = {}
    for repeat in sorted({run.repeat for run in runs}):
        of_repeat = [run for run in runs if run.repeat == repeat]
        decode_ms = sum(run.decode_ms for run in of_repeat)
        decoded = sum(max(0, len(run.tokens) - 1) for run in of_repeat)
        if decoded and decode_ms > 0.0:
            rates[repeat] = 1000 * decoded / decode_ms
    return rates


def _ratio(above: Mapping[int, float], below: Mapping[int, float]) -> Spread | None:
    return Spread.of([above[repeat] / below[repeat] for repeat in above.keys() & below.keys()])


def _first_token_ms(runs: Sequence[Run], all_runs: Sequence[Run]) -> float:
    """Return the mean over the items of the prefill that was done in full and the median of what followed.

    The two arms on one engine share a prefill: whoever came first did it, and the other would have done the same.
    """
    is_baseline = runs[0].arm is ArmName.BASELINE
    times_ms = []
    for item in dict.fromkeys(run.item for run in runs):
        sharing = [run for run in all_runs if run.item == item and (run.arm is ArmName.BASELINE) == is_baseline]
        own = [run.first_token_ms for run in runs if run.item == item]
        times_ms.append(max(run.prefill_ms for run in sharing) + median(own))
    return sum(times_ms) / len(times_ms)


def _counts(runs: Iterable[Run]) -> dict[DrafterName, DraftCount]:
    counts: dict[DrafterName, DraftCount] = {}
    for run in runs:
        for name, count in run.drafts.items():
            before = counts.get(name, DraftCount())
            counts[name] = DraftCount(before.drafted + count.drafted, before.accepted + count.accepted)
    return counts


def _agreement(plain: Sequence[Run], accelerated: Sequence[Run]) -> tuple[int, int]:
    """Return in how many tokens the answers to the same question begin alike, and how many there were."""
    others = {(run.item, run.repeat): run.tokens for run in accelerated}
    agreeing = compared = 0
    for run in plain:
        other = others.get((run.item, run.repeat))
        if other is not None:
            compared += len(run.tokens)
            agreeing += agreeing_tokens(run.tokens, other)
    return agreeing, compared


def agreeing_tokens(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many tokens two answers have in common at their beginning."""
    pairs = zip(one, other, strict=False)
    return next((index for index, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
