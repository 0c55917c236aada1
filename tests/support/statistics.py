"""A chi-square test, as far as tests of distributions need one."""

from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np

Outcome = TypeVar("Outcome", bound=Hashable)


def deviation(counts: Mapping[Outcome, int], expected: Mapping[Outcome, float]) -> float:
    """Return how many standard deviations the chi-square of ``counts`` lies above its mean.

    A chi-square with n degrees of freedom has mean n and deviation sqrt(2n). Rare outcomes are taken together; one that
    should not happen at all makes the result infinite.

    Args:
        counts: How often each outcome came.
        expected: The probability of each outcome.
    """
    if any(expected.get(outcome, 0.0) <= 0.0 for outcome in counts):
        return float("inf")
    draws = sum(counts.values())
    pairs = [(counts.get(outcome, 0), probability * draws) for outcome, probability in expected.items()]
    cells = [pair for pair in pairs if pair[1] >= 5.0]
    rare = [pair for pair in pairs if pair[1] < 5.0]
    if sum(wanted for _, wanted in rare) >= 5.0:
        cells.append((sum(count for count, _ in rare), sum(wanted for _, wanted in rare)))
    chi_square = sum((count - wanted) ** 2 / wanted for count, wanted in cells)
    freedom = max(1, len(cells) - 1)
    return float((chi_square - freedom) / np.sqrt(2 * freedom))
