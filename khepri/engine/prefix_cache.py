"""What a prefix cache is to the decode loop: one sequence in use, of which it knows the tokens."""

from collections.abc import Callable, Sequence
from typing import Protocol


class PrefixCache(Protocol):
    """Keeps keys and values of tokens that were evaluated. Belongs to the backend's thread.

    ``match`` begins the use of a sequence, ``release`` ends it. Between them the caller evaluates tokens at ``length``
    of ``sequence`` and says so with ``extend``.
    """

    @property
    def sequence(self) -> int:
        """The backend's sequence in use."""

    @property
    def length(self) -> int:
        """Number of tokens that are known to be in it."""

    def match(self, prompt: Sequence[int], stable_tokens: int = 0) -> int:
        """Take into use what is held of the beginning of ``prompt``, and return its length.

        At least one token of the prompt is left to be evaluated, because its logits are needed; this is the one place
        that decides so.

        Args:
            prompt: Token ids, at least one.
            stable_tokens: So many of them are what other conversations will begin with as well.
        """

    def reserve(self, tokens: int) -> None:
        """Make room for so many tokens after those in use, at the cost of what is not in use.

        Raises:
            ContextFullError: There is no room, even so.
        """

    def extend(self, tokens: Sequence[int]) -> None:
        """Note that ``tokens`` were evaluated after what is there."""

    def truncate(self, length: int) -> None:
        """Drop everything from position ``length`` on, what an interrupted pass left behind included.

        Less may be left than was asked for, if it cannot be held; ``length`` says what is.
        """

    def release(self) -> None:
        """End the use: drop what an interrupted pass left behind, and keep the rest for later."""

    def clear(self) -> None:
        """Forget everything."""

    def keep(self, tokens: Sequence[int], *, is_tail: bool = False) -> None:
        """Ask for what is held of ``tokens`` to outlive the process.

        Args:
            tokens: Token ids of a prefix.
            is_tail: True if it is a conversation that may go on later: it takes the place of its own earlier states.
        """

    def loses(self, tokens: Sequence[int], prompt: Sequence[int]) -> bool:
        """True if ``prompt`` drops what is held of ``tokens``, or of what was asked to be kept and is not written yet.

        Args:
            tokens: Token ids of a conversation.
            prompt: Token ids that are to be matched next.
        """

    @property
    def has_unwritten(self) -> bool:
        """True if ``write_back`` has something to do."""

    def write_back(self, goes_on: Callable[[], bool] = lambda: True) -> bool:
        """Have one thing that is worth keeping put where it outlives the process, which others see to.

        Args:
            goes_on: Asked now and then, within milliseconds; False leaves the rest for the next call.

        Returns:
            False if there was nothing left to do, or ``goes_on`` said no.
        """

    def finish(self) -> None:
        """Put everything that is worth keeping there, and wait until it is."""

    def check_integrity(self) -> None:
        """Assert that the backend holds exactly what is noted here."""
