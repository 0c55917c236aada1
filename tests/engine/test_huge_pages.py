"""Memory for weights is asked into huge pages before it is filled, and no other."""

import mmap
from collections.abc import Iterator
from pathlib import Path

import pytest

from khepri.engine import huge_pages
from khepri.engine.huge_pages import HugePages
from tests.support.huge_pages import huge_kib, needs_huge_pages

MIB = 1 << 20


def allocate(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def fill(memory: mmap.mmap) -> None:
    for start in range(0, len(memory), mmap.PAGESIZE):
        memory[start : start + 1] = b"x"


@pytest.fixture
def memories() -> Iterator[list[mmap.mmap]]:
    made: list[mmap.mmap] = []
    yield made
    for memory in made:
        memory.close()


@needs_huge_pages
def test_what_a_library_allocates_and_then_fills_lies_in_huge_pages(memories: list[mmap.mmap]) -> None:
    before = huge_kib()
    pages = HugePages()
    memories.append(allocate(64 * MIB))
    assert pages.callback(0.0, None)
    fill(memories[0])
    assert huge_kib() - before >= 60 * 1024


@needs_huge_pages
def test_memory_from_before_stays_as_it_is_though_the_system_joins_it_with_what_comes(
    memories: list[mmap.mmap],
) -> None:
    memories.append(allocate(64 * MIB))
    before = huge_kib()
    pages = HugePages()
    memories.append(allocate(32 * MIB))
    pages.ask()
    for memory in memories:
        fill(memory)
    assert 28 * 1024 <= huge_kib() - before <= 34 * 1024


@needs_huge_pages
def test_only_the_first_report_of_a_load_asks(memories: list[mmap.mmap]) -> None:
    before = huge_kib()
    pages = HugePages()
    assert pages.callback(0.0, None)
    memories.append(allocate(32 * MIB))
    assert pages.callback(0.5, None)
    fill(memories[0])
    assert huge_kib() - before < 4 * 1024


@needs_huge_pages
def test_small_memory_is_left_alone(memories: list[mmap.mmap]) -> None:
    before = huge_kib()
    pages = HugePages()
    memories.append(allocate(8 * MIB))
    pages.ask()
    fill(memories[0])
    assert huge_kib() - before < 4 * 1024


def test_where_the_mappings_are_not_told_a_load_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(huge_pages, "_MAPS", Path("/no/such/file"))
    assert HugePages().callback(0.0, None)
