"""Does a pass of many tokens give the same logits as passes of one, to the bit?

Kernels for one row and for many may add up in another order. Where they do, speculative decoding can flip a near-tie;
where they do not, it cannot change a single token. This can only be found by trying, on the machine at hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from khepri.engine.backend import Backend, Batch
from khepri.engine.pass_cost import MOST_ROWS

WIDTHS = (*range(1, 18), 24, MOST_ROWS - 1, MOST_ROWS)
"""Pass widths that are compared with passes of one token: kernels choose by the width and by what is left of it after
blocks of 2, 4, 8 and 16, which these cover."""


@dataclass(frozen=True)
class WidthDifference:
    """How far the logits of one pass width lie from those of single passes."""

    width: int
    """Tokens of a pass."""
    different_rows: int
    """Rows of logits that are not identical, of ``rows``."""
    rows: int
    """Rows that were compared."""
    largest: float
    """Largest difference of a logit."""
    flips: int
    """Rows whose most likely token differs."""
    largest_lead_change: float
    """Largest change of the lead that the most likely token of single passes has over the next: what rounding does to
    a choice, where ``largest`` may be a token that nobody would choose."""


def compare_widths(backend: Backend, tokens: Sequence[int], widths: Sequence[int] = WIDTHS) -> list[WidthDifference]:
    """Evaluate the end of ``tokens`` in passes of each width and compare every logit with that of single passes.

    Takes about ``MOST_ROWS`` passes of one token for each width up to eight, and less for each above. Sequence 0 of the
    backend is empty afterwards.

    Args:
        backend: A loaded model; this thread owns it.
        tokens: A text; the last ``MOST_ROWS`` tokens are compared and those before are their context.
        widths: Tokens of a pass.

    Raises:
        CancelledError: The backend was interrupted.
        DecodeError: The backend failed.
    """
    start = len(tokens) - MOST_ROWS
    assert start > 0, "the text is too short to compare anything in a context"
    backend.sequence_remove(0, 0)
    _evaluate(backend, tokens, 0, start, width=MOST_ROWS)
    single = _evaluate(backend, tokens, start, len(tokens), width=1)
    leaders = np.argpartition(single, -2, axis=1)[:, -2:]
    leads = _lead(single, leaders)
    differences = []
    for width in widths:
        if not backend.sequence_remove(0, start):
            break
        rows = _evaluate(backend, tokens, start, len(tokens), width)
        gaps = np.abs(rows - single).max(axis=1)
        flips = int((rows.argmax(axis=1) != single.argmax(axis=1)).sum())
        differing = int(np.count_nonzero(gaps))
        change = float(np.abs(_lead(rows, leaders) - leads).max())
        differences.append(WidthDifference(width, differing, len(rows), float(gaps.max()), flips, change))
    backend.sequence_remove(0, 0)
    return differences


def _lead(rows: NDArray[np.float32], leaders: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the logit of each row's leader above that of its second, [n_rows]; ``leaders`` ends with the leader."""
    logits = np.take_along_axis(rows, leaders, axis=1)
    return np.asarray(logits[:, 1] - logits[:, 0])


def _evaluate(backend: Backend, tokens: Sequence[int], start: int, end: int, width: int) -> NDArray[np.float32]:
    """Evaluate ``tokens[start:end]`` in passes of ``width`` and return their logits, [end - start, n_vocab]."""
    rows = []
    for place in range(start, end, width):
        chunk = tuple(tokens[place : min(end, place + width)])
        rows.append(np.array(backend.decode(Batch(chunk, place, logits_from=0))))
    return np.concatenate(rows)
