"""Exact speculative sampling: is a drafted token kept, and what comes in its place if it is not.

Whatever the drafter proposes, the tokens that come out are distributed as if the target had been sampled alone.

References:
    Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023, algorithm 1.
    Chen et al., "Accelerating Large Language Model Decoding with Speculative Sampling", 2023.
"""

import numpy as np

from khepri.engine.sampling import Distribution, draw


def verify(p: Distribution, drafted: int, q: Distribution | None, random: np.random.Generator) -> int:
    """Return the token that follows: ``drafted`` itself if it is kept, otherwise one from the residual.

    Args:
        p: What the target gives at this position.
        drafted: The proposed token, x in the papers.
        q: What ``drafted`` was drawn from; None if it was proposed with certainty.
        random: Where chance comes from; not asked when ``p`` leaves no choice.
    """
    if q is None:
        # Kept with probability p(x) and otherwise replaced from p without x: that is a draw from p, and the same one as
        # without a draft.
        return draw(p, random)
    p_x, q_x = _probability(p, drafted), _probability(q, drafted)
    if p_x >= q_x:
        return drafted
    if p_x > 0.0 and random.random() * q_x < p_x:
        return drafted
    return draw(_residual(p, q), random)


def _probability(distribution: Distribution, token: int) -> float:
    return float(distribution.probabilities[distribution.ids == token].sum())


def _residual(p: Distribution, q: Distribution) -> Distribution:
    """Return max(0, p - q), normalised: what the target wants more of than the drafter offers."""
    order = np.argsort(q.ids)
    place = np.minimum(np.searchsorted(q.ids[order], p.ids), q.ids.size - 1)
    offered = np.where(q.ids[order][place] == p.ids, q.probabilities[order][place], 0.0)
    excess = np.maximum(0.0, p.probabilities - offered)
    kept = excess > 0.0
    if not kept.any():  # p and q differ by rounding alone
        return p
    return Distribution(p.ids[kept], excess[kept] / excess[kept].sum())
