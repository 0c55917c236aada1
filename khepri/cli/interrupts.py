"""When an interrupt may come.

An interrupt that meets the main thread in an import can become any other error, be printed and lost, or leave the
import lock taken for ever, so that every thread that imports later stands still. It waits, therefore, while modules are
loaded and threads are started. What an interrupt does is not known here.
"""

import signal
from collections.abc import Iterator
from contextlib import contextmanager


def hold() -> None:
    """Let an interrupt wait from here on. The main thread, before it starts others: they inherit it."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})


def admit() -> None:
    """Let an interrupt come from here on; one that has waited comes at once. The main thread."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


@contextmanager
def admitted() -> Iterator[None]:
    """Let an interrupt come in between, where it is held otherwise. The main thread."""
    admit()
    try:
        yield
    finally:
        hold()
