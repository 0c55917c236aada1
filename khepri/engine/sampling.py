"""From a row of logits to a token: the transform that every path of the decode loop shares.

Order of the transform: constraint, temperature, top-k, top-p, min-p, renormalisation. Which tokens a constraint allows
is decided elsewhere (``Constraint.restrict``); here the others have minus infinity already.

References:
    Holtzman et al., "The Curious Case of Neural Text Degeneration" (top-p), 2019.
    Nguyen et al., "Turning Up the Heat: Min-p Sampling", 2024.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from khepri.engine.request import SamplingParams
from khepri.errors import DecodeError

_FIRST_NUCLEUS = 256


@dataclass(frozen=True)
class Distribution:
    """The tokens that may come next; everything else has probability 0."""

    ids: NDArray[np.int64]
    """Token ids ``[n]``, in an order that the logits alone decide."""
    probabilities: NDArray[np.float64]
    """Their probabilities ``[n]``, summing to 1."""


def transform(row: NDArray[np.float32], params: SamplingParams) -> Distribution:
    """Return the distribution of the next token.

    Args:
        row: Logits, float32 ``[n_vocab]``, minus infinity for what a constraint forbids; not changed.
        params: At temperature 0 all probability is on the most likely token.

    Raises:
        DecodeError: The logits are not numbers, or no token is possible.
    """
    best = int(row.argmax())
    if not np.isfinite(row[best]):
        raise _no_token(row)
    if params.temperature == 0.0:
        return Distribution(np.array([best]), np.array([1.0]))
    ids = _largest(row, params.top_k) if 0 < params.top_k < row.size else np.arange(row.size)
    # The largest is subtracted first, so that a tiny temperature cannot make an infinity of it.
    with np.errstate(over="ignore", under="ignore"):
        weights = np.exp((row[ids].astype(np.float64) - float(row[best])) / params.temperature)
    ids, weights = ids[weights > 0.0], weights[weights > 0.0]
    probabilities = weights / weights.sum()
    if params.top_p < 1.0:
        ids, probabilities = _nucleus(ids, probabilities, params.top_p)
    kept = probabilities >= params.min_p * probabilities.max()
    ids, probabilities = ids[kept], probabilities[kept]
    return Distribution(ids, probabilities / probabilities.sum())


def _no_token(row: NDArray[np.float32]) -> DecodeError:
    if np.isneginf(row).all():
        return DecodeError("no token may come next: the constraint and the model leave none")
    reason = "not a number" if np.isnan(row).any() else "infinite"
    return DecodeError(f"the model's logits are {reason}", "run `khepri doctor`")


def _largest(values: NDArray[np.floating], k: int) -> NDArray[np.int64]:
    """Return the indices of the k largest values, ascending; of equal ones the lowest indices."""
    threshold = np.partition(values, values.size - k)[values.size - k]
    above = np.flatnonzero(values > threshold)
    level = np.flatnonzero(values == threshold)[: k - above.size]
    return np.sort(np.concatenate((above, level)))


def _nucleus(
    ids: NDArray[np.int64], probabilities: NDArray[np.float64], top_p: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return the smallest most likely set whose mass reaches ``top_p``; of equally likely tokens the lowest ids.

    A full sort of a large vocabulary costs milliseconds, so the head is partitioned off and doubled until it holds the
    nucleus.
    """
    size = probabilities.size
    head = min(_FIRST_NUCLEUS, size)
    while True:
        candidates = _largest(probabilities, head)
        order = candidates[np.argsort(-probabilities[candidates], kind="stable")]
        mass = np.cumsum(probabilities[order])
        if head == size or mass[-1] >= top_p:
            nucleus = order[: int(np.searchsorted(mass, top_p)) + 1]
            return ids[nucleus], probabilities[nucleus]
        head = min(head * 2, size)


def draw(distribution: Distribution, random: np.random.Generator) -> int:
    """Return a token drawn from ``distribution``; ``random`` is not asked when there is one only."""
    if distribution.ids.size == 1:
        return int(distribution.ids[0])
    return int(random.choice(distribution.ids, p=distribution.probabilities))
