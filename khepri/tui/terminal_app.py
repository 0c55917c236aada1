"""Textual's app as a real terminal wants it.

What is drawn is harmless, signals end or stop the app in good order, it stands aside for other programs, and what is
copied arrives. What is on the screen is not known here.
"""

import asyncio
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from rich.console import RenderableType
from textual import events
from textual.app import App
from textual.filter import LineFilter

from khepri.tui.background import run_aside
from khepri.tui.clipboard import copy_through_tmux, is_in_tmux
from khepri.tui.driver import TerminalDriver
from khepri.tui.driver_keys import pressed_one_by_one
from khepri.tui.harmless import Harmless

_TERMINATED: Final = 143
_HUNG_UP: Final = 129
_LATE_S: Final = 1 / 30


class TerminalApp(App[int]):
    """An app on a whole terminal. The event loop's thread only."""

    def __init__(self) -> None:
        super().__init__(driver_class=TerminalDriver)
        self._harmless = Harmless()

    @property
    def defect(self) -> Exception | None:
        """What ended the app, if that was an error that nobody foresaw."""
        return self._exception

    def _fatal_error(self) -> None:
        # Textual would print all local variables. Whoever runs the app says what went wrong, once the screen is gone.
        self._begin_to_end()
        self._close_messages_no_wait()

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Return what every line passes on its way to the terminal."""
        return [*super().get_line_filters(), self._harmless]

    def as_pressed(self, event: events.Event) -> Iterator[events.Event]:
        """Take Alt with a character as a key that does something, or as Escape and then the character."""
        if not isinstance(event, events.Key) or event.is_forwarded or not (apart := pressed_one_by_one(event)):
            yield event
        elif event.key in self.screen.active_bindings:
            yield events.Key(event.key, None)  # what writes characters would write this one
        else:
            yield from apart

    def answer_signals(self) -> None:
        """Answer the signals of the terminal and the system from here on, and draw everything after a suspension."""
        # The terminal has forgotten everything, and Textual draws again only where something changes or the size does.
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.leave, _TERMINATED)
        loop.add_signal_handler(signal.SIGHUP, self.leave, _HUNG_UP)
        loop.add_signal_handler(signal.SIGINT, self.action_interrupt)
        # The loop hears of a signal later, and by then the one that often follows would have stopped the app again, or
        # taken the terminal: whoever ends a job that may be stopped lets it continue at once.
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: self._begin_to_end())
            signal.siginterrupt(number, False)

    def action_interrupt(self) -> None:
        """Do what an interrupt asks for: leave."""
        self.leave(0)

    def leave(self, code: int) -> None:
        """End the app with an exit code."""
        self.exit(code)

    def exit(self, result: int | None = None, return_code: int = 0, message: RenderableType | None = None) -> None:
        """End the app; nothing takes the terminal from here on."""
        self._begin_to_end()
        super().exit(result, return_code, message)

    def _begin_to_end(self) -> None:
        if isinstance(self._driver, TerminalDriver):
            self._driver.begin_to_end()

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """Stand aside for another program, whose interrupts are for that one."""
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGINT)
        signal.signal(signal.SIGINT, lambda *_: None)
        failure: Exception | None = None
        try:
            with super().suspend():
                try:
                    yield
                except Exception as error:  # thrown through Textual it would leave the terminal with the other program
                    failure = error
            if failure is not None:
                raise failure
        finally:
            # What came meanwhile reaches the loop only now.
            loop.call_later(_LATE_S, loop.add_signal_handler, signal.SIGINT, self.action_interrupt)

    def copy_to_clipboard(self, text: str) -> None:
        """Put text into the clipboard of the user's own terminal, over SSH and through tmux as well."""
        super().copy_to_clipboard(text)
        if is_in_tmux():
            run_aside(self, lambda: copy_through_tmux(text), lambda _: None, self._say_not_copied)

    def _say_not_copied(self, error: BaseException) -> None:
        self.notify(f"tmux did not take it: {error}", severity="error", markup=False)
