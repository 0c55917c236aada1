"""What a pass of the target costs, by how many tokens it evaluates at once and how deep in the context they stand.

A cost is a *shape* (milliseconds by rows and depth, measured on this machine, in haste first and thoroughly when there
is time) times a *pace* (how fast the machine
is just now). The pace follows every pass, because a busy machine slows all widths alike; the shape changes only where
two widths are compared one right after the other. Otherwise a minute of other people's work would teach that one row is
dear and several are cheap. Who decodes, and what the costs decide, is not known here.
"""

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from khepri.engine import json_cache

MOST_ROWS = 33
"""Widest pass that is told apart: one token that has to be evaluated anyway and 32 drafted ones."""

# Timed from the first group on while the budget lasts; the first is timed whatever it takes.
_WIDTHS = ((1, 2, 4, 8), (16,), (5,), (3, 6, 12), (24, 32))
_ROUNDS = 2
_BUDGET_MS = 1500.0
# A thorough timing: one pass of each width a round, so that what disturbs one round is outvoted by the others.
_FINE_WIDTHS = (1, 2, 3, 4, 5, 6, 8, 12, 16, 24, 32)
_FINE_ROUNDS = 5
_FINE_BUDGET_MS = 12_000.0
_FIRST_BUCKET_TOKENS = 1024
# A gain is the share of a surprise that is believed, a step the largest surprise (in logarithms, so that twice and half
# weigh the same): now and then a pass takes ten times as long for no reason of its own.
_PACE_GAIN = 0.3
_PACE_STEP = math.log(2.0)
_SHAPE_GAIN = 0.1
_SHAPE_STEP = 0.2
_GUESS_STEP = math.log(2.0)
# A machine that has become faster than this since a depth was timed was busy then, which makes wide passes dearer
# beside narrow ones than they are: it is timed once more.
_WAS_BUSY = math.log(0.85)
# What the calibration of a width counts for, in passes.
_MEASURED_SAMPLES = 8
_MOST_IDENTITIES = 32


@dataclass
class _Knot:
    """What a width costs at one depth, at a pace of 1."""

    ms: float
    samples: int


@dataclass
class _Bucket:
    """The widths that were timed near one depth."""

    depth: int
    knots: dict[int, _Knot] = field(default_factory=dict)
    is_fine: bool = False
    curve: tuple[float, ...] = ()

    def refresh(self) -> None:
        """Draw the curve, one value for each of 1 to ``MOST_ROWS`` rows, through the knots anew."""
        rows = sorted(self.knots)
        self.curve = _divisible(_interpolated(rows, _never_falling([self.knots[r] for r in rows])))


