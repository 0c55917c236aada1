"""A question and its way to an answer, as those see it who ask.

How an answer comes about is not known here, so that a screen can be drawn before anything heavy is loaded.
"""

import queue
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from khepri.agent.events import Event, Finished
from khepri.errors import CancelledError

_PATIENCE_S = 0.1


class Cancellable(Protocol):
    """What does the work of a task."""

    def cancel(self) -> None:
        """Stop within 300 ms. Any thread."""


@dataclass(frozen=True)
class Attachment:
    """A text that belongs to a question."""

    name: str
    """What the model is told it is: a path, or ``stdin``."""
    text: str


@dataclass(frozen=True)
class Question:
    """What the user asks."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    mentions: tuple[str, ...] = ()
    """What of the repository to look at first, as ``path`` or ``path#symbol``, or as a message names it."""


@dataclass(frozen=True)
class Exchange:
    """A question and its answer, as far as a later turn needs them."""

    question: str
    answer: str
    files: tuple[str, ...]
    """Paths that the steps looked at."""


@dataclass(frozen=True)
class Instruction:
    """What the user wants to have changed."""

    text: str
    attachments: tuple[Attachment, ...] = ()
    targets: tuple[str, ...] = ()
    """What is to be written anew, as ``path`` or ``path:Symbol``; without it the model plans."""
    checks: tuple[str, ...] = ()
    """Commands that tell whether the change is good; they run before it and after it."""
    is_approved: bool = False
    """True writes without asking, where no rule forbids it."""
    is_dry_run: bool = False
    """True writes nothing and asks nothing."""


class Task:
    """One question on its way to an answer. ``events`` is for one reader; ``cancel`` for any thread.

    Args:
        witness: Gets each event, on the task's thread, before the reader does.
    """

    def __init__(self, witness: Callable[[Event | BaseException], None] = lambda event: None) -> None:
        self._witness = witness
        self._events: queue.SimpleQueue[Event | BaseException] = queue.SimpleQueue()
        self._outcome: Event | BaseException | None = None
        self._loop: Cancellable | None = None
        self._cancelled = threading.Event()

    def events(self) -> Iterator[Event]:
        """Yield what happens until ``Finished``, which is the last event.

        May be called again after an interrupt: the outcome is never lost with the event that carried it.

        Raises:
            KhepriError: The task failed; everything of ``khepri.errors`` but ``ToolError`` can come.
        """
        while True:
            event = self._next()
            if isinstance(event, BaseException):
                raise event
            yield event
            if isinstance(event, Finished):
                return

    def poll(self) -> list[Event]:
        """Return what has happened since the last look, without waiting; for a reader that must never stand still.

        Raises:
            KhepriError: The task failed, and all that happened before has been returned.
        """
        happened: list[Event] = []
        while True:
            try:
                event = self._events.get_nowait()
            except queue.Empty:
                return happened
            if isinstance(event, BaseException):
                if happened:
                    self._events.put(event)  # it is the last one: nothing can be overtaken
                    return happened
                raise event
            happened.append(event)

    def _next(self) -> Event | BaseException:
        while True:
            try:
                return self._events.get(timeout=_PATIENCE_S)
            except queue.Empty:
                if self._outcome is not None:
                    return self._outcome

    def cancel(self) -> None:
        """Stop within 300 ms; the task ends with ``Finished`` or, before its first pass, with ``CancelledError``."""
        self._cancelled.set()
        if self._loop is not None:
            self._loop.cancel()

    def emit(self, event: Event | BaseException) -> None:
        """Hand an event or the failure to the reader. The task's thread only."""
        try:
            self._witness(event)
        finally:  # whatever becomes of its record, the reader waits for it
            if isinstance(event, Finished | BaseException):
                self._outcome = event
            self._events.put(event)

    def check(self) -> None:
        """Give up if the task was cancelled. The task's thread only.

        Raises:
            CancelledError: It was.
        """
        if self._cancelled.is_set():
            raise CancelledError("interrupted")

    def attach(self, loop: Cancellable) -> None:
        """Name the loop that ``cancel`` reaches. The task's thread only."""
        self._loop = loop
        if self._cancelled.is_set():
            loop.cancel()
