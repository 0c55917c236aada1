"""Work beside the event loop, on threads that nobody waits for when the app ends."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from textual.app import App

T = TypeVar("T")


def run_aside(
    app: App[int], work: Callable[[], T], then: Callable[[T], object], failed: Callable[[BaseException], object]
) -> None:
    """Do something that takes a while, and go on in the event loop with what came of it.

    Whatever goes wrong goes to ``failed``. Neither is called once the app has ended.
    """

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # a thread that dies silently would leave the user waiting
            tell(failed, error)
        else:
            tell(then, result)

    def tell(handler: Callable[..., object], outcome: object) -> None:
        with suppress(RuntimeError):  # the event loop is closed
            app.call_later(handler, outcome)

    threading.Thread(target=run, name="khepri-aside", daemon=True).start()
