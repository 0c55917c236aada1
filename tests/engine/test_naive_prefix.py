import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from khepri.engine.backend import Batch
from khepri.engine.naive_prefix import NaivePrefixCache
from khepri.errors import CancelledError, DecodeError
from tests.support.prefill import evaluate, fresh
from tests.support.scripted_backend import ScriptedBackend

# Few different tokens and short prompts make shared prefixes likely.
prompts = st.lists(st.integers(0, 2), min_size=1, max_size=12)


@settings(deadline=None)
@given(st.lists(prompts, min_size=1, max_size=8), st.booleans())
def test_with_the_cache_every_prompt_gives_the_logits_of_a_fresh_prefill(
    conversation: list[list[int]], can_remove_tail: bool
) -> None:
    backend = ScriptedBackend(can_remove_tail=can_remove_tail)
    cache = NaivePrefixCache(backend)
    for prompt in conversation:
        assert np.array_equal(evaluate(backend, cache, prompt), fresh(prompt))


@settings(deadline=None)
@given(prompts, prompts, st.integers(0, 11), st.booleans(), st.sampled_from([CancelledError, DecodeError]))
def test_a_pass_that_broke_off_leaves_nothing_behind(
    first: list[int], second: list[int], position: int, can_remove_tail: bool, kind: type[Exception]
) -> None:
    backend = ScriptedBackend(can_remove_tail=can_remove_tail, fail_at={position: kind("broke off")})
    cache = NaivePrefixCache(backend)
    for prompt in (first, second, second):
        try:
            evaluate(backend, cache, prompt)
        except kind:
            cache.truncate(cache.length)
            cache.check_integrity()
    assert np.array_equal(evaluate(backend, cache, second), fresh(second))


@pytest.mark.parametrize(
    ("prompt", "evaluated"),
    [
        ([1, 2, 3, 4, 5], 2),
        ([1, 2, 3], 1),
        ([1, 2], 1),
        ([1, 2, 9], 1),
        ([9], 1),
        ([9, 1, 2, 3], 4),
    ],
)
def test_only_what_differs_is_evaluated_and_always_at_least_one_token(prompt: list[int], evaluated: int) -> None:
    backend = ScriptedBackend()
    cache = NaivePrefixCache(backend)
    evaluate(backend, cache, [1, 2, 3])
    backend.evaluated.clear()
    evaluate(backend, cache, prompt)
    assert len(backend.evaluated) == evaluated


def test_a_model_that_cannot_remove_a_tail_keeps_a_prompt_that_only_grows() -> None:
    backend = ScriptedBackend(can_remove_tail=False)
    cache = NaivePrefixCache(backend)
    evaluate(backend, cache, [1, 2, 3])
    assert cache.match([1, 2, 3, 4]) == 3
    assert cache.match([1, 2, 3]) == 0
    cache.check_integrity()


def test_a_backend_that_lost_tokens_is_believed() -> None:
    backend = ScriptedBackend()
    cache = NaivePrefixCache(backend)
    evaluate(backend, cache, [1, 2, 3, 4])
    backend.sequence_remove(0, 2)
    assert np.array_equal(evaluate(backend, cache, [1, 2, 3, 4]), fresh([1, 2, 3, 4]))


def test_the_integrity_check_sees_what_is_out_of_step() -> None:
    backend = ScriptedBackend()
    cache = NaivePrefixCache(backend)
    backend.decode(Batch((1,), 0))
    with pytest.raises(AssertionError):
        cache.check_integrity()
