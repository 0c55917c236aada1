"""Which lines were replaced by which: the one comparison that hunks, patches and byte-exact text share."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TypeVar

Line = TypeVar("Line", str, bytes)


@dataclass(frozen=True)
class Region:
    """Lines ``old_start`` to ``old_end`` of the old sequence became ``new_start`` to ``new_end`` of the new one.

    Places count from 0, and the end is exclusive, so that either side may be empty.
    """

    old_start: int
    old_end: int
    new_start: int
    new_end: int


def changed_regions(old: Sequence[Line], new: Sequence[Line]) -> Iterator[Region]:
    """Yield the places where two sequences of lines differ, in order; what lies between them is equal."""
    head = 0
    shortest = min(len(old), len(new))
    while head < shortest and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < shortest - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    before, after = old[head : len(old) - tail], new[head : len(new) - tail]
    for start, end, new_start, new_end in _in_place(before, after) or _matched(before, after):
        yield Region(start + head, end + head, new_start + head, new_end + head)


def _in_place(old: Sequence[Line], new: Sequence[Line]) -> list[tuple[int, int, int, int]]:
    """Return the differing runs of two sequences that differ line by line, as after a rename; else nothing."""
    if len(old) != len(new):
        return []
    differing = [place for place, (one, other) in enumerate(zip(old, new, strict=True)) if one != other]
    if 2 * len(differing) > len(old):
        return []
    runs: list[tuple[int, int, int, int]] = []
    for place in differing:
        if runs and runs[-1][1] == place:
            runs[-1] = (runs[-1][0], place + 1, runs[-1][0], place + 1)
        else:
            runs.append((place, place + 1, place, place + 1))
    return runs


def _matched(old: Sequence[Line], new: Sequence[Line]) -> list[tuple[int, int, int, int]]:
    # Quadratic at worst, which is why equal ends and changes in place are taken off first.
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return [(place[1], place[2], place[3], place[4]) for place in matcher.get_opcodes() if place[0] != "equal"]
