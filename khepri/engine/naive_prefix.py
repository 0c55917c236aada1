"""The trivial prefix cache: it remembers the one sequence that is in the backend and nothing else.

It serves models that cannot roll back, which keep nothing of a prompt that changes, and it is the oracle that the real
one is tested against.
"""

from collections.abc import Callable, Sequence

from khepri.engine.backend import Backend
from khepri.engine.radix import common_length


class NaivePrefixCache:
    """Keeps the backend's sequence 0 and the list of its tokens in step. Belongs to the backend's thread."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._tokens: list[int] = []

    @property
    def sequence(self) -> int:
        """The only sequence."""
        return 0

    def match(self, prompt: Sequence[int], stable_tokens: int = 0) -> int:
        """Keep the longest common prefix with ``prompt`` in the cache, drop the rest, and return its length.

        A model that cannot drop a tail loses everything and starts anew.
        """
        length = min(common_length(self._tokens, prompt), len(prompt) - 1)
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

    def reserve(self, tokens: int) -> None:
        """Do nothing: there is nothing to make room for."""

    def release(self) -> None:
        """Drop what an interrupted pass left behind."""
        self.truncate(self.length)

    def clear(self) -> None:
        """Forget everything."""
        self.truncate(0)

    def keep(self, tokens: Sequence[int], *, is_tail: bool = False) -> None:
        """Do nothing: nothing outlives the process."""

    def loses(self, tokens: Sequence[int], prompt: Sequence[int]) -> bool:
        """False: what is lost could not be kept."""
        return False

    @property
    def has_unwritten(self) -> bool:
        """False."""
        return False

    def write_back(self, goes_on: Callable[[], bool] = lambda: True) -> bool:
        """Write nothing."""
        return False

    def finish(self) -> None:
        """Do nothing: there is nothing to write."""

    @property
    def length(self) -> int:
        """Number of tokens that are known to be in the cache."""
        return len(self._tokens)

    def check_integrity(self) -> None:
        """Assert that the backend holds exactly the tokens noted here."""
        held = self._backend.sequence_length(0)
        assert held == len(self._tokens), f"the backend holds {held} tokens, {len(self._tokens)} are noted"
