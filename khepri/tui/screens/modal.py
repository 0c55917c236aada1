"""A screen over the conversation, which goes once, however often it is told to."""

from typing import TypeVar

from textual.await_complete import AwaitComplete
from textual.screen import ModalScreen

T = TypeVar("T")


class Modal(ModalScreen[T]):
    """A modal screen for which keys and clicks may come that were meant for it and find it gone."""

    def dismiss(self, result: T | None = None) -> AwaitComplete:
        """Go and return a result, unless that is done: what is below would go instead."""
        return super().dismiss(result) if self.app.screen is self else AwaitComplete()
