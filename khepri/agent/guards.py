"""Keeps a small model from going in circles: in its calls and in its text."""

from collections import Counter

from khepri.agent.protocol import ToolCall

_MIN_PERIOD = 8
_MAX_PERIOD = 400
_MIN_REPEATED_CHARACTERS = 240
_MIN_REPEATS = 4


class CallGuard:
    """Counts identical calls of one task."""

    def __init__(self, max_identical: int = 1) -> None:
        self._max_identical = max_identical
        self._counts: Counter[str] = Counter()
        self.refusals = 0

    def admits(self, call: ToolCall) -> bool:
        """Note a call; False if the very same one was made often enough."""
        self._counts[call.identity] += 1
        admitted = self._counts[call.identity] <= self._max_identical
        self.refusals += not admitted
        return admitted


def repeats_itself(text: str) -> bool:
    """True if ``text`` ends in the same passage over and over.

    Short passages must recur more often than long ones, so that a table's rule or a row of brackets is not taken for a
    loop.
    """
    for period in range(_MIN_PERIOD, min(_MAX_PERIOD, len(text) // _MIN_REPEATS) + 1):
        repeats = max(_MIN_REPEATS, -(-_MIN_REPEATED_CHARACTERS // period))
        span = period * repeats
        if span <= len(text) and text.endswith(text[-period:] * repeats):
            return len(set(text[-period:])) > 2
    return False
