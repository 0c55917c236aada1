"""A list to choose one thing from, with a line to narrow it down: sessions, models, themes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Input, Label, OptionList
from textual.widgets.option_list import Option

from khepri.repo.text import printable
from khepri.tui.screens.modal import Modal


@dataclass(frozen=True)
class Choice:
    """One thing to choose."""

    value: str
    """What is returned for it."""
    label: str
    note: str = ""
    """A few words in the line below it."""


class Picker(Modal[str | None]):
    """Lets the user choose; returns the value, or None if nothing was chosen."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "cancel", "Cancel", id="picker.cancel"),
        Binding("down", "move(1)", "Next", id="picker.next", show=False),
        Binding("up", "move(-1)", "Previous", id="picker.previous", show=False),
    ]

    def __init__(self, title: str, choices: Sequence[Choice]) -> None:
        super().__init__()
        self._title = title
        self._choices = choices

    def compose(self) -> ComposeResult:
        """Lay the list out."""
        with Vertical():
            yield Label(Content(self._title))
            yield Input(placeholder="narrow down", compact=True)
            yield OptionList(*map(_option, self._choices), compact=True)

    def on_mount(self) -> None:
        """Choose the first one."""
        self.query_one(OptionList).highlighted = 0
        self.query_one(Input).focus()

    @on(Input.Changed)
    def narrow(self, event: Input.Changed) -> None:
        """Show only what holds the words that were written."""
        words = event.value.lower().split()
        shown = [
            choice for choice in self._choices if all(word in f"{choice.label} {choice.note}".lower() for word in words)
        ]
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(map(_option, shown))
        options.highlighted = 0 if shown else None

    @on(Input.Submitted)
    def choose(self) -> None:
        """Return what is highlighted."""
        option = self.query_one(OptionList).highlighted_option
        if option is not None:
            self.dismiss(option.id)

    @on(OptionList.OptionSelected)
    def choose_clicked(self, event: OptionList.OptionSelected) -> None:
        """Return what was clicked on."""
        self.dismiss(event.option.id)

    def action_move(self, step: int) -> None:
        """Highlight the next or the previous one."""
        options = self.query_one(OptionList)
        options.action_cursor_down() if step > 0 else options.action_cursor_up()

    def action_cancel(self) -> None:
        """Choose nothing."""
        self.dismiss(None)


def _option(choice: Choice) -> Option:
    note = Content.styled(f"\n  {printable(choice.note)}", "dim") if choice.note else Content("")
    return Option(Content(printable(choice.label)) + note, id=choice.value)
