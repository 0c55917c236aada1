import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from khepri.engine.backend import Batch
from khepri.engine.disk import DiskTier, read_statistics
from khepri.engine.naive_prefix import NaivePrefixCache
from khepri.engine.prefix import CacheLimits, RadixPrefixCache, choose_cache
from khepri.engine.prefix_cache import PrefixCache
from khepri.errors import CancelledError, ContextFullError, DecodeError, OutOfBlocksError
from tests.support.prefill import ForgetfulCache, evaluate, fresh
from tests.support.scripted_backend import ScriptedBackend

STEM = tuple(range(70, 110))


class CacheMachine(RuleBasedStateMachine):
    """Conversations that grow, fork, break off, are evicted and restored, in any order, beside a fresh prefill."""

    @initialize(
        sequences=st.integers(1, 5),
        cells=st.sampled_from([96, 128, 400]),
        held=st.integers(1, 4),
        tokens=st.sampled_from([None, 60]),
        size=st.sampled_from([None, 6000]),
    )
    def begin(self, sequences: int, cells: int, held: int, tokens: int | None, size: int | None) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.shape = (sequences, cells)
        self.limits = CacheLimits(held, tokens, size)
        self.prompts: list[tuple[int, ...]] = [(*STEM, *STEM)]
        self.start()

    def start(self) -> None:
        """Begin as a new process does."""
        sequences, cells = self.shape
        self.backend = ScriptedBackend(context_tokens=96, cells=cells, sequences=sequences)
        disk = DiskTier(Path(self.folder.name), "context", 30_000) if sequences > 1 else None
        self.cache = RadixPrefixCache(self.backend, self.limits, disk)

    def teardown(self) -> None:
        if hasattr(self, "folder"):
            self.cache.finish()
            self.folder.cleanup()

    @rule(which=st.integers(0, 30), is_tail=st.booleans(), is_idle=st.booleans())
    def keep(self, which: int, is_tail: bool, is_idle: bool) -> None:
        self.cache.keep(self.prompts[which % len(self.prompts)], is_tail=is_tail)
        while self.cache.write_back(lambda: is_idle):
            self.cache.check_integrity()

    @rule(damage=st.sampled_from([None, None, 0, 30, 200, 900]), is_cut=st.booleans())
    def restart(self, damage: int | None, is_cut: bool) -> None:
        self.cache.finish()
        for file in Path(self.folder.name).glob("*.kv"):
            data = file.read_bytes()
            if damage is not None and damage < len(data):
                rest = b"" if is_cut else bytes([data[damage] ^ 1]) + data[damage + 1 :]
                file.write_bytes(data[:damage] + rest)
        self.start()

    @rule(which=st.integers(0, 30), cut=st.integers(0, 90), more=st.lists(st.integers(0, 2), max_size=30))
    def ask(self, which: int, cut: int, more: list[int]) -> None:
        prompt = (*self.prompts[which % len(self.prompts)][: cut or None], *more)[:95] or (1,)
        self.prompts.append(prompt)
        assert np.array_equal(evaluate(self.backend, self.cache, prompt), fresh(prompt))

    @rule(which=st.integers(0, 30), draft=st.integers(1, 12), kept=st.integers(0, 12))
    def draft_and_roll_back(self, which: int, draft: int, kept: int) -> None:
        prompt = self.prompts[which % len(self.prompts)][:80]
        start = self.cache.match(prompt)
        rest = (*prompt[start:], *([9] * draft))
        for place in range(0, len(rest), 32):
            chunk = rest[place : place + 32]
            self.cache.reserve(len(chunk))
            self.backend.decode(Batch(chunk, self.cache.length, self.cache.sequence))
            self.cache.extend(chunk)
        self.cache.truncate(self.cache.length - draft + min(kept, draft))
        self.cache.check_integrity()
        self.cache.release()

    @rule(which=st.integers(0, 30), at=st.integers(0, 90), kind=st.sampled_from([CancelledError, DecodeError]))
    def break_off(self, which: int, at: int, kind: type[Exception]) -> None:
        self.backend.fail_at = {at: kind("broke off")}
        prompt = self.prompts[which % len(self.prompts)]
        try:
            evaluate(self.backend, self.cache, (*prompt, 5)[:95])
        except kind:
            pass
        self.backend.fail_at = {}

    @rule()
    def forget(self) -> None:
        self.cache.clear()

    @invariant()
    def everything_agrees_and_is_within_the_limits(self) -> None:
        self.cache.check_integrity()
        assert len(self.cache.tree) <= self.limits.sequences
        assert self.cache.ledger.used_cells == self.backend.cells_in_use
        held = self.cache.ledger.used_tokens
        assert self.limits.tokens is None or held <= self.limits.tokens
        states = [self.backend.sequence_bytes(leaf.sequence or 0) for leaf in self.cache.tree.leaves()]
        assert self.limits.bytes is None or max(states, default=0) <= self.limits.bytes


