from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.engine.sampling import Distribution, draw
from khepri.engine.speculate import verify
from tests.support.statistics import deviation

weights = st.lists(st.sampled_from([0.0, 0.1, 1.0, 3.0]), min_size=6, max_size=6).filter(any)


def distribution(values: list[float], *, backwards: bool = False) -> Distribution:
    ids = np.flatnonzero(values)[:: -1 if backwards else 1]
    kept = np.array(values, dtype=np.float64)[ids]
    return Distribution(ids, kept / kept.sum())


def as_dict(p: Distribution) -> dict[int, float]:
    return dict(zip(p.ids.tolist(), p.probabilities.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([0.5, 0.3, 0.2, 0, 0, 0], [0.1, 0.1, 0.8, 0, 0, 0]),
        ([0.5, 0.3, 0.2, 0, 0, 0], [0.5, 0.3, 0.2, 0, 0, 0]),
        ([0.25, 0.25, 0.25, 0.25, 0, 0], [0, 0, 0.5, 0, 0.25, 0.25]),
        ([0, 0, 0, 0, 0.9, 0.1], [0.5, 0.5, 0, 0, 0, 0]),
        ([0, 0, 0, 0, 1.0, 0], [0.2, 0.2, 0.2, 0.2, 0.1, 0.1]),
    ],
)
def test_what_comes_out_is_distributed_like_the_target_whatever_the_draft_was_drawn_from(
    p: list[float], q: list[float], seed: int
) -> None:
    target, drafter, random = distribution(p, backwards=True), distribution(q), np.random.default_rng(seed)
    counts = Counter(verify(target, draw(drafter, random), drafter, random) for _ in range(20_000))
    assert deviation(counts, as_dict(target)) < 5


@pytest.mark.parametrize("drafted", range(6))
def test_a_token_proposed_with_certainty_changes_nothing_either(drafted: int) -> None:
    target, random = distribution([0.4, 0.3, 0.15, 0.15, 0, 0]), np.random.default_rng(drafted)
    counts = Counter(verify(target, drafted, None, random) for _ in range(20_000))
    assert deviation(counts, as_dict(target)) < 5


def test_the_share_of_certain_tokens_that_are_kept_is_their_probability() -> None:
    target, random = distribution([0.4, 0.6, 0, 0, 0, 0]), np.random.default_rng(1)
    kept = sum(verify(target, 0, None, random) == 0 for _ in range(20_000))
    assert kept / 20_000 == pytest.approx(0.4, abs=0.02)


@given(weights, weights, st.integers(0, 2**32), st.booleans())
def test_every_outcome_is_possible_for_the_target_and_a_greedy_target_draws_nothing(
    p: list[float], q: list[float], seed: int, certain: bool
) -> None:
    target, drafter, random = distribution(p), distribution(q), np.random.default_rng(seed)
    drafted = draw(drafter, random)
    assert verify(target, drafted, None if certain else drafter, random) in target.ids
    state = random.bit_generator.state
    best = Distribution(target.ids[:1], np.array([1.0]))
    assert verify(best, drafted, None, random) == best.ids[0]
    assert random.bit_generator.state == state


def test_these_tests_would_notice_a_residual_that_is_forgotten() -> None:
    target, drafter = distribution([0.5, 0.3, 0.2, 0, 0, 0]), distribution([0.1, 0.1, 0.8, 0, 0, 0])
    random = np.random.default_rng(1)

    def without_residual(drafted: int) -> int:
        token = verify(target, drafted, drafter, random)
        return token if token == drafted else draw(target, random)

    counts = Counter(without_residual(draw(drafter, random)) for _ in range(20_000))
    assert deviation(counts, as_dict(target)) > 100
