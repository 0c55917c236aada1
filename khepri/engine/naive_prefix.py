"""The trivial prefix cache: it remembers the one sequence that is in the backend and nothing else.

Append-only prompts make even this one valuable: each step of an agent re-uses all of the step before. It is also the
oracle that a cleverer cache is tested against.
"""

from collections.abc import Sequence

from khepri.engine.backend import Backend


class NaivePrefixCache:
    """Keeps the backend's sequence 0 and the list of its tokens in step. Belongs to the backend's thread."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._tokens: list[int] = []

    def match(self, prompt: Sequence[int]) -> int:
        """Keep the longest common prefix with ``prompt`` in the cache, drop the rest, and return its length.

        At least one token of the prompt is left to be evaluated, because its logits are needed; this is the one place
        that decides so. A model that cannot drop a tail loses everything and starts anew.
        """
        length = min(_common_length(self._tokens, prompt), len(prompt) - 1)
        self.truncate(length)
        return len(self._tokens)

    def extend(self, tokens: Sequence[int]) -> None:
        """Note that ``tokens`` were evaluated after what is there."""
        self._tokens.extend(tokens)

    def truncate(self, length: int) -> None:
        """Drop everything from position ``length`` on, what an interrupted pass left behind included."""
        length = min(length, self._backend.sequence_length(0))
        if self._backend.sequence_length(0) > length and not self._backend.sequence_remove(0, length):
            length = 0
            self._backend.sequence_remove(0, 0)
        del self._tokens[length:]

    @property
    def length(self) -> int:
        """Number of tokens that are known to be in the cache."""
        return len(self._tokens)

    def check_integrity(self) -> None:
        """Assert that the backend holds exactly the tokens noted here."""
        held = self._backend.sequence_length(0)
        assert held == len(self._tokens), f"the backend holds {held} tokens, {len(self._tokens)} are noted"


def _common_length(left: Sequence[int], right: Sequence[int]) -> int:
    for index, (a, b) in enumerate(zip(left, right, strict=False)):
        if a != b:
            return index
    return min(len(left), len(right))