TestCache = CacheMachine.TestCase
TestCache.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


def test_conversations_share_their_common_prefix_and_each_goes_on() -> None:
    backend = ScriptedBackend(sequences=4)
    cache = RadixPrefixCache(backend)
    evaluate(backend, cache, (*STEM, 1, *[2] * 30))
    backend.evaluated.clear()
    evaluate(backend, cache, (*STEM, 3, *[4] * 30))
    assert len(backend.evaluated) == 31
    assert cache.ledger.used_tokens < len(STEM) + 31 + 31 + 16
    backend.evaluated.clear()
    evaluate(backend, cache, (*STEM, 1, *[2] * 30, 5))
    evaluate(backend, cache, (*STEM, 3, *[4] * 30, 6))
    assert backend.evaluated == [5, 6]


def test_a_tail_that_is_not_worth_a_sequence_is_dropped_instead_of_kept() -> None:
    backend = ScriptedBackend(sequences=4)
    cache = RadixPrefixCache(backend)
    evaluate(backend, cache, (*STEM, 1, 2, 3))
    evaluate(backend, cache, (*STEM, 4))
    assert len(cache.tree) == 1


def test_the_shortest_conversation_is_evicted_first_but_not_the_latest() -> None:
    backend = ScriptedBackend(sequences=5, cells=512)
    cache = RadixPrefixCache(backend, CacheLimits(sequences=2))
    conversations = [tuple([number] * length) for number, length in ((1, 60), (2, 40), (3, 20))]
    for prompt in conversations:
        evaluate(backend, cache, prompt)
    assert [cache.match(prompt) for prompt in conversations] == [59, 0, 19]


def test_a_full_cache_makes_room_for_a_conversation_as_long_as_the_context() -> None:
    backend = ScriptedBackend(context_tokens=128, sequences=6)
    cache = RadixPrefixCache(backend)
    for number in range(1, 5):
        evaluate(backend, cache, [number] * 40)
    prompt = [7] * 128
    assert np.array_equal(evaluate(backend, cache, prompt), fresh(prompt))


def test_more_than_the_cells_is_a_typed_error_and_the_next_prompt_is_served() -> None:
    backend = ScriptedBackend(context_tokens=64)
    cache = RadixPrefixCache(backend)
    cache.match([1])
    with pytest.raises(OutOfBlocksError) as full:
        cache.reserve(65)
    assert isinstance(full.value, ContextFullError)
    cache.release()
    assert np.array_equal(evaluate(backend, cache, STEM), fresh(STEM))


def test_a_conversation_that_leaves_another_within_a_shared_block_is_served_in_a_full_cache() -> None:
    backend = ScriptedBackend(context_tokens=96, cells=96, sequences=5)
    cache = RadixPrefixCache(backend, CacheLimits(4))
    long = tuple(range(56))
    forked = (*long[:32], *[100] * 8)
    for prompt in (long, forked, tuple(range(150, 166)), (*forked[:30], 99, 98), (1, 2, 3), long):
        assert np.array_equal(evaluate(backend, cache, prompt), fresh(prompt))


