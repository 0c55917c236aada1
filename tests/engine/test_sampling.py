"""The transform against a slow reading of its definition, and the draws against the transform."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from khepri.engine.request import SamplingParams
from khepri.engine.sampling import Sampler, transform
from khepri.errors import DecodeError

Row = NDArray[np.float32]
Mask = NDArray[np.bool_]

SIZES = st.integers(1, 600)
FLOATS = st.floats(-60, 60, width=32)


@st.composite
def rows(draw: st.DrawFn) -> tuple[Row, Mask | None]:
    """Logits, some of them minus infinity, and a mask that leaves at least one finite logit."""
    size = draw(SIZES)
    row = draw(arrays(np.float32, size, elements=st.one_of(FLOATS, st.just(-math.inf)), fill=FLOATS))
    sure = draw(st.integers(0, size - 1))
    row[sure] = draw(FLOATS)
    mask = draw(st.one_of(st.none(), arrays(np.bool_, size)))
    if mask is not None:
        mask[sure] = True
    return row, mask


PARAMS = st.builds(
    SamplingParams,
    temperature=st.floats(0.05, 3),
    top_k=st.integers(0, 50),
    top_p=st.floats(0.01, 1.0),
    min_p=st.floats(0, 1.0),
)


def defined(row: Row, params: SamplingParams, mask: Mask | None) -> dict[int, float]:
    """The definition, token by token on a full sort, where ties go to the smaller id."""
    allowed = [i for i in range(row.size) if np.isfinite(row[i]) and (mask is None or mask[i])]
    ordered = sorted(allowed, key=lambda i: (-float(row[i]), i))
    kept = ordered[: params.top_k] if params.top_k else ordered
    weights = [math.exp((float(row[i]) - float(row[kept[0]])) / params.temperature) for i in kept]
    probabilities = [weight / math.fsum(weights) for weight in weights]
    if params.top_p < 1.0:
        nucleus = next((n for n in range(1, len(kept) + 1) if math.fsum(probabilities[:n]) >= params.top_p), len(kept))
        kept, probabilities = kept[:nucleus], probabilities[:nucleus]
    chosen = [(i, p) for i, p in zip(kept, probabilities, strict=True) if p >= params.min_p * probabilities[0]]
    total = math.fsum(p for _, p in chosen)
    return {i: p / total for i, p in chosen if p > 0}


@given(rows(), PARAMS)
def test_probabilities_are_positive_descend_and_sum_to_one(
    made: tuple[Row, Mask | None], params: SamplingParams
) -> None:
    row, mask = made
    distribution = transform(row, params, mask)
    probabilities = distribution.probabilities
    assert math.isclose(math.fsum(probabilities), 1.0, abs_tol=1e-12)
    assert (probabilities > 0).all()
    assert (np.diff(probabilities) <= 0).all()
    assert len(set(distribution.ids.tolist())) == distribution.ids.size


@given(rows(), PARAMS)
def test_a_masked_or_impossible_token_is_never_offered(made: tuple[Row, Mask | None], params: SamplingParams) -> None:
    row, mask = made
    ids = transform(row, params, mask).ids
    assert np.isfinite(row[ids]).all()
    assert mask is None or mask[ids].all()


@given(rows(), PARAMS)
def test_the_transform_does_what_its_definition_says(made: tuple[Row, Mask | None], params: SamplingParams) -> None:
    row, mask = made
    distribution = transform(row, params, mask)
    expected = sorted(defined(row, params, mask).values(), reverse=True)
    # Where a sum lies on a threshold, its rounding decides about one more token: the thresholds are not compared there.
    if len(expected) == distribution.ids.size:
        np.testing.assert_allclose(distribution.probabilities, expected, rtol=1e-9, atol=1e-300)
    else:
        assert abs(len(expected) - distribution.ids.size) == 1 or _has_tie_at_the_end(row, distribution.ids)


def _has_tie_at_the_end(row: Row, ids: NDArray[np.int64]) -> bool:
    return int((np.abs(row - row[ids[-1]]) < 1e-4).sum()) > 1


@pytest.mark.parametrize("size", [1, 255, 256, 257, 5000])
@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1.0),
        SamplingParams(temperature=0.7, top_k=40, top_p=0.9, min_p=0.05),
        SamplingParams(temperature=5.0, top_p=0.999),
        SamplingParams(temperature=2.0, min_p=0.01),
        SamplingParams(temperature=1.0, top_k=1),
        SamplingParams(temperature=1.0, top_p=0.0),
    ],
)
def test_ids_and_probabilities_equal_the_definition_on_ordinary_logits(size: int, params: SamplingParams) -> None:
    row = np.random.default_rng(size).permutation(np.linspace(-8, 8, size)).astype(np.float32)
    distribution = transform(row, params, None)
    expected = defined(row, params, None)
    assert distribution.ids.tolist() == list(expected)
    np.testing.assert_allclose(distribution.probabilities, list(expected.values()), rtol=1e-9)


@given(rows())
def test_greedy_is_the_argmax_of_the_allowed_tokens(made: tuple[Row, Mask | None]) -> None:
    row, mask = made
    allowed = row if mask is None else np.where(mask, row, -np.inf)
    assert Sampler(SamplingParams()).sample(row, mask) == int(allowed.argmax())


@given(rows())
def test_a_temperature_near_zero_is_greedy(made: tuple[Row, Mask | None]) -> None:
    row, mask = made
    greedy = transform(row, SamplingParams(), mask).ids[0]
    cold = transform(row, SamplingParams(temperature=5e-324), mask)
    assert (row[cold.ids] == row[greedy]).all()


def test_the_logits_are_left_as_they_were() -> None:
    row = np.random.default_rng(1).standard_normal(300).astype(np.float32)
    before = row.copy()
    transform(row, SamplingParams(0.8, 20, 0.9, 0.1), np.arange(300) % 2 == 0)
    assert (row == before).all()


def test_top_p_one_keeps_even_what_a_sum_would_round_away() -> None:
    row = np.array([0.0, -40.0, -41.0], dtype=np.float32)
    assert transform(row, SamplingParams(temperature=1.0), None).ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize("temperature", [0.0, 0.7])
@pytest.mark.parametrize(
    ("row", "mask", "reason"),
    [
        ([1.0, 2.0], [False, False], "the constraint allows no token"),
        ([1.0, math.nan], None, "not a number"),
        ([math.nan, math.nan], [True, False], "not a number"),
        ([1.0, math.inf], None, "infinite"),
        ([-math.inf, -math.inf], None, "infinite"),
    ],
)
def test_a_row_without_a_possible_token_is_a_typed_error(
    temperature: float, row: list[float], mask: list[bool] | None, reason: str
) -> None:
    allowed = None if mask is None else np.array(mask)
    with pytest.raises(DecodeError, match=reason):
        Sampler(SamplingParams(temperature)).sample(np.array(row, dtype=np.float32), allowed)


def test_a_logit_that_is_no_number_does_not_matter_where_it_is_masked() -> None:
    row = np.array([1.0, math.nan, 2.0], dtype=np.float32)
    assert Sampler(SamplingParams()).sample(row, np.array([True, False, True])) == 2


def test_a_seed_repeats_the_draws_and_another_one_does_not() -> None:
    row = np.random.default_rng(3).standard_normal(1000).astype(np.float32)
    draws = [
        [sampler.sample(row) for _ in range(50)]
        for sampler in (Sampler(SamplingParams(1.0, seed=s)) for s in (5, 5, 6))
    ]
    assert draws[0] == draws[1] != draws[2]


def test_without_a_seed_two_samplers_differ() -> None:
    row = np.zeros(1000, dtype=np.float32)
    first, second = (Sampler(SamplingParams(1.0)) for _ in range(2))
    assert [first.sample(row) for _ in range(20)] != [second.sample(row) for _ in range(20)]


@pytest.mark.parametrize(
    "params",
    [
        SamplingParams(temperature=1.0, seed=11),
        SamplingParams(temperature=0.6, top_k=12, seed=12),
        SamplingParams(temperature=1.5, top_p=0.8, min_p=0.05, seed=13),
    ],
)
def test_draws_follow_the_distribution(params: SamplingParams) -> None:
    row = np.random.default_rng(17).standard_normal(24).astype(np.float32)
    mask = np.arange(24) % 5 != 0
    distribution = transform(row, params, mask)
    n = 20_000
    sampler = Sampler(params)
    counts = np.bincount([sampler.sample(row, mask) for _ in range(n)], minlength=24)
    assert counts[np.setdiff1d(np.arange(24), distribution.ids)].sum() == 0
    expected = distribution.probabilities * n
    chi_square = float(((counts[distribution.ids] - expected) ** 2 / expected).sum())
    degrees = distribution.ids.size - 1
    # Wilson and Hilferty: 5 standard deviations out; the seeds are fixed, so that this never flickers.
    limit = degrees * (1 - 2 / (9 * degrees) + 5 * math.sqrt(2 / (9 * degrees))) ** 3
    assert chi_square < limit
