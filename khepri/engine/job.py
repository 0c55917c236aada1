"""One request on its way through the worker: what its caller polls, waits for and cancels. Nothing is run here."""

import threading
from collections.abc import Callable

from khepri.engine.buffer import JobState, TokenBuffer
from khepri.engine.request import Generation, Request


class Job:
    """One submitted request. ``buffer`` is for polling, ``result`` for waiting; any thread."""

    def __init__(self, request: Request, cancel: Callable[["Job"], None]) -> None:
        self.request = request
        self.buffer = TokenBuffer()
        self.cancel_requested = threading.Event()
        self._cancel = cancel
        self._done = threading.Event()
        self._generation: Generation | None = None
        self._error: BaseException | None = None

    def cancel(self) -> None:
        """Stop the job within 300 ms; it then ends with ``StopReason.CANCELLED`` and what it had."""
        self._cancel(self)

    @property
    def is_done(self) -> bool:
        """True once ``result`` will not wait."""
        return self._done.is_set()

    def wait(self, timeout_s: float) -> bool:
        """Wait at most ``timeout_s`` seconds for the end; True if it has come."""
        return self._done.wait(timeout_s)

    def result(self) -> Generation:
        """Wait for the end and return what was generated.

        Raises:
            ContextFullError: The prompt leaves no room for an answer.
            DecodeError: The backend failed.
            KhepriError: The engine was closed before the job was done.
        """
        self._done.wait()
        if self._error is not None:
            raise self._error
        assert self._generation is not None
        return self._generation

    def finish(self, generation: Generation | None, error: BaseException | None = None) -> None:
        """Set the outcome. For whoever has the job: the worker's thread, or who takes it out of the queue."""
        self.buffer.publish(state=JobState.DONE)
        self._generation = generation
        self._error = error
        self._done.set()
