"""Asks the system to lay a model's weights into huge pages, which makes every pass over them faster.

A pass reads all weights once. In pages of 4 KiB that takes some 300,000 translations of addresses, each a walk through
two page tables in a virtual machine; in pages of 2 MiB it takes 600. Most systems give huge pages only to memory for
which they are asked (``madvise`` in ``/sys/kernel/mm/transparent_hugepage/enabled``), and the libraries do not ask.
"""

import ctypes
import mmap
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

_MAPS: Final = Path("/proc/self/maps")
_HUGE_PAGE_BYTES: Final = 2 << 20
_LEAST_BYTES: Final = 16 << 20
"""A smaller mapping holds no weights."""

PROGRESS_CALLBACK: Final = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_float, ctypes.c_void_p)
"""What a library calls before it reads each tensor: with the part that is read, and a pointer. False ends the load."""


class _Range(NamedTuple):
    start: int
    end: int


class HugePages:
    """Huge pages for the memory that is allocated from now on and holds nothing yet when a library reads weights."""

    callback: Any
    """The library's progress callback, a ``PROGRESS_CALLBACK``: its first call comes when the memory is allocated and
    nothing is read into it. Must live as long as the load."""

    def __init__(self) -> None:
        self._before = _anonymous_mappings()
        self._is_asked = False
        self.callback = PROGRESS_CALLBACK(self._on_progress)

    def _on_progress(self, _part: float, _: object) -> bool:
        if not self._is_asked:
            self._is_asked = True
            self.ask()
        return True

    def ask(self) -> None:
        """Ask for huge pages for what was allocated since; where there are none, nothing changes.

        References:
            madvise(2), MADV_HUGEPAGE.
        """
        madvise = getattr(ctypes.CDLL(None), "madvise", None)
        advice = getattr(mmap, "MADV_HUGEPAGE", None)
        if madvise is None or advice is None:
            return
        for start, end in (part for mapping in _anonymous_mappings() for part in _without(mapping, self._before)):
            first = -(-start // _HUGE_PAGE_BYTES) * _HUGE_PAGE_BYTES
            whole_bytes = (end - first) // _HUGE_PAGE_BYTES * _HUGE_PAGE_BYTES
            if whole_bytes >= _LEAST_BYTES:
                madvise(ctypes.c_void_p(first), ctypes.c_size_t(whole_bytes), ctypes.c_int(advice))


def _anonymous_mappings() -> list[_Range]:
    """Return the writable memory of this process that no file lies behind, by address; none where it cannot be told."""
    mappings = []
    with suppress(OSError):
        for line in _MAPS.read_text("utf-8", "replace").splitlines():
            addresses, permissions, _, _, inode, *name = line.split(maxsplit=5)
            if permissions == "rw-p" and inode == "0" and not name:
                start, end = (int(address, 16) for address in addresses.split("-"))
                mappings.append(_Range(start, end))
    return mappings


def _without(mapping: _Range, others: Sequence[_Range]) -> Iterator[_Range]:
    """Return the parts of a mapping that are in none of ``others``, which go up: the system joins neighbours."""
    start = mapping.start
    for other in others:
        if start < other.end and other.start < mapping.end:
            yield _Range(start, max(start, other.start))
            start = other.end
    yield _Range(start, mapping.end)
