"""The formulas of the papers, against their closed forms and against each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.cli.bench.arithmetic import break_even_alpha, expected_tokens, fitted_alpha, predicted_speedup

ALPHAS = st.floats(0.01, 0.98)
COSTS = [1.0, 1.5, 1.7, 1.9, 2.4, 2.7, 3.0, 3.4, 3.5]


@given(ALPHAS, st.integers(0, 16))
def test_the_expected_tokens_are_those_of_the_closed_form(alpha: float, gamma: int) -> None:
    assert expected_tokens(alpha, gamma) == pytest.approx((1 - alpha ** (gamma + 1)) / (1 - alpha))


def test_without_a_draft_nothing_is_gained_or_lost() -> None:
    assert predicted_speedup(0.5, 0, COSTS, 0.4) == 1.0


def test_costs_count_in_terms_of_a_pass_of_one_row() -> None:
    in_ms = [60 * cost for cost in COSTS]
    assert predicted_speedup(0.9, 4, in_ms, 0.1) == pytest.approx(predicted_speedup(0.9, 4, COSTS, 0.1))
    assert predicted_speedup(1.0, 4, COSTS, 0.1) == pytest.approx(5 / (2.4 + 0.4))


@given(ALPHAS, st.integers(1, 8), st.floats(0.0, 1.0))
def test_a_smaller_coverage_brings_the_speed_closer_to_plain_decoding(alpha: float, gamma: int, share: float) -> None:
    whole, part = (predicted_speedup(alpha, gamma, COSTS, 0.1, coverage) for coverage in (1.0, share))
    assert min(1.0, whole) - 1e-9 <= part <= max(1.0, whole) + 1e-9


@given(ALPHAS, st.sets(st.integers(1, 16), min_size=1))
def test_the_fit_finds_the_alpha_that_the_figures_were_made_with(alpha: float, gammas: set[int]) -> None:
    measured = {gamma: expected_tokens(alpha, gamma) for gamma in gammas}
    assert fitted_alpha(measured) == pytest.approx(alpha, abs=1e-3)


def test_passes_that_commit_one_token_each_mean_an_alpha_of_nothing() -> None:
    assert fitted_alpha({1: 1.0, 4: 1.0}) == pytest.approx(0.0, abs=1e-6)
    assert fitted_alpha({}) == 0.0


@given(st.integers(1, 8), st.floats(0.0, 0.5))
def test_at_the_break_even_the_speed_is_that_of_plain_decoding(gamma: int, d: float) -> None:
    alpha = break_even_alpha(gamma, COSTS, d)
    if alpha is None:
        assert predicted_speedup(1.0, gamma, COSTS, d) < 1.0
    else:
        assert predicted_speedup(alpha, gamma, COSTS, d) == pytest.approx(1.0, abs=1e-6)


def test_a_draft_that_costs_more_than_it_can_bring_never_breaks_even() -> None:
    assert break_even_alpha(1, [1.0, 1.5], 0.6) is None