class PassCosts:
    """The cost table of one model under one set of settings. Belongs to the thread that decodes.

    With nothing measured, n rows are taken to cost n passes of one row, which makes no draft worth its check.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, _Bucket] = {}
        self._log_pace = 0.0
        self._last_rows = 0

    def needs_measuring(self, depth: int) -> bool:
        """Tell if nothing was measured yet near ``depth``, the number of tokens in the cache."""
        return _bucket_of(depth) not in self._buckets

    def needs_refining(self, depth: int) -> bool:
        """Tell if ``refine`` would make the table better near ``depth``, timed in haste or on a busy machine."""
        bucket = self._buckets.get(_bucket_of(depth))
        return bucket is None or not bucket.is_fine or self._log_pace < _WAS_BUSY

    def measure(self, decode_dummy: Callable[[int], float], depth: int, most_rows: int = MOST_ROWS) -> None:
        """Time a few widths at ``depth`` in haste, as an answer waits for it, and keep the shortest time of each.

        Takes about one second of passes, on a slow machine or with a large model as much as 16 passes of one row.
        What is raised by ``decode_dummy`` passes through and leaves the table as it was.

        Args:
            decode_dummy: Evaluates that many rows at the current depth, forgets them, and returns how many
                milliseconds it took.
            depth: Tokens in the cache.
            most_rows: Widest pass that there is room for.
        """
        bucket, spent_ms, pace = _Bucket(depth), 0.0, math.exp(self._log_pace)
        for group in _WIDTHS:
            widths = [rows for rows in group if rows <= most_rows]
            expected_ms = _ROUNDS * pace * sum(bucket.curve[rows - 1] for rows in widths if bucket.curve)
            if spent_ms + expected_ms > _BUDGET_MS:
                break
            for rows in widths * _ROUNDS:
                ms = decode_dummy(rows)
                spent_ms += ms
                at_pace = max(ms, 1e-6) / pace
                known = bucket.knots.get(rows)
                bucket.knots[rows] = _Knot(at_pace if known is None else min(at_pace, known.ms), _MEASURED_SAMPLES)
            if bucket.knots:
                bucket.refresh()
        if bucket.knots:
            self._buckets[_bucket_of(depth)] = bucket

    def refine(self, decode_dummy: Callable[[int], float], depth: int, most_rows: int = MOST_ROWS) -> None:
        """Time the widths at ``depth`` thoroughly, while nobody waits, and keep the median time of each.

        Takes some 150 passes of one row, and at most about 12 s: the widest ones are left out where they would take
        longer. What is raised by ``decode_dummy`` passes through and leaves the table as it was. The arguments are
        those of ``measure``.
        """
        times: dict[int, list[float]] = {}
        first_round_ms = 0.0
        for rows in [rows for rows in _FINE_WIDTHS if rows <= most_rows]:
            times[rows] = [decode_dummy(rows)]
            first_round_ms += times[rows][0]
            if _FINE_ROUNDS * first_round_ms > _FINE_BUDGET_MS:
                break
        for _ in range(_FINE_ROUNDS - 1):
            for rows, known in times.items():
                known.append(decode_dummy(rows))
        knots = {rows: _Knot(max(median(known), 1e-6), _MEASURED_SAMPLES) for rows, known in times.items()}
        if knots:
            bucket = self._buckets[_bucket_of(depth)] = _Bucket(depth, knots, is_fine=True)
            bucket.refresh()
            self._log_pace = 0.0

    def observe(self, rows: int, depth: int, ms: float) -> None:
        """Learn from a real pass; one that something else delayed moves the table by a few per cent at most."""
        if not self._buckets or not 1 <= rows <= MOST_ROWS or not ms > 0.0:
            return
        error = math.log(ms / self.cost_ms(rows, depth))
        bucket = self._buckets.get(_bucket_of(depth))
        if bucket is None:
            self._log_pace += _PACE_GAIN * _clipped(error, _PACE_STEP)
            return
        knot = bucket.knots.get(rows) or _Knot(bucket.curve[rows - 1], 0)
        # Against its own cost, not the one that it shares: two widths in the wrong order would push each other away.
        error += math.log(bucket.curve[rows - 1] / knot.ms)
        self._log_pace += _PACE_GAIN * _clipped(error, _PACE_STEP)
        was_compared, self._last_rows = self._last_rows not in (0, rows), rows
        if was_compared:
            gain = max(_SHAPE_GAIN, 1.0 / (knot.samples + 2))
            knot.ms *= math.exp(gain * _clipped(error, _SHAPE_STEP if knot.samples else _GUESS_STEP))
            knot.samples += 1
            bucket.knots[rows] = knot
            bucket.refresh()

    def cost_ms(self, rows: int, depth: int) -> float:
        """Return what a pass of ``rows`` tokens (at least 1) at ``depth`` costs; never less than one of fewer rows.

        The library's kernels work in tiles, so the true cost climbs in steps, and a width that does not fill its tile
        can even cost more than the next one that does. The two are then given the same cost between them: whoever
        takes the wider one for the same price is right.
        """
        if not self._buckets:
            return float(rows)
        measured = sorted(self._buckets.values(), key=lambda bucket: bucket.depth)
        above = bisect_left(measured, depth, key=lambda bucket: bucket.depth)
        low, high = measured[max(above - 1, 0)], measured[min(above, len(measured) - 1)]
        low_ms, high_ms = _at(low.curve, rows), _at(high.curve, rows)
        share = (depth - low.depth) / (high.depth - low.depth) if high.depth > low.depth else 0.0
        return math.exp(self._log_pace) * (low_ms + share * (high_ms - low_ms))

    def save(self, path: Path, identity: str) -> None:
        """Write the table under ``identity``, beside those of others; a file that cannot be written is left out.

        Atomic, and readable by the user alone.
        """
        if not self._buckets:
            return
        others = {key: value for key, value in json_cache.read(path).items() if key != identity}
        kept = dict(list(others.items())[1 - _MOST_IDENTITIES :])
        buckets = [
            {
                "depth": bucket.depth,
                "is_fine": bucket.is_fine,
                "ms": {str(r): [knot.ms, knot.samples] for r, knot in bucket.knots.items()},
            }
            for bucket in self._buckets.values()
        ]
        json_cache.write(path, {**kept, identity: buckets})

    @classmethod
    def load(cls, path: Path, identity: str) -> "PassCosts":
        """Return the table that was saved under ``identity``: machine, model, library and settings in one string.

        A missing, damaged or foreign file gives an empty table.
        """
        costs = cls()
        known: dict[str, Any] = json_cache.read(path)
        try:
            for entry in known.get(identity, []):
                knots = {int(r): _Knot(*_pair(v)) for r, v in entry["ms"].items()}
                bucket = _Bucket(int(entry["depth"]), knots, entry.get("is_fine") is True)
                if bucket.depth < 0 or not bucket.knots or not all(1 <= rows <= MOST_ROWS for rows in bucket.knots):
                    return cls()
                bucket.refresh()
                costs._buckets[_bucket_of(bucket.depth)] = bucket
        except (ValueError, LookupError, TypeError, AttributeError, OverflowError):
            return cls()
        return costs


def _bucket_of(depth: int) -> int:
    """Return the bucket of a depth: each spans twice the tokens of the one before."""
    return (depth // _FIRST_BUCKET_TOKENS).bit_length()


def _clipped(value: float, limit: float) -> float:
    return min(max(value, -limit), limit)


def _at(curve: Sequence[float], rows: int) -> float:
    return curve[rows - 1] if rows <= len(curve) else curve[-1] * rows / len(curve)


def _never_falling(knots: Sequence[_Knot]) -> list[float]:
    """Return the closest costs that never fall: neighbours in the wrong order get their mean (pool adjacent)."""
    pools: list[tuple[float, int, int]] = []
    for knot in knots:
        weight, size = min(knot.samples + 1, _MEASURED_SAMPLES), 1
        total = knot.ms * weight
        while pools and pools[-1][0] / pools[-1][1] > total / weight:
            earlier_total, earlier_weight, earlier_size = pools.pop()
            total, weight, size = total + earlier_total, weight + earlier_weight, size + earlier_size
        pools.append((total, weight, size))
    return [total / weight for total, weight, size in pools for _ in range(size)]


def _interpolated(rows: Sequence[int], values: Sequence[float]) -> tuple[float, ...]:
    """Return the values at 1 to ``MOST_ROWS``, straight between two known ones.

    Beyond the last known width the cost climbs as steeply as at the end or as on the whole, whichever is more: a cost
    that nobody measured must not tempt.
    """
    if len(rows) == 1:
        return tuple(values[0] * max(1.0, n / rows[0]) for n in range(1, MOST_ROWS + 1))
    climb = max(
        (values[-1] - values[-2]) / (rows[-1] - rows[-2]),
        (values[-1] - values[0]) / (rows[-1] - rows[0]),
    )
    curve = np.interp(np.arange(1, MOST_ROWS + 1), rows, values)
    curve[rows[-1] :] += climb * np.arange(1, MOST_ROWS + 1 - rows[-1])
    return tuple(curve.tolist())


def _divisible(curve: Sequence[float]) -> tuple[float, ...]:
    """Return the curve with no width dearer than two narrower passes that together evaluate as much.

    A width that something delayed while it was measured would otherwise never be chosen, and so never be known better.
    """
    costs: list[float] = []
    for rows, ms in enumerate(curve, start=1):
        split = [costs[part - 1] + costs[rows - part - 1] for part in range(1, rows // 2 + 1)]
        costs.append(min([ms, *split]))
    return tuple(costs)


def _pair(value: Sequence[Any]) -> tuple[float, int]:
    ms, samples = float(value[0]), int(value[1])
    if not (0.0 < ms < math.inf and samples >= 0):
        raise ValueError(f"not a cost: {value}")
    return ms, samples
