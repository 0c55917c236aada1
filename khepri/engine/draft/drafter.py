"""What a drafter is and what it proposes.

A drafter sees committed tokens only. Whether its tokens hold is decided by the target (``engine/speculate.py``), and
how many are worth checking by the horizon (``engine/horizon.py``); neither is known here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from khepri.engine.request import DrafterName, Request
from khepri.engine.sampling import Distribution


@dataclass(frozen=True)
class Draft:
    """Tokens that may come next, in order."""

    tokens: tuple[int, ...]
    """Proposed token ids ``[gamma]``, at least one."""
    drafter: DrafterName
    """Who proposes them."""
    evidence: int = 0
    """What speaks for the draft, on the drafter's own scale: the tokens of the match for ``suffix``, else 0. Acceptance
    is estimated apart for weak and strong evidence."""
    distributions: tuple[Distribution, ...] | None = None
    """What each token was drawn from (the paper's q), one for each token; None if they were not drawn, so that each is
    proposed with certainty."""
    certain: tuple[bool, ...] = ()
    """For each token, whether a constraint leaves no other one there once all before it held; empty
    if that is true of none."""

    def shortened(self, gamma: int) -> "Draft":
        """Return the first ``gamma`` tokens of the draft, at least one."""
        drawn_from = self.distributions
        return Draft(
            self.tokens[:gamma],
            self.drafter,
            self.evidence,
            None if drawn_from is None else drawn_from[:gamma],
            self.certain[:gamma],
        )

    def is_certain(self, position: int) -> bool:
        """Tell if the token at ``position`` leaves no choice once all before it held."""
        return position < len(self.certain) and self.certain[position]

    def guessed(self, count: int) -> int:
        """Return how many of the first ``count`` tokens could have been others."""
        return count - sum(self.certain[:count])


class Drafter(Protocol):
    """Proposes continuations of one generation at a time. The engine's thread."""

    @property
    def name(self) -> DrafterName:
        """Who this is."""

    @property
    def is_costly(self) -> bool:
        """True if proposing takes passes of the drafter's own, so that the number of tokens is chosen before."""
        return False

    @property
    def setup_ms(self) -> float:
        """What the next draft would take once, before its first token, such as reading a long prompt."""
        return 0.0

    def start(self, request: Request) -> None:
        """Begin the generation that ``request`` asks for.

        Prompts mostly extend the one before; a drafter that keeps its state pays for what is new only.
        """

    def commit(self, tokens: Sequence[int]) -> None:
        """Note tokens that the generation has really produced, in order."""

    def propose(self, limit: int, after: Sequence[int] = ()) -> Draft | None:
        """Return at most ``limit`` tokens (at least 1) that may follow what was committed, or None.

        ``after`` are tokens that are taken to come first, and are not part of the draft; a costly drafter is given
        none. Nothing is committed by it: the next call of ``commit`` says what really came.
        """

    def interrupt(self) -> None:
        """Make the running and every later costly draft raise ``CancelledError`` until ``resume``. Any thread."""
        return

    def resume(self) -> None:
        """Allow drafts again after ``interrupt``. Any thread."""
        return

    def close(self) -> None:
        """Free what the drafter holds. Calling it twice is harmless."""
