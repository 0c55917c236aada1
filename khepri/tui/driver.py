"""Textual's terminal driver, with pastes taken whole, and ready for a stop that nobody told it of.

Textual reads a paste character by character, and the keys of an escape sequence inside one as keys that were pressed,
so that pasted text could send itself. Here a paste is cut out before anything reads it. What it is for is not known.
"""

import fcntl
import os
import selectors
import signal
import sys
import termios
import time
from codecs import getincrementaldecoder
from collections.abc import Iterator

from textual import events
from textual._xterm_parser import BRACKETED_PASTE_END, BRACKETED_PASTE_START
from textual.drivers.linux_driver import LinuxDriver
from textual.message import Message

from khepri.tui import job
from khepri.tui.driver_keys import KeyParser

_READ_BYTES = 64 * 1024
_PATIENCE_S = 0.1
# What may be the beginning of a paste comes in one write with the rest of it; a pressed Escape does not.
_HELD_S = 0.01
# How long signals that came together may take until all of them are heard.
_TOGETHER_S = 0.05


class PasteCutter:
    """Splits what a terminal sends into pastes and everything else."""

    def __init__(self) -> None:
        self._paste: list[str] | None = None
        self._held = ""

    def feed(self, text: str) -> Iterator[str | events.Paste]:
        """Yield what can be told apart so far: text that was typed, and complete pastes."""
        text, self._held = self._held + text, ""
        while text:
            marker = BRACKETED_PASTE_START if self._paste is None else BRACKETED_PASTE_END
            before, found, after = text.partition(marker)
            if not found:
                before, self._held = _split_partial(text, marker)
            if self._paste is not None:
                self._paste.append(before)
            elif before:
                yield before
            if not found:
                return
            if self._paste is None:
                self._paste = []
            else:
                yield events.Paste("".join(self._paste).replace("\x00", ""))
                self._paste = None
            text = after

    @property
    def is_holding(self) -> bool:
        """True while the last characters could be the beginning of a paste."""
        return self._paste is None and bool(self._held)

    def release(self) -> str:
        """Return what was held back because it could have been the beginning of a paste: nothing followed."""
        if not self.is_holding:
            return ""
        held, self._held = self._held, ""
        return held


def _split_partial(text: str, marker: str) -> tuple[str, str]:
    """Split off the end of ``text`` if the marker may begin there."""
    for length in range(min(len(marker) - 1, len(text)), 0, -1):
        if marker.startswith(text[-length:]):
            return text[:-length], text[-length:]
    return text, ""


class TerminalDriver(LinuxDriver):
    """Reads a real terminal."""

    _is_ending = False
    _has_terminal = False

    def run_input_thread(self) -> None:
        """Read keys, mouse and pastes until the app ends. On a thread of its own."""
        parser = KeyParser(self._debug)
        cutter = PasteCutter()
        decode = getincrementaldecoder("utf-8")("replace").decode
        with selectors.SelectSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            for message in self._messages(parser, cutter.feed(decode(self._typed_before()))):
                self.process_message(message)
            while not self.exit_event.is_set():
                wait_s = _HELD_S if cutter.is_holding else parser.wait_s
                if selector.select(_PATIENCE_S if wait_s is None else min(wait_s, _PATIENCE_S)):
                    try:
                        data = os.read(self.fileno, _READ_BYTES)
                    except OSError:
                        return  # the terminal is gone; the signal that says so ends the app
                    if not data:
                        return
                    messages = self._messages(parser, cutter.feed(decode(data)))
                else:
                    messages = self._messages(parser, iter((cutter.release(),)))
                for message in messages:
                    self.process_message(message)

    def _typed_before(self) -> bytes:
        """Return what was typed while Enter still was a line feed to the terminal, as it would come from now on."""
        try:
            waiting = fcntl.ioctl(self.fileno, termios.FIONREAD, bytes(4))
            typed = int.from_bytes(waiting, sys.byteorder)
            return os.read(self.fileno, typed).replace(b"\n", b"\r") if typed else b""
        except OSError:
            return b""  # no terminal, or gone: the next read says so

    def disable_input(self) -> None:
        """Read no more; what is typed once the terminal is given back is for somebody else."""
        if self._has_terminal:
            super().disable_input()

    def write(self, data: str) -> None:
        """Write to the terminal; nothing where it is gone, since nobody would ever take it from the queue."""
        if self._is_drawing:
            super().write(data)

    def close(self) -> None:
        """End the thread that writes."""
        if self._is_drawing:
            super().close()

    @property
    def _is_drawing(self) -> bool:
        return self._writer_thread is not None and self._writer_thread.is_alive()

    def begin_to_end(self) -> None:
        """Only give the terminal back from here on, whatever comes. The main thread only, signal handlers included."""
        if self._is_ending:
            return
        self._is_ending = True
        signal.signal(signal.SIGCONT, signal.SIG_DFL)
        # A stop would leave the terminal as it is; and it is given back even if the shell has it by now.
        for number in (signal.SIGTSTP, signal.SIGTTOU, signal.SIGTTIN):
            signal.signal(number, signal.SIG_IGN)

    def start_application_mode(self) -> None:
        """Take the terminal, if it can be had."""
        super().start_application_mode()  # type: ignore[no-untyped-call]
        self._has_terminal = self._is_drawing

    def stop_application_mode(self) -> None:
        """Give the terminal back, unless it is given back already: it may be somebody else's by now."""
        if self._has_terminal:
            super().stop_application_mode()
            self._has_terminal = False
        if self._is_ending:
            signal.signal(signal.SIGTSTP, signal.SIG_DFL)

    def _sigtstp_application(self, *_: object) -> None:
        """Give the terminal back and stop; what runs when the signal comes may be in the middle of a write."""
        if self._auto_restart:
            self._loop.call_soon_threadsafe(self._give_terminal_and_stop)
        else:
            super()._sigtstp_application()

    def _give_terminal_and_stop(self) -> None:
        if self._is_ending:
            return
        if not job.has_shell():
            self._app.notify("there is no shell here to go back to", severity="warning")
            return
        self.suspend_application_mode()
        self._must_signal_resume = True
        job.stop()

    def _sigcont_application(self, *_: object) -> None:
        """Take the terminal again, unless the shell has it now, or a program that the app itself stands aside for."""
        if not self._auto_restart:
            return
        if os.tcgetpgrp(self.fileno) != os.getpgrp():
            self._stop_unless_ending()
            return
        self._loop.call_soon_threadsafe(self._take_terminal_again)

    def _stop_unless_ending(self) -> None:
        """Stop until `fg`, as everything does that reads a terminal, but not where the end was asked for as well.

        Whoever ends a stopped job sends the signal to end it first, and then the one to continue. Both arrive at once,
        on any threads and in any order, so that the first may be heard only after the second.
        """
        time.sleep(_TOGETHER_S)
        if not self._is_ending:
            job.stop()

    def _take_terminal_again(self) -> None:
        if self._is_ending:
            return
        if self._is_drawing:
            # SIGSTOP came from outside. Taken a second time, the app's own modes would pass for those from before it.
            self._must_signal_resume = True
            self.suspend_application_mode()
        super()._sigcont_application()

    def _messages(self, parser: KeyParser, parts: Iterator[str | events.Paste]) -> Iterator[Message]:
        for part in parts:
            if isinstance(part, events.Paste):
                yield part
            elif part:
                yield from parser.feed(part)
        yield from parser.tick()
