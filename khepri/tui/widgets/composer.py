"""Where the user writes: several lines, Enter sends, large pastes are kept aside so that typing stays quick.

What becomes of a message is not known here.
"""

from dataclasses import dataclass
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from khepri.repo.text import printable

_MOST_LINES: Final = 10
_LARGE_PASTE_CHARS: Final = 4000
_LARGE_PASTE_LINES: Final = 40
_OWN_ACTIONS: Final = frozenset({"send", "newline"})


@dataclass(frozen=True)
class Paste:
    """A text that is too large to be edited in place, and the words that stand for it in the composer."""

    label: str
    """What stands for it."""
    text: str
    """The text itself."""


class Composer(TextArea):
    """The user's next message."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "Send", id="composer.send"),
        Binding("shift+enter,ctrl+j,alt+enter", "newline", "New line", id="composer.newline", show=False),
        Binding("alt+z,ctrl+underscore", "undo", "Undo", id="composer.undo", show=False),
    ]

    class Sent(Message):
        """The user sends a message."""

        def __init__(self, text: str, pastes: tuple[Paste, ...]) -> None:
            super().__init__()
            self.text = text
            self.pastes = pastes

    def __init__(self) -> None:
        super().__init__(
            "",
            soft_wrap=True,
            tab_behavior="focus",
            compact=True,
            highlight_cursor_line=False,
            placeholder="Ask about this repository, or / for commands",
        )
        self._pastes: list[Paste] = []

    def on_mount(self) -> None:
        """Begin with one line."""
        self._fit_height()

    def on_resize(self) -> None:
        """Lines wrap elsewhere at another width."""
        self._fit_height()

    def on_text_area_changed(self) -> None:
        """Grow and shrink with the text."""
        self._fit_height()

    def put(self, text: str) -> None:
        """Replace what is written, with the cursor at the end."""
        self.load_text(text)
        self.move_cursor(self.document.end)

    def take(self) -> tuple[str, tuple[Paste, ...]]:
        """Return what is written with the pastes that it still names, and begin anew."""
        text = self.text
        pastes = tuple(paste for paste in self._pastes if paste.label in text)
        self._pastes = []
        self.load_text("")
        return text, pastes

    def action_send(self) -> None:
        """Send the message; a backslash at the end of the line asks for another line instead."""
        row, column = self.cursor_location
        if column and self.document.get_line(row)[:column].endswith("\\"):
            self.action_delete_left()
            self.action_newline()
            return
        if self.text.strip():
            self.post_message(self.Sent(*self.take()))

    def action_newline(self) -> None:
        """Begin a new line."""
        self.insert("\n")

    async def _on_key(self, event: events.Key) -> None:
        # Keys come here in the order in which they were pressed; a priority binding would overtake what was typed
        # before it.
        if not event.is_printable:
            active = self.screen.active_bindings.get(event.key)
            if active is not None and active.node is self and active.binding.action in _OWN_ACTIONS:
                event.stop()
                event.prevent_default()
                await self.run_action(active.binding.action)
                return
        await super()._on_key(event)

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        text = printable(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        lines = text.count("\n") + 1
        if len(text) > _LARGE_PASTE_CHARS or lines > _LARGE_PASTE_LINES:
            paste = Paste(f"[paste {len(self._pastes) + 1}: {lines:,} lines, {len(text):,} characters]", text)
            self._pastes.append(paste)
            text = paste.label
        self.insert(text)

    def _fit_height(self) -> None:
        height = min(max(1, self.wrapped_document.height), _MOST_LINES)
        if self.styles.height is None or self.styles.height.value != height:
            self.styles.height = height
