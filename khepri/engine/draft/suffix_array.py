"""Sorts the suffixes of a long array of integers, in short steps and bounded memory.

References:
    Manber and Myers, "Suffix arrays: a new method for on-line string searches", 1990 (prefix doubling).
    Larsson and Sadakane, "Faster suffix sorting", 2007 (only what is not yet told apart is sorted again).
"""

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

_STEP: Final = 1 << 18
"""Suffixes that are sorted at once; a step takes some tens of milliseconds."""


def sort_suffixes(text: NDArray[np.uint32], depth: int, is_stopped: Callable[[], bool]) -> NDArray[np.uint32] | None:
    """Return the positions of ``text``, ordered by the suffixes that begin there, or None if it was stopped.

    It costs about 0.7 s and 20 MB for each million and runs without the interpreter's lock most of the time.

    Args:
        text: uint32 ``[n]``, n below 2 ** 31 and values below 2 ** 31.
        depth: Suffixes that agree in this many values may stand in any order; it is rounded up to a power of two.
        is_stopped: Asked between the steps.

    Returns:
        uint32 ``[n]``.
    """
    order = np.empty(text.size, dtype=np.uint32)
    # True where a suffix differs from the one before it: the first of a group of suffixes not yet told apart.
    is_first = np.empty(text.size, dtype=np.bool_)
    rank = np.empty(text.size, dtype=np.uint32)
    start = 0
    for positions in _by_value(text):
        if is_stopped():
            return None
        keys = _pairs(text, positions, 1)
        order_within = np.argsort(keys, kind="stable")
        _place(order, is_first, rank, np.arange(start, start + positions.size), positions, keys, order_within)
        start += positions.size
    told_apart = 2
    while told_apart < depth:
        for group_start, group_end in _steps(is_first):
            if is_stopped():
                return None
            places = group_start + _ambiguous(is_first[group_start:group_end])
            positions = order[places].astype(np.int64)
            # Ranks that this round has made finer already are as good: they only tell more apart.
            keys = _pairs(rank, positions, told_apart)
            _place(order, is_first, rank, places, positions, keys, np.argsort(keys, kind="stable"))
        told_apart *= 2
    return order


def _by_value(text: NDArray[np.uint32]) -> Iterator[NDArray[np.int64]]:
    """Yield the positions of all values, the small ones first, about a step's worth at once."""
    if not text.size:
        return
    counts = np.cumsum(np.bincount(text))
    low, done = 0, 0
    while done < text.size:
        high = int(np.searchsorted(counts, done + _STEP)) + 1
        yield np.flatnonzero((text >= low) & (text < high))
        low, done = high, int(counts[min(high, counts.size) - 1])


def _steps(is_first: NDArray[np.bool_]) -> Iterator[tuple[int, int]]:
    """Yield bounds of about a step's worth of whole groups each."""
    start = 0
    while start < is_first.size:
        end = start + _STEP
        if end < is_first.size:
            rest = np.flatnonzero(is_first[end : end + _STEP])
            while not rest.size and end < is_first.size:
                end += _STEP
                rest = np.flatnonzero(is_first[end : end + _STEP])
            end += int(rest[0]) if rest.size else 0
        end = min(end, is_first.size)
        yield start, end
        start = end


def _ambiguous(is_first: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the places in whole groups whose group has more than one member."""
    is_alone = is_first.copy()
    is_alone[:-1] &= is_first[1:]
    return np.flatnonzero(~is_alone)


def _pairs(values: NDArray[np.uint32], positions: NDArray[np.int64], distance: int) -> NDArray[np.int64]:
    """Return keys that order by the value at each position, then by the one ``distance`` on (none comes first)."""
    second = np.zeros(positions.size, dtype=np.int64)
    inside = positions + distance < values.size
    second[inside] = values[positions[inside] + distance].astype(np.int64) + 1
    return (values[positions].astype(np.int64) << 32) | second


def _place(
    order: NDArray[np.uint32],
    is_first: NDArray[np.bool_],
    rank: NDArray[np.uint32],
    places: NDArray[np.int64],
    positions: NDArray[np.int64],
    keys: NDArray[np.int64],
    order_within: NDArray[np.int64],
) -> None:
    """Write sorted positions to their ascending places; a group's rank is the place of its first member."""
    if not places.size:
        return
    keys, positions = keys[order_within], positions[order_within]
    begins = np.ones(places.size, dtype=np.bool_)
    np.not_equal(keys[1:], keys[:-1], out=begins[1:])
    order[places] = positions
    is_first[places] = begins
    rank[positions] = np.maximum.accumulate(np.where(begins, places, 0))
