"""Where the user writes: several lines, Enter sends, large pastes are kept aside so that typing stays quick.

What becomes of a message is not known here.
"""

import math
import time
from collections.abc import Iterable
from itertools import count
from typing import ClassVar, Final

from textual import events
from textual.actions import SkipAction
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import TextArea

from khepri.repo.text import printable
from khepri.tui.composer_history import ComposerHistory
from khepri.tui.pastes import Paste, label_of, missing_pastes
from khepri.tui.widgets.completion import Candidate, Completion

_MOST_LINES: Final = 10
_LARGE_PASTE_CHARS: Final = 4000
_LARGE_PASTE_LINES: Final = 40


class Composer(TextArea):
    """The user's next message.

    Args:
        completion: Where it is shown what could be meant.
        history: The messages from before.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "Send", id="composer.send"),
        Binding("shift+enter,ctrl+j,alt+enter", "newline", "New line", id="composer.newline", show=False),
        Binding("tab", "complete", "Complete", id="composer.complete", show=False),
        Binding("up", "older", "Up, or the message before", id="composer.up", show=False),
        Binding("down", "newer", "Down, or the message after", id="composer.down", show=False),
        Binding("escape", "close_completion", "Close the list", id="composer.close", show=False),
        Binding("ctrl+g", "edit", "Editor", id="composer.edit"),
        Binding("alt+z,ctrl+underscore", "undo", "Undo", id="composer.undo", show=False),
        Binding("ctrl+y,alt+y", "redo", "Redo", id="composer.redo", show=False),
    ]

    class Sent(Message):
        """The user sends a message."""

        def __init__(self, text: str, pastes: tuple[Paste, ...]) -> None:
            super().__init__()
            self.text = text
            self.pastes = pastes

    class Written(Message):
        """What is written has changed, by the user's hand."""

        def __init__(self, before_cursor: str) -> None:
            super().__init__()
            self.before_cursor = before_cursor
            """The line up to the cursor, with the line break before it if it is not the first one."""

    class EditorWanted(Message):
        """The user wants to write in an editor of his own."""

    def __init__(self, completion: Completion, history: ComposerHistory) -> None:
        super().__init__(
            "",
            soft_wrap=True,
            tab_behavior="focus",
            compact=True,
            highlight_cursor_line=False,
            placeholder="Ask about this repository; / commands, @ files, ! shell",
        )
        self._completion = completion
        self._history = history
        # Kept after they were sent: the message may be taken back, or be looked up among the earlier ones.
        self._pastes: dict[str, Paste] = {}
        self._replaced_chars = 0
        self._offered_for = ""
        self._last_key_s = -math.inf
        self._put_text: str | None = None
        self._warned_of = ""

    def on_mount(self) -> None:
        """Begin with one line."""
        self._fit_height()

    def on_resize(self) -> None:
        """Lines wrap elsewhere at another width."""
        self._fit_height()

    def on_text_area_changed(self) -> None:
        """Grow and shrink with the text, and ask what could be meant."""
        self._fit_height()
        self.ask_again()

    def ask_again(self) -> None:
        """Ask what could be meant by what is being written."""
        if self.text == self._put_text:
            return  # nobody is writing: it was put here
        self.post_message(self.Written(self._before_cursor()))

    def put(self, text: str, pastes: Iterable[Paste] = ()) -> None:
        """Replace what is written, with the cursor at the end; ``pastes`` are what words in it stand for."""
        self._put_text = text
        self._completion.show(())
        self._pastes |= {paste.label: paste for paste in pastes}
        self.load_text(text)
        self.move_cursor(self.document.end)

    @property
    def draft(self) -> tuple[str, tuple[Paste, ...]]:
        """What is written so far, with the pastes that it still names."""
        return self.text, tuple(paste for paste in self._pastes.values() if paste.label in self.text)

    def take(self) -> tuple[str, tuple[Paste, ...]]:
        """Return what is written with the pastes that it still names, and begin anew."""
        text, pastes = self.draft
        self._completion.show(())
        self._history.add(text.strip(), pastes)
        self.load_text("")
        return text, pastes

    def offer(self, written: Written, candidates: list[Candidate], replaced_chars: int) -> None:
        """Show what could be meant by what was written, unless it was written on or sent since.

        A choice replaces so many characters before the cursor.
        """
        if written.before_cursor != self._before_cursor():
            return
        self._replaced_chars = replaced_chars
        self._offered_for = written.before_cursor
        self._completion.show(candidates)

    @property
    def _choice(self) -> Candidate | None:
        """What is chosen of what could be meant by the text as it is now; nothing while that is not known yet."""
        return self._completion.choice if self._before_cursor() == self._offered_for else None

    def accept(self, candidate: Candidate) -> None:
        """Put a candidate in the place of what was written of it, unless something else is written by now."""
        if self._before_cursor() != self._offered_for:
            return
        row, column = self.cursor_location
        self.replace(candidate.insert, (row, max(0, column - self._replaced_chars)), (row, column))
        self._completion.show(())

    def action_send(self) -> None:
        """Send the message; a backslash at the end of the line asks for another line instead."""
        choice = self._choice
        if choice is not None and choice.insert.rstrip() != self._being_completed():
            self.accept(choice)
            if not choice.insert.startswith("/") or "[" in choice.label:
                return
        row, column = self.cursor_location
        if column and self.document.get_line(row)[:column].endswith("\\"):
            self.action_delete_left()
            self.action_newline()
            return
        if self._may_be_sent():
            self.post_message(self.Sent(*self.take()))

    def _may_be_sent(self) -> bool:
        """True if there is something to send, and all of it; what is missing is said once, and not asked for again."""
        text, pastes = self.draft
        missing = missing_pastes(text, pastes)
        if not missing or text == self._warned_of:
            return bool(text.strip())
        self._warned_of = text
        self.notify(
            f"The text of {' and '.join(missing)} is not kept. Paste it again in that place, or send the message as it "
            "is with Enter.",
            severity="warning",
            markup=False,
            timeout=10,
        )
        return False

    def action_newline(self) -> None:
        """Begin a new line."""
        self.insert("\n")

    def action_complete(self) -> None:
        """Put what is chosen, if the list is for the text as it is now.

        Raises:
            SkipAction: There is nothing to choose; the key may mean something else.
        """
        choice = self._choice
        if choice is not None:
            self.accept(choice)
        elif not self._completion.is_open:
            raise SkipAction

    def action_older(self) -> None:
        """Go up in the list, or one line up, or to the message before from the first line."""
        if self._completion.is_open:
            self._completion.move(-1)
        elif self.cursor_at_first_line and (message := self._history.older(self.text)) is not None:
            self.put(message, self._history.pastes_in(message))
        else:
            self.action_cursor_up()

    def action_newer(self) -> None:
        """Go down in the list, or one line down, or to the message after from the last line."""
        if self._completion.is_open:
            self._completion.move(1)
        elif self.cursor_at_last_line and (message := self._history.newer()) is not None:
            self.put(message, self._history.pastes_in(message))
        else:
            self.action_cursor_down()

    def action_close_completion(self) -> None:
        """Close the list.

        Raises:
            SkipAction: It is not open; the key may mean something else.
        """
        if not self._completion.is_open:
            raise SkipAction
        self._completion.show(())

    def action_edit(self) -> None:
        """Ask for the user's editor."""
        self.post_message(self.EditorWanted())

    @property
    def still_s(self) -> float:
        """Seconds since the last key was pressed in here."""
        return time.monotonic() - self._last_key_s

    async def _on_key(self, event: events.Key) -> None:
        self._last_key_s = time.monotonic()
        self._put_text = None
        # Keys come here in the order in which they were pressed. Bindings are looked at later, and those with priority
        # earlier, so that letters would overtake a Backspace before them, and a quick Enter what was typed before it.
        if not event.is_printable:
            active = self.screen.active_bindings.get(event.key)
            if active is not None and active.node is self and await self.app.run_action(active.binding.action, self):
                event.stop()
                event.prevent_default()

    async def _on_paste(self, event: events.Paste) -> None:
        event.stop()
        event.prevent_default()
        text = printable(event.text.replace("\r\n", "\n").replace("\r", "\n"))
        lines = text.count("\n") + 1
        if len(text) > _LARGE_PASTE_CHARS or lines > _LARGE_PASTE_LINES:
            text = self._keep_aside(text, lines)
        self.insert(text)

    def _keep_aside(self, text: str, lines: int) -> str:
        """Keep a paste and return what stands for it, which nothing else does."""
        for number in count(len(self._pastes) + 1):
            label = label_of(number, lines, text)
            if label not in self._pastes:
                break
        self._pastes[label] = Paste(label, text)
        return label

    def _before_cursor(self) -> str:
        row, column = self.cursor_location
        return "\n" * (row > 0) + self.document.get_line(row)[:column]

    def _being_completed(self) -> str:
        """Return what a choice would replace."""
        column = self.cursor_location[1]
        return self.document.get_line(self.cursor_location[0])[max(0, column - self._replaced_chars) : column]

    def _fit_height(self) -> None:
        height = min(max(1, self.wrapped_document.height), _MOST_LINES)
        if self.styles.height is None or self.styles.height.value != height:
            self.styles.height = height
