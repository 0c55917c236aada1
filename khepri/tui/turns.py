"""Whose turn it is: the messages that wait, the one that is being answered, and what has happened of it.

No widget is known here; the app asks thirty times a second.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from khepri.agent.events import Event, Finished
from khepri.agent.task import Question, Task


@dataclass(frozen=True)
class Failed:
    """A turn ended with an error."""

    error: BaseException


class Turns:
    """One question at a time, in order. The event loop's thread only; nothing here waits."""

    def __init__(self) -> None:
        self._submit: Callable[[Question], Task] | None = None
        self._waiting: deque[Question] = deque()
        self._task: Task | None = None

    @property
    def is_busy(self) -> bool:
        """True while a question is being answered."""
        return self._task is not None

    @property
    def waiting(self) -> tuple[Question, ...]:
        """Questions that have not begun."""
        return tuple(self._waiting)

    def serve_with(self, submit: Callable[[Question], Task] | None) -> None:
        """Set who answers; None makes questions wait."""
        self._submit = submit

    def ask(self, question: Question) -> None:
        """Put a question at the end of the line."""
        self._waiting.append(question)

    def take_back(self) -> tuple[Question, ...]:
        """Return the questions that wait, and let none of them wait any more."""
        taken = tuple(self._waiting)
        self._waiting.clear()
        return taken

    def begin_next(self) -> Question | None:
        """Begin with the next question if there is one and nothing is in its way; return it."""
        if self._task is not None or self._submit is None or not self._waiting:
            return None
        question = self._waiting.popleft()
        self._task = self._submit(question)
        return question

    def watch(self, task: Task) -> None:
        """Follow a task that is no question, such as a compaction, until its end."""
        assert self._task is None, "one task at a time"
        self._task = task

    def stop(self) -> bool:
        """Stop the question that is being answered; False if there is none."""
        if self._task is None:
            return False
        self._task.cancel()
        return True

    def poll(self) -> list[Event | Failed]:
        """Return what has happened since the last look."""
        if self._task is None:
            return []
        try:
            happened: list[Event | Failed] = [*self._task.poll()]
        except Exception as error:  # whatever ended the task is shown, and the next one may begin
            self._task = None
            return [Failed(error)]
        if happened and isinstance(happened[-1], Finished):
            self._task = None
        return happened
