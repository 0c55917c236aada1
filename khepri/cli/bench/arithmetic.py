"""What speculative decoding can bring, by the arithmetic of the papers.

The letters are theirs: alpha is the chance that a drafted token holds, gamma how many are drafted for a pass, c(n) what
a pass of n rows costs and d what drafting a token costs, both in passes of one row, E the tokens of a pass.

References:
    Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023, sections 3.1 and 3.3.
"""

from collections.abc import Mapping, Sequence
from typing import Final

_STEPS: Final = 60
_LARGEST_ALPHA: Final = 0.9999


def expected_tokens(alpha: float, gamma: int) -> float:
    """Return E, the tokens that a pass commits: 1 + alpha + ... + alpha^gamma."""
    return sum(alpha**position for position in range(gamma + 1))


def predicted_speedup(alpha: float, gamma: int, c: Sequence[float], d: float, coverage: float = 1.0) -> float:
    """Return E / (c(gamma + 1) + gamma d), the speed-up over plain decoding.

    Args:
        alpha: Chance that a drafted token holds.
        gamma: Drafted tokens of a pass.
        c: Costs of passes of 1, 2, ... rows; at least gamma + 1 of them.
        d: Cost of drafting a token.
        coverage: Share of the passes that have a draft; the others are plain ones.
    """
    expected = coverage * expected_tokens(alpha, gamma) + (1.0 - coverage)
    return expected / (coverage * _cost(gamma, c, d) + (1.0 - coverage))


def fitted_alpha(tokens_per_pass: Mapping[int, float]) -> float:
    """Return the alpha that explains best how many tokens a pass with a draft committed at each gamma (least squares).

    Without any such pass it is 0.
    """
    if not tokens_per_pass:
        return 0.0

    def slope(alpha: float) -> float:
        return sum(
            (expected_tokens(alpha, gamma) - measured)
            * sum(position * alpha ** (position - 1) for position in range(1, gamma + 1))
            for gamma, measured in tokens_per_pass.items()
        )

    low, high = 0.0, _LARGEST_ALPHA
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if slope(middle) > 0.0 else (middle, high)
    return (low + high) / 2


def break_even_alpha(gamma: int, c: Sequence[float], d: float) -> float | None:
    """Return the alpha from which on ``gamma`` drafted tokens (at least 1) pay; None if they never do."""
    cost = _cost(gamma, c, d)
    if cost > gamma + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if expected_tokens(middle, gamma) > cost else (middle, high)
    return high


def _cost(gamma: int, c: Sequence[float], d: float) -> float:
    return c[gamma] / c[0] + gamma * d
