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
    # Equal ends are most of a file, and the comparison in between is quadratic at worst.
    matcher = SequenceMatcher(None, old[head : len(old) - tail], new[head : len(new) - tail], autojunk=False)
    for tag, old_start, old_end, new_start, new_end in matcher.get_opcodes():
        if tag != "equal":
            yield Region(old_start + head, old_end + head, new_start + head, new_end + head)
