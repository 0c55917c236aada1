"""Gives the terminal back when the app could not: a small process that outlives it.

A process that is killed outright restores nothing. The guard waits on a pipe whose other end only the app holds; when
that end closes without a farewell, it puts the terminal's modes back and leaves the alternate screen.
"""

import os
import signal
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

_FAREWELL: Final = b"q"
_RESTORE: Final = (
    b"\x1b[?2004l"  # bracketed paste off
    b"\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?1016l"  # mouse off
    b"\x1b[?1004l\x1b[?2048l"  # reports of focus and size off
    b"\x1b[<u"  # plain keys
    b"\x1b[?7h\x1b[?25h"  # wrapped lines, visible cursor
    b"\x1b[?1049l\x1b[0m"  # the screen from before
)


@contextmanager
def guarded_terminal() -> Iterator[None]:
    """Restore the terminal should this process be killed inside. The main thread, before any other is started."""
    if not os.isatty(0):
        yield
        return
    modes = termios.tcgetattr(0)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        _watch(reading, modes)
    os.close(reading)
    try:
        yield
    finally:
        with suppress(OSError):
            os.write(writing, _FAREWELL)
        os.close(writing)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


def _watch(reading: int, modes: list[Any]) -> None:
    """Wait for the end of the parent, and restore what it left. Ends this process."""
    try:
        # In a session of its own neither the terminal's signals nor a kill of the whole group reach it.
        os.setsid()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGTTOU):
            signal.signal(number, signal.SIG_IGN)
        if os.read(reading, 1) != _FAREWELL:
            with suppress(termios.error):
                termios.tcsetattr(0, termios.TCSANOW, modes)
            os.write(1, _RESTORE)
    except OSError:
        pass  # the terminal is gone as well
    finally:
        os._exit(0)
