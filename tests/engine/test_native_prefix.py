"""The prefix cache on the real libraries: a hit, a restore and a recomputation against a full prefill.

The tiny models' logits have a standard deviation of 3. Where passes fall differently, rounding may differ as between
any two widths of a pass; where they fall alike, nothing may differ at all.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from khepri.engine.backend import Backend, BackendName, KvType, LoadOptions
from khepri.engine.backends.ik_llama_api import find_library
from khepri.engine.backends.loading import load_backend
from khepri.engine.disk import DiskTier
from khepri.engine.naive_prefix import NaivePrefixCache
from khepri.engine.prefix import CacheLimits, RadixPrefixCache, choose_cache
from tests.support.prefill import PASS_TOKENS, ForgetfulCache, evaluate, fresh
from tests.support.tiny_model import (
    write_tiny_hybrid_model,
    write_tiny_model,
    write_tiny_recurrent_model,
    write_tiny_window_model,
)

MOST_ROUNDING = 0.05
"""Largest difference of a logit that rounding explains."""
LONG = tuple(5 + place * 7 % 190 for place in range(200))

MakeBackend = Callable[..., Backend]

libraries = [
    BackendName.LLAMA_CPP,
    pytest.param(
        BackendName.IK_LLAMA,
        marks=pytest.mark.skipif(find_library() is None, reason="the extra `fast` is not installed"),
    ),
]


@pytest.fixture(scope="module")
def make() -> Iterator[MakeBackend]:
    made: list[Backend] = []

    def make(model: Path, library: BackendName = BackendName.LLAMA_CPP, sequences: int = 4) -> Backend:
        # One thread: on a busy machine two of them spend their time waiting for each other.
        made.append(load_backend(LoadOptions(model, 512, 1, 64, sequences, backend=library)))
        return made[-1]

    yield make
    for backend in made:
        backend.close()


def branching(turns: int) -> list[tuple[int, ...]]:
    """Return prompts each of which leaves an earlier one somewhere, and goes on by itself."""
    chance = random.Random(1)
    prompts = [LONG]
    for _ in range(turns):
        source = chance.choice(prompts)
        kept = source[: chance.randrange(1, len(source))]
        prompts.append((*kept, *chance.choices(range(5, 190), k=chance.randrange(1, 40)))[:400])
    return prompts


@pytest.mark.parametrize("library", libraries)
def test_a_hit_gives_the_logits_of_a_full_prefill_but_for_rounding(
    make: MakeBackend, tiny_model: Path, library: BackendName
) -> None:
    plain, backend = make(tiny_model, library), make(tiny_model, library)
    cache = RadixPrefixCache(backend, CacheLimits(sequences=2))
    for prompt in branching(24):
        assert np.abs(evaluate(backend, cache, prompt) - fresh(prompt, plain)).max() <= MOST_ROUNDING


@settings(deadline=None, max_examples=15)
@given(
    st.lists(
        st.tuples(st.integers(0, 8), st.integers(1, 120), st.lists(st.integers(5, 9), min_size=1, max_size=30)),
        min_size=1,
        max_size=8,
    ),
    st.integers(1, 3),
    st.sampled_from([None, 150]),
)
def test_whatever_was_asked_before_a_hit_differs_by_rounding_alone(
    make: MakeBackend, tiny_model: Path, asked: list[tuple[int, int, list[int]]], held: int, tokens: int | None
) -> None:
    plain, backend = make(tiny_model), make(tiny_model)
    cache = RadixPrefixCache(backend, CacheLimits(held, tokens))
    prompts = [LONG[:100]]
    for which, kept, more in asked:
        prompts.append((*prompts[which % len(prompts)][:kept], *more))
        assert np.abs(evaluate(backend, cache, prompts[-1]) - fresh(prompts[-1], plain)).max() <= MOST_ROUNDING
    backend.close()
    plain.close()


@pytest.mark.parametrize(("kv_type", "cell_bytes"), [(KvType.F16, 512), (KvType.Q8_0, 272)])
def test_a_limit_in_bytes_counts_the_cells_in_the_precision_that_they_have(
    tmp_path: Path, kv_type: KvType, cell_bytes: int
) -> None:
    model = write_tiny_model(tmp_path / "tiny.gguf", heads=2)
    backend = load_backend(LoadOptions(model, 512, 1, 64, 8, kv_type=kv_type))
    most_bytes = 110_000
    cache = RadixPrefixCache(backend, CacheLimits(sequences=6, bytes=most_bytes))
    most_held = 0
    for first in (*range(6), *range(6)):
        evaluate(backend, cache, (200 + first, *LONG[:60]))
        most_held = max(most_held, cache.ledger.used_tokens)
        assert cache.ledger.used_tokens * cell_bytes <= most_bytes
    assert most_held == 61 * {KvType.F16: 3, KvType.Q8_0: 6}[kv_type]
    backend.close()


@pytest.mark.parametrize("library", libraries)
def test_a_limit_in_bytes_that_no_conversation_fits_into_costs_time_alone(
    make: MakeBackend, tiny_model: Path, tmp_path: Path, library: BackendName
) -> None:
    plain, backend = make(tiny_model, library), make(tiny_model, library)
    cache = RadixPrefixCache(backend, CacheLimits(bytes=1), DiskTier(tmp_path, "context", 10**9))
    for prompt in branching(6):
        assert np.abs(evaluate(backend, cache, prompt) - fresh(prompt, plain)).max() <= MOST_ROUNDING
        cache.keep(prompt)
        assert len(cache.tree) == 0
    cache.finish()


@pytest.mark.parametrize("library", libraries)
def test_a_conversation_that_goes_on_at_the_end_of_a_pass_gives_the_very_bits_of_a_full_prefill(
    make: MakeBackend, tiny_model: Path, library: BackendName
) -> None:
    plain, backend = make(tiny_model, library), make(tiny_model, library)
    cache = RadixPrefixCache(backend)
    for passes in (3, 4, 9, 12):
        prompt = LONG[: passes * PASS_TOKENS]
        assert np.array_equal(evaluate(backend, cache, (*prompt, 7)), fresh((*prompt, 7), plain))


@pytest.mark.parametrize("library", libraries)
def test_what_is_restored_at_the_end_of_a_pass_gives_the_very_bits_of_a_full_prefill(
    make: MakeBackend, tiny_model: Path, tmp_path: Path, library: BackendName
) -> None:
    stable = LONG[: 12 * PASS_TOKENS]
    prompt = (*stable, *range(50, 80))
    first, second = make(tiny_model, library), make(tiny_model, library)
    cache = RadixPrefixCache(first, disk=DiskTier(tmp_path, "context", 10**9))
    expected = evaluate(first, cache, prompt)
    cache.keep(stable)
    cache.finish()
    cache = RadixPrefixCache(second, disk=DiskTier(tmp_path, "context", 10**9))
    assert cache.match(prompt) == len(stable)
    cache.release()
    assert np.array_equal(evaluate(second, cache, prompt), expected)


@pytest.mark.parametrize("library", libraries)
def test_a_restore_in_the_middle_of_other_conversations_differs_by_rounding_alone(
    make: MakeBackend, tiny_model: Path, tmp_path: Path, library: BackendName
) -> None:
    plain, first, second = (make(tiny_model, library) for _ in range(3))
    cache = RadixPrefixCache(first, disk=DiskTier(tmp_path, "context", 10**9))
    for prompt in branching(6):
        evaluate(first, cache, prompt)
        cache.keep(prompt)
    cache.finish()
    cache = RadixPrefixCache(second, CacheLimits(sequences=2), DiskTier(tmp_path, "context", 10**9))
    for prompt in [(9,) * 300, *branching(12)]:
        assert np.abs(evaluate(second, cache, prompt) - fresh(prompt, plain)).max() <= MOST_ROUNDING


@pytest.mark.parametrize("library", libraries)
def test_keys_and_values_of_another_context_are_far_outside_the_bound(
    make: MakeBackend, tiny_model: Path, library: BackendName
) -> None:
    plain = make(tiny_model, library)
    one, other = (6, *LONG), (7, *LONG)
    for kind, is_right in ((RadixPrefixCache, True), (ForgetfulCache, False)):
        backend = make(tiny_model, library)
        cache = kind(backend)
        evaluate(backend, cache, one)
        difference = np.abs(evaluate(backend, cache, other) - fresh(other, plain)).max()
        assert (difference <= MOST_ROUNDING) == is_right


def test_a_model_with_a_sliding_window_is_served_rightly(make: MakeBackend, tmp_path: Path) -> None:
    model = write_tiny_window_model(tmp_path / "window.gguf")
    plain, backend, second = (make(model) for _ in range(3))
    cache = choose_cache(backend, CacheLimits(sequences=2), DiskTier(tmp_path / "kv", "context", 10**9))
    for prompt in branching(12):
        assert np.abs(evaluate(backend, cache, prompt) - fresh(prompt, plain)).max() <= MOST_ROUNDING
        cache.keep(prompt)
    cache.finish()
    cache = choose_cache(second, disk=DiskTier(tmp_path / "kv", "context", 10**9))
    for prompt in branching(12):
        assert np.abs(evaluate(second, cache, prompt) - fresh(prompt, plain)).max() <= MOST_ROUNDING


@pytest.mark.parametrize("write", [write_tiny_recurrent_model, write_tiny_hybrid_model])
def test_a_model_that_cannot_roll_back_is_found_out_and_served_by_recomputation(
    make: MakeBackend, tmp_path: Path, write: Callable[[Path], Path]
) -> None:
    model = write(tmp_path / "recurrent.gguf")
    plain, backend = make(model), make(model)
    cache = choose_cache(backend, disk=DiskTier(tmp_path / "kv", "context", 10**9))
    assert isinstance(cache, NaivePrefixCache)
    reused = 0
    for prompt in [*branching(8), LONG, LONG, (*LONG, 7), (*LONG, 7, 8)]:
        start = cache.match(prompt)
        reused += start
        assert np.abs(evaluate(backend, cache, prompt) - fresh(prompt, plain)).max() <= MOST_ROUNDING
    assert reused == 2 * len(LONG) + 1, "only what a prompt goes on from is kept"