@pytest.mark.parametrize("seed", [113, *range(20)])
def test_no_order_of_forks_ends_in_an_error(seed: int) -> None:
    chance = random.Random(seed)
    cells, sequences, held = chance.choice([96, 128, 160, 200]), chance.randrange(2, 8), chance.randrange(1, 7)
    backend = ScriptedBackend(context_tokens=96, cells=cells, sequences=sequences)
    cache = RadixPrefixCache(backend, CacheLimits(held))
    prompts = [STEM]
    for _ in range(14):
        stem = chance.choice(prompts)
        length, tail = chance.randrange(1, len(stem) + 1), chance.randrange(30)
        prompts.append((*stem[:length], *(chance.randrange(3) for _ in range(tail)))[:95])
        assert np.array_equal(evaluate(backend, cache, prompts[-1]), fresh(prompts[-1]))


def test_a_model_that_cannot_roll_back_gets_the_cache_that_recomputes() -> None:
    assert isinstance(choose_cache(ScriptedBackend(can_remove_tail=False)), NaivePrefixCache)
    assert isinstance(choose_cache(ScriptedBackend()), RadixPrefixCache)


class StubbornBackend(ScriptedBackend):
    """A backend that can remove and copy no part of a sequence that ends before ``window_start``."""

    window_start = 0

    def sequence_remove(self, sequence: int, start: int, end: int = -1) -> bool:
        if 0 < start < min(self.window_start, self.sequence_length(sequence)):
            return False
        return super().sequence_remove(sequence, start, end)

    def sequence_copy(self, source: int, target: int, start: int, end: int) -> bool:
        return end >= self.window_start and super().sequence_copy(source, target, start, end)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 1), min_size=1, max_size=60), min_size=1, max_size=8),
    st.integers(0, 60),
    st.integers(1, 4),
)
def test_a_refused_removal_or_copy_costs_a_recomputation_and_nothing_else(
    prompts: list[list[int]], window_start: int, sequences: int
) -> None:
    backend = StubbornBackend(sequences=sequences)
    backend.window_start = window_start
    cache = RadixPrefixCache(backend)
    for prompt in prompts:
        assert np.array_equal(evaluate(backend, cache, prompt), fresh(prompt))


def test_a_key_without_its_prefix_would_be_seen() -> None:
    prompts = [(1, *STEM), (2, *STEM), (1, *STEM, 5)]

    def answers(make: Callable[[ScriptedBackend], PrefixCache]) -> list[bool]:
        backend = ScriptedBackend(sequences=4)
        cache = make(backend)
        return [np.array_equal(evaluate(backend, cache, prompt), fresh(prompt)) for prompt in prompts]

    assert answers(RadixPrefixCache) == [True, True, True]
    assert answers(ForgetfulCache)[1] is False


def test_fragmentation_stays_under_five_percent_over_two_hundred_turns() -> None:
    chance = random.Random(4)
    backend = ScriptedBackend(context_tokens=4096, cells=8192, batch_tokens=512, sequences=10)
    backend.quick = True
    cache = RadixPrefixCache(backend, CacheLimits(sequences=8))
    conversations: list[list[int]] = []
    worst = 0.0
    for turn in range(200):
        if not conversations or chance.random() < 0.15:
            conversations.append([0] * 300 + [turn + 1])
        elif chance.random() < 0.2:
            source = chance.choice(conversations)
            conversations.append(source[: chance.randrange(1, len(source) + 1)])
        prompt = chance.choice(conversations)
        prompt.extend(chance.choices(range(200), k=chance.randrange(20, 400)))
        del prompt[4000:]
        start = cache.match(prompt)
        for place in range(start, len(prompt), 512):
            chunk = tuple(prompt[place : place + 512])
            cache.reserve(len(chunk))
            backend.decode(Batch(chunk, place, cache.sequence))
            cache.extend(chunk)
        cache.release()
        assert cache.ledger.used_cells == backend.cells_in_use
        if cache.ledger.used_tokens > 1000:
            worst = max(worst, cache.ledger.fragmentation())
    cache.check_integrity()
    assert 0 < worst < 0.05


def restarted(folder: Path, prompts: Sequence[Sequence[int]]) -> tuple[ScriptedBackend, RadixPrefixCache]:
    """Ask in one process, and return another with the same folder."""
    backend = ScriptedBackend(sequences=4)
    cache = RadixPrefixCache(backend, disk=DiskTier(folder, "context", 10**9))
    for prompt in prompts:
        evaluate(backend, cache, prompt)
        cache.keep(prompt)
    while cache.write_back():
        cache.check_integrity()
    cache.finish()
    new = ScriptedBackend(sequences=4)
    return new, RadixPrefixCache(new, disk=DiskTier(folder, "context", 10**9))


