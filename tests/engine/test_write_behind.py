import threading
from collections.abc import Sequence
from pathlib import Path

from khepri.engine.disk import DiskTier, Entry
from khepri.engine.write_behind import WriteBehind, fresh_memory

TOKENS = tuple(range(100))


def test_what_is_on_its_way_counts_as_held_and_is_there_after_the_close(tmp_path: Path) -> None:
    release = threading.Event()

    class SlowDisk(DiskTier):
        def write(self, tokens: Sequence[int], state: bytes | memoryview, *, is_tail: bool = False) -> None:
            assert release.wait(300)
            super().write(tokens, state, is_tail=is_tail)

    tier = SlowDisk(tmp_path, "context", 10**9)
    writer = WriteBehind(tier)
    writer.write(TOKENS, b"state")
    assert writer.holds(TOKENS)
    assert not tier.holds(TOKENS)
    release.set()
    writer.close()
    assert tier.holds(TOKENS)


def test_the_longer_state_is_there_before_the_one_it_replaces_is_gone(tmp_path: Path) -> None:
    seen: list[int] = []

    class WatchedDisk(DiskTier):
        def discard(self, entry: Entry) -> None:
            seen.append(len(list(tmp_path.glob("*.kv"))))
            super().discard(entry)

    tier = WatchedDisk(tmp_path, "context", 10**9)
    writer = WriteBehind(tier)
    writer.write(TOKENS[:50], b"state", is_tail=True)
    writer.write(TOKENS, b"longer state", is_tail=True)
    writer.close()
    assert seen == [2]
    assert tier.holds(TOKENS)
    assert not tier.holds(TOKENS[:50])


def test_after_the_close_the_caller_writes_by_itself(tmp_path: Path) -> None:
    tier = DiskTier(tmp_path, "context", 10**9)
    writer = WriteBehind(tier)
    writer.close()
    writer.write(TOKENS, b"state")
    assert tier.holds(TOKENS)
    writer.close()


def test_memory_is_got_ready_in_steps_and_not_to_the_end_if_nobody_wants_it() -> None:
    asked: list[int] = []

    def goes_on() -> bool:
        asked.append(1)
        return len(asked) < 3

    assert fresh_memory(100_000_000, goes_on) is None
    assert len(asked) == 3
    memory = fresh_memory(5_000_001, lambda: True)
    assert memory is not None
    assert len(memory) == 5_000_001
