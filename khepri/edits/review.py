"""How a change is put before the user: a question that waits for one answer, from whatever screen shows it.

The side that made the change calls ``Review.wait`` on its own thread. The side that shows it gets the ``Review`` in an
event, shows ``review.changes`` and calls ``Review.answer`` once, from any thread:

* all of it: ``review.answer(Decision.apply(review.changes))``
* some hunks: build what is left with ``FileChange.keep`` and ``change_set``, then the same
* after editing: ``FileChange.with_text``, then the same
* none of it: ``review.answer(Decision.reject())``
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass

from khepri.edits.change import ChangeSet
from khepri.errors import CancelledError

_PATIENCE_S = 0.1


@dataclass(frozen=True)
class Decision:
    """What the user decided."""

    changes: ChangeSet | None
    """What is to be written, possibly less or other than what was proposed; None writes nothing."""

    @classmethod
    def apply(cls, changes: ChangeSet) -> "Decision":
        """Return the decision to write ``changes``; one without files writes nothing."""
        return cls(changes if changes.files else None)

    @classmethod
    def reject(cls) -> "Decision":
        """Return the decision to write nothing."""
        return cls(None)


class Review:
    """A change that waits for its user. ``answer`` is for any thread, ``wait`` for the one that asks."""

    def __init__(self, changes: ChangeSet) -> None:
        """Ask about ``changes``."""
        self.changes = changes
        """What is proposed."""
        self._decision: Decision | None = None
        self._answered = threading.Event()
        self._lock = threading.Lock()

    @property
    def is_answered(self) -> bool:
        """True once it has its answer."""
        return self._answered.is_set()

    def answer(self, decision: Decision) -> None:
        """Decide. The first answer counts; a later one is ignored, so that a closing screen may always reject."""
        with self._lock:
            if self._decision is None:
                self._decision = decision
                self._answered.set()

    def wait(self, is_cancelled: Callable[[], bool]) -> Decision:
        """Return the answer.

        Args:
            is_cancelled: Asked ten times a second; True gives up.

        Raises:
            CancelledError: The task was cancelled before there was an answer.
        """
        while not self._answered.wait(_PATIENCE_S):
            if is_cancelled():
                raise CancelledError("interrupted before the change was reviewed; nothing was written")
        assert self._decision is not None
        return self._decision