LONG = tuple(range(100)) * 2


def test_a_stable_beginning_is_written_after_its_first_use_and_restored_by_the_next_process(tmp_path: Path) -> None:
    backend = ScriptedBackend(sequences=4)
    cache = RadixPrefixCache(backend, disk=DiskTier(tmp_path, "context", 10**9))
    cache.match((*LONG, 1, 2), stable_tokens=len(LONG))
    cache.release()
    evaluate(backend, cache, (*LONG, 1, 2))
    assert cache.has_unwritten
    while cache.write_back():
        cache.check_integrity()
    cache.finish()
    new = ScriptedBackend(sequences=4)
    cache = RadixPrefixCache(new, disk=DiskTier(tmp_path, "context", 10**9))
    prompt = (*LONG, 7, 8, 9)
    assert np.array_equal(evaluate(new, cache, prompt), fresh(prompt))
    assert new.evaluated == [7, 8, 9]
    assert cache.match((*LONG, 3), stable_tokens=len(LONG)) == len(LONG)
    assert not cache.has_unwritten, "it is on the disk already"


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 200), st.lists(st.integers(0, 2), max_size=40)), min_size=1, max_size=6))
def test_what_is_restored_never_changes_an_answer(
    tmp_path_factory: pytest.TempPathFactory, tails: list[tuple[int, list[int]]]
) -> None:
    prompts = [(*LONG[:cut], *tail)[:250] or (1,) for cut, tail in tails]
    backend, cache = restarted(tmp_path_factory.mktemp("kv"), prompts[: len(prompts) // 2 + 1])
    for prompt in reversed(prompts):
        assert np.array_equal(evaluate(backend, cache, prompt), fresh(prompt))


def test_a_restored_conversation_that_is_not_this_one_is_cut_back_to_what_is_shared(tmp_path: Path) -> None:
    backend, cache = restarted(tmp_path, [(*LONG, 1, 1, 1)])
    prompt = (*LONG[:150], 9, 9)
    assert np.array_equal(evaluate(backend, cache, prompt), fresh(prompt))
    assert len(backend.evaluated) == 2
    unrelated = (5, *LONG)
    assert np.array_equal(evaluate(backend, cache, unrelated), fresh(unrelated))


def test_a_damaged_conversation_does_not_hide_the_beginning_beside_it(tmp_path: Path) -> None:
    disk = DiskTier(tmp_path, "context", 10**9)
    backend = ScriptedBackend(sequences=4)
    cache = RadixPrefixCache(backend, disk=disk)
    tail = (*LONG, 1, 2, 3, *LONG[:40])
    evaluate(backend, cache, tail)
    cache.keep(LONG)
    cache.keep(tail, is_tail=True)
    cache.finish()
    entry, _ = disk.find(tail)
    assert entry is not None
    damaged = bytearray(entry.path.read_bytes())
    damaged[-1] ^= 1
    entry.path.write_bytes(damaged)
    new, later = ScriptedBackend(sequences=4), DiskTier(tmp_path, "context", 10**9)
    cache = RadixPrefixCache(new, disk=later)
    assert np.array_equal(evaluate(new, cache, (*tail, 9)), fresh((*tail, 9)))
    assert len(new.evaluated) == len(tail) + 1 - len(LONG)
    cache.match((*tail, 9), stable_tokens=len(LONG))
    later.save_statistics()
    assert read_statistics(tmp_path).hits == read_statistics(tmp_path).lookups == 0, "it was in memory"


@pytest.mark.parametrize("kept", [0, 1, 30, 200, 1000, -1])
def test_a_file_that_was_cut_off_is_deleted_and_only_costs_time(tmp_path: Path, kept: int) -> None:
    backend, cache = restarted(tmp_path, [LONG])
    [file] = tmp_path.glob("*.kv")
    file.write_bytes(file.read_bytes()[:kept])
    assert np.array_equal(evaluate(backend, cache, (*LONG, 1)), fresh((*LONG, 1)))
    assert len(backend.evaluated) == len(LONG) + 1
    assert not file.exists()


@pytest.mark.parametrize("place", [3, 40, 150, 300, 1200, -1])
def test_a_file_with_a_flipped_bit_is_deleted_and_only_costs_time(tmp_path: Path, place: int) -> None:
    backend, cache = restarted(tmp_path, [LONG])
    [file] = tmp_path.glob("*.kv")
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    assert np.array_equal(evaluate(backend, cache, (*LONG, 1)), fresh((*LONG, 1)))
    assert not file.exists()


def test_a_state_that_the_library_refuses_is_deleted_and_only_costs_time(tmp_path: Path) -> None:
    DiskTier(tmp_path, "context", 10**9).write(LONG, b"a state of some other version, with a right checksum" * 9)
    backend = ScriptedBackend(sequences=4)
    cache = RadixPrefixCache(backend, disk=DiskTier(tmp_path, "context", 10**9))
    assert np.array_equal(evaluate(backend, cache, (*LONG, 1)), fresh((*LONG, 1)))
    assert not list(tmp_path.glob("*.kv"))


@pytest.mark.parametrize(("sequences", "cells"), [(2, 0), (3, 0), (4, 0), (4, 512)])
@pytest.mark.parametrize("held", [50, 120])
def test_a_state_that_the_library_refuses_costs_no_more_than_what_had_to_make_room_for_it(
    tmp_path: Path, sequences: int, cells: int, held: int
) -> None:
    backend = ScriptedBackend(context_tokens=256, cells=cells, sequences=sequences)
    disk = DiskTier(tmp_path, "context", 10**9)
    cache = RadixPrefixCache(backend, disk=disk)
    evaluate(backend, cache, (*LONG[:held], 7, 7, 7))
    disk.write(LONG, b"a state of some other version" * 9)
    assert np.array_equal(evaluate(backend, cache, (*LONG, 1)), fresh((*LONG, 1)))
    cache.check_integrity()


def test_what_does_not_fit_beside_the_conversations_in_memory_makes_room_for_itself(tmp_path: Path) -> None:
    restarted(tmp_path, [LONG])
    backend = ScriptedBackend(context_tokens=256, sequences=4)
    cache = RadixPrefixCache(backend, disk=DiskTier(tmp_path, "context", 10**9))
    evaluate(backend, cache, [3] * 200)
    assert np.array_equal(evaluate(backend, cache, (*LONG, 1)), fresh((*LONG, 1)))
    assert backend.evaluated[200:] == [1]


def test_a_prefix_longer_than_the_context_is_left_on_the_disk(tmp_path: Path) -> None:
    restarted(tmp_path, [LONG])
    backend = ScriptedBackend(context_tokens=64, sequences=4)
    cache = RadixPrefixCache(backend, disk=DiskTier(tmp_path, "context", 10**9))
    assert np.array_equal(evaluate(backend, cache, LONG[:60]), fresh(LONG[:60]))
    assert len(list(tmp_path.glob("*.kv"))) == 1


def test_the_same_prompt_again_evaluates_its_last_token(tmp_path: Path) -> None:
    backend, cache = restarted(tmp_path, [LONG])
    for _ in range(2):
        assert np.array_equal(evaluate(backend, cache, LONG), fresh(LONG))
    assert backend.evaluated == [LONG[-1]] * 2


def test_a_prefix_of_a_conversation_is_written_alone_and_what_was_broken_off_is_written_later(tmp_path: Path) -> None:
    backend = ScriptedBackend(sequences=4)
    tier = DiskTier(tmp_path, "context", 10**9)
    cache = RadixPrefixCache(backend, disk=tier)
    evaluate(backend, cache, (*LONG, 1, 2, 3))
    cache.keep(LONG)
    assert not cache.write_back(lambda: False)
    cache.check_integrity()
    assert cache.write_back()
    cache.finish()
    assert tier.holds(LONG)
    assert not tier.holds((*LONG, 1, 2, 3))
    assert not cache.has_unwritten
    cache.check_integrity()
