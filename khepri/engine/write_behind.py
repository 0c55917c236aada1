"""Writing behind: what goes to the disk tier is hashed and written on a thread of its own, while the engine's answers.

Memory for a state is got ready in small steps, between which the engine's thread may be called away: the system takes
far longer to hand out fresh pages than the library to fill them.
"""

import mmap
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Final

from khepri.engine.disk import DiskTier
from khepri.engine.radix import path_identity

_STEP_BYTES: Final = 4_000_000


class WriteBehind:
    """The way to a disk tier. Belongs to one thread, which is never kept waiting, but for ``close``."""

    def __init__(self, tier: DiskTier) -> None:
        """Begin with nothing to write.

        Args:
            tier: What is written to; others may read it meanwhile.
        """
        self._tier = tier
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._under_way: set[bytes] = set()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def holds(self, tokens: Sequence[int]) -> bool:
        """True if there is an entry of exactly these tokens, or will be in a moment."""
        return path_identity(tokens) in self._under_way or self._tier.holds(tokens)

    def write(self, tokens: tuple[int, ...], state: bytes | memoryview, *, is_tail: bool = False) -> None:
        """Keep a state; see ``DiskTier.write``."""
        identity = path_identity(tokens)
        self._under_way.add(identity)

        def write() -> None:
            self._tier.write(tokens, state, is_tail=is_tail)
            self._under_way.discard(identity)

        self._do(write)

    def save_statistics(self) -> None:
        """Add what was counted to the folder's statistics."""
        self._do(self._tier.save_statistics)

    def close(self) -> None:
        """Wait until all is written; from here on, the caller writes by itself."""
        self._is_closed = True
        if self._thread is not None:
            self._work.put(None)
            self._thread.join()
            self._thread = None

    def _do(self, work: Callable[[], None]) -> None:
        if self._is_closed:
            work()
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="khepri-disk", daemon=True)
            self._thread.start()
        self._work.put(work)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()


def fresh_memory(size: int, goes_on: Callable[[], bool]) -> memoryview | None:
    """Return so many bytes whose pages are there already; None as soon as ``goes_on`` says no."""
    memory = memoryview(mmap.mmap(-1, max(1, size), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    for start in range(0, size, _STEP_BYTES):
        if not goes_on():
            return None
        places = range(start, min(start + _STEP_BYTES, size), mmap.PAGESIZE)
        memory[places.start : places.stop : places.step] = bytes(len(places))
    return memory
