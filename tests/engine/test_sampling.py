import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from khepri.engine.request import SamplingParams
from khepri.engine.sampling import Distribution, draw, transform
from khepri.errors import DecodeError

Row = NDArray[np.float32]

# A coarse grid makes ties common; wide ones reach beyond the first nucleus that is tried.
rows = st.one_of(
    st.lists(st.sampled_from([-8.0, -1.0, 0.0, 0.5, 2.0, 7.5]), min_size=1, max_size=40),
    st.integers(0, 2**32).map(lambda seed: list(np.random.default_rng(seed).standard_normal(700) * 2)),
    st.integers(257, 1200).map(lambda size: [1.0] * size),
    st.lists(st.sampled_from([-np.inf, 1.0, 60.0]), max_size=20).map(lambda values: [0.0, *values]),
).map(lambda values: np.array(values, dtype=np.float32))
params = st.builds(
    SamplingParams,
    temperature=st.floats(0.05, 4.0),
    top_k=st.integers(0, 300),
    top_p=st.floats(0.0, 1.0),
    min_p=st.floats(0.0, 1.0),
)


def oracle(row: Row, params: SamplingParams, allowed: NDArray[np.bool_] | None) -> dict[int, float]:
    """The same distribution, from a full sort of the vocabulary and one definition after the other."""
    ids = [token for token in range(row.size) if np.isfinite(row[token]) and (allowed is None or allowed[token])]
    ids.sort(key=lambda token: (-row[token], token))
    if params.top_k:
        ids = ids[: params.top_k]
    weights = [np.exp((float(row[token]) - float(row[ids[0]])) / params.temperature) for token in ids]
    mass, kept = 0.0, []
    for token, weight in zip(ids, weights, strict=True):
        kept.append((token, weight))
        mass += weight / sum(weights)
        if params.top_p < 1.0 and mass >= params.top_p:
            break
    kept = [(token, weight) for token, weight in kept if weight > 0.0 and weight >= params.min_p * kept[0][1]]
    return {token: float(weight / sum(weight for _, weight in kept)) for token, weight in kept}


def some_of(row: Row, seed: int) -> NDArray[np.bool_]:
    """Return a mask that allows at least one possible token."""
    random = np.random.default_rng(seed)
    allowed = random.random(row.size) < 0.3
    allowed[random.choice(np.flatnonzero(np.isfinite(row)))] = True
    return allowed


def only(row: Row, allowed: NDArray[np.bool_]) -> Row:
    """Return the row as a constraint leaves it."""
    return np.where(allowed, row, np.float32(-np.inf))


def greedy(row: Row) -> int:
    return draw(transform(row, SamplingParams()), np.random.default_rng())


def as_dict(distribution: Distribution) -> dict[int, float]:
    return dict(zip(distribution.ids.tolist(), distribution.probabilities.tolist(), strict=True))


def is_at_a_cut(row: Row, params: SamplingParams) -> bool:
    """True if rounding decides whether one more token belongs to the nucleus or to min-p."""
    whole = oracle(row, SamplingParams(params.temperature, params.top_k), None)
    mass = np.cumsum(sorted(whole.values(), reverse=True))
    ratios = np.array(list(whole.values())) / max(whole.values())
    return bool(np.isclose(mass, params.top_p, rtol=1e-9).any() or np.isclose(ratios, params.min_p, rtol=1e-9).any())


@settings(deadline=None)
@given(rows, params)
def test_the_distribution_is_the_one_of_a_full_sort(row: Row, params: SamplingParams) -> None:
    actual = as_dict(transform(row, params))
    assert sum(actual.values()) == pytest.approx(1.0)
    if not is_at_a_cut(row, params):
        expected = oracle(row, params, None)
        assert actual.keys() == expected.keys()
        assert actual == pytest.approx(expected)


@settings(deadline=None)
@given(rows, params, st.integers(0, 2**32))
def test_a_masked_token_has_no_probability(row: Row, params: SamplingParams, seed: int) -> None:
    allowed = some_of(row, seed)
    actual = as_dict(transform(only(row, allowed), params))
    assert sum(actual.values()) == pytest.approx(1.0)
    assert all(allowed[token] for token in actual)
    assert all(probability > 0.0 for probability in actual.values())


