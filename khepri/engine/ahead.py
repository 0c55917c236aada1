"""What may be asked soon, and is evaluated while there is nothing else to do; whoever asks goes first."""

from collections.abc import Sequence


class Ahead:
    """The beginning of a prompt that may come. The engine's thread works on it; any other may take it back."""

    def __init__(self, prompt: tuple[int, ...], stable_tokens: int) -> None:
        """Want it evaluated.

        Args:
            prompt: Token ids.
            stable_tokens: As in ``Request``.
        """
        self.prompt = prompt
        self.stable_tokens = stable_tokens
        self.is_wanted = True
        self.pass_end = 0

    def goes_on(self, pass_end: int) -> bool:
        """Note where the next pass ends; False if nobody wants it any more."""
        self.pass_end = pass_end
        return self.is_wanted

    def is_useful_to(self, prompt: Sequence[int]) -> bool:
        """True if the running pass evaluates nothing but tokens that ``prompt`` has as well."""
        return tuple(prompt[: self.pass_end]) == self.prompt[: self.pass_end]