@given(rows)
def test_the_default_takes_the_most_likely_token_and_the_lowest_of_equals(row: Row) -> None:
    assert greedy(row) == int(np.flatnonzero(row == row.max())[0])


@settings(deadline=None)
@given(rows, st.integers(0, 2**32))
def test_the_default_takes_the_most_likely_allowed_token(row: Row, seed: int) -> None:
    allowed = some_of(row, seed)
    token = greedy(only(row, allowed))
    assert allowed[token]
    assert row[token] == row[allowed].max()


@pytest.mark.parametrize(
    "narrow",
    [
        SamplingParams(1.0, top_k=1),
        SamplingParams(1.0, top_p=0.0),
        SamplingParams(1.0, min_p=1.0),
        SamplingParams(1e-300),
    ],
    ids=str,
)
def test_every_narrowest_setting_is_greedy(narrow: SamplingParams) -> None:
    row = np.random.default_rng(3).standard_normal(2000).astype(np.float32)
    assert transform(row, narrow).ids.tolist() == [int(row.argmax())]


def test_nothing_is_cut_where_nothing_was_asked_for() -> None:
    row = np.random.default_rng(3).standard_normal(2000).astype(np.float32)
    assert sorted(transform(row, SamplingParams(1.0)).ids.tolist()) == list(range(2000))


def test_a_nucleus_of_one_keeps_even_what_a_sum_would_round_away() -> None:
    row = np.array([0.0, -40.0, -41.0], dtype=np.float32)
    assert transform(row, SamplingParams(1.0, top_p=1.0)).ids.tolist() == [0, 1, 2]


def test_a_logit_that_is_no_number_does_not_matter_where_it_is_masked() -> None:
    row = np.array([1.0, np.nan, 2.0], dtype=np.float32)
    assert greedy(only(row, np.array([True, False, True]))) == 2


def test_the_logits_are_left_as_they_are() -> None:
    row = np.random.default_rng(3).standard_normal(500).astype(np.float32)
    before = row.copy()
    transform(row, SamplingParams(0.7, 40, 0.9, 0.05))
    assert np.array_equal(row, before)


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize(
    ("row", "words"),
    [
        ([1.0, np.nan, 2.0], "not a number"),
        ([np.nan, np.nan], "not a number"),
        ([1.0, np.inf], "infinite"),
    ],
)
def test_logits_that_are_no_numbers_are_a_failure_of_the_model(
    row: list[float], words: str, temperature: float
) -> None:
    with pytest.raises(DecodeError, match=words):
        transform(np.array(row, dtype=np.float32), SamplingParams(temperature))


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_row_that_leaves_no_token_is_said(temperature: float) -> None:
    with pytest.raises(DecodeError, match="no token may come next"):
        transform(np.full(4, -np.inf, dtype=np.float32), SamplingParams(temperature))


def test_a_seed_gives_the_same_draws_again_and_another_seed_others() -> None:
    row = np.random.default_rng(3).standard_normal(500).astype(np.float32)

    def draws(seed: int | None) -> list[int]:
        random = np.random.default_rng(seed)
        return [draw(transform(row, SamplingParams(1.0)), random) for _ in range(30)]

    assert draws(11) == draws(11)
    assert draws(11) != draws(12)
    assert draws(None) != draws(None)


@pytest.mark.parametrize(
    "settings_", [SamplingParams(1.0, seed=5), SamplingParams(0.7, 12, 0.9, 0.02, seed=6)], ids=["plain", "cut"]
)
def test_draws_follow_the_distribution(settings_: SamplingParams) -> None:
    row = (np.random.default_rng(3).standard_normal(40) * 1.5).astype(np.float32)
    distribution = transform(row, settings_)
    draws = 20_000
    random = np.random.default_rng(settings_.seed)
    counts = np.bincount([draw(distribution, random) for _ in range(draws)], minlength=row.size)
    assert counts.sum() == counts[distribution.ids].sum()
    expected = distribution.probabilities * draws
    common = expected >= 5
    chi_square = ((counts[distribution.ids] - expected)[common] ** 2 / expected[common]).sum()
    # A chi-square with n degrees of freedom has mean n and deviation sqrt(2n); five deviations are beyond chance.
    freedom = int(common.sum())
    assert chi_square < freedom + 5 * np.sqrt(2 * freedom)
