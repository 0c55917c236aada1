"""What the model has been told: the prompt, what it goes on from, and when it has to be summarised.

A session that is resumed goes on with the very ids from before; what no ids exist for is told again as text. Which
files are looked at and how an answer comes about is not known here.
"""

import sys
from collections.abc import Callable, Sequence

from khepri.agent.compact import Compaction, least_told_again
from khepri.agent.events import Notice
from khepri.agent.history import History, Turn
from khepri.agent.preamble import Preamble
from khepri.agent.prompt import Prompt
from khepri.agent.retelling import Opening, tell
from khepri.agent.task import Exchange, Task
from khepri.engine.worker import EngineWorker
from khepri.errors import ContextFullError, UsageError

_LEAST_ANSWER_TOKENS = 64
_SEAM_TOKENS = 4
"""A summary and a message can take so many more together than each by itself."""


class Context:
    """One conversation as the model knows it. The task's thread only, but for ``go_on_with`` between tasks.

    Args:
        engine: Counts tokens and writes summaries.
        make_preamble: Returns the preamble, given a function that counts tokens.
        working_tokens: What steps and an answer need; with less room than that the conversation is summarised.
    """

    def __init__(
        self,
        engine: EngineWorker,
        make_preamble: Callable[[Callable[[str], int]], Preamble],
        working_tokens: int,
    ) -> None:
        self._engine = engine
        self._make_preamble = make_preamble
        self._working_tokens = working_tokens
        self._history = History("")
        self._prompt: Prompt | None = None
        self.notices: tuple[str, ...] = ()
        """What the user should know of the preamble that was made last."""

    @property
    def is_open(self) -> bool:
        """True once something has been told."""
        return self._prompt is not None

    @property
    def ids(self) -> tuple[int, ...]:
        """The prompt's ids; none if nothing has been told yet."""
        return self._prompt.ids if self._prompt is not None else ()

    @property
    def stable_tokens(self) -> int:
        """So many of the ids are the preamble."""
        return self._prompt.stable_tokens if self._prompt is not None else 0

    def go_on_with(self, history: History) -> None:
        """Go on from what a history holds, which may be nothing."""
        self._history = history
        self._prompt = None

    def add(self, task: Task, message: str, past: Sequence[Turn], later: str = "") -> Prompt:
        """Tell the model a message and return the prompt that ends with it.

        Args:
            task: Hears of it.
            message: What the user says.
            past: The turns before this one.
            later: What is told after the message by someone else, and has to fit as well.

        Raises:
            ContextFullError: It does not fit, whatever is summarised; where it is too long by itself nothing was.
            CancelledError: The task was cancelled.
            ModelError: The engine failed.
        """
        self.notices = ()
        self._forget_useless_ids()
        if self._prompt is not None:
            needed = len(self._prompt) + self._prompt.follow_cost(message) + _cost(self._prompt, later)
            if past and needed + self._room_to_work() > self._room():
                self._make_room(task, message, past, later)
            else:
                self._check_room(needed)
                self._prompt.follow(message)
        if self._prompt is None:
            self._prompt = self._opened(task, message, past, later)
        return self._prompt

    def foretell(self, message: str) -> Prompt:
        """Return the prompt as it would be if a message were told now; nothing is told by it."""
        self._forget_useless_ids()
        if self._prompt is not None:
            prompt = self._prompt.fork()
            prompt.follow(message)
            return prompt
        return self._told(message, self._history.untold)

    def compact(self, task: Task, past: Sequence[Turn], most_tokens: int = sys.maxsize) -> None:
        """Summarise what has been told, so that the next message goes on from the summary.

        Args:
            task: Hears of it.
            past: All turns so far.
            most_tokens: What the message leaves for the summary.

        Raises:
            CancelledError: The task was cancelled; nothing has changed.
            ModelError: The engine failed.
        """
        self._forget_useless_ids()
        prompt, untold = self._prompt, list[Exchange]()
        if prompt is None:
            prompt, untold = self._begun(), _untold(past)
        if not len(prompt) and not untold:
            raise UsageError("all that was said is summarised already", "ask something first")
        compaction = Compaction(self._engine, task.emit)
        task.attach(compaction)
        opening = self._opening(prompt) if untold else Opening()
        compaction.run(prompt, opening, [turn.as_exchange() for turn in past], untold, most_tokens)
        self._prompt = None

    def _forget_useless_ids(self) -> None:
        """Tell everything anew if the model cannot read the history's ids: a damaged file, or a smaller context."""
        ids = self._history.prompt
        if ids and (len(ids) > self._room() or not 0 <= min(ids) <= max(ids) < self._engine.vocabulary.size):
            self._history.forget_prompt()

    def _make_room(self, task: Task, message: str, past: Sequence[Turn], later: str) -> None:
        """Summarise what has been told, unless the message would not fit even beside the least of summaries."""
        alone = Prompt(self._engine.vocabulary)
        preamble = self._make_preamble(alone.count_tokens).text
        least = least_told_again([turn.as_exchange() for turn in past], alone.count_tokens)
        beside = alone.fork()
        tell(alone, Opening(preamble), (), message)
        tell(beside, Opening(preamble, least), (), message)
        self._check_room(len(alone) + _cost(alone, later))
        self._check_room(len(beside) + _cost(beside, later), "its preamble and the least summary of the conversation")
        taken = len(alone) + _cost(alone, later) + _LEAST_ANSWER_TOKENS + _SEAM_TOKENS
        self.compact(task, past, self._room() - taken)

    def _opened(self, task: Task, message: str, past: Sequence[Turn], later: str) -> Prompt:
        prompt = self._told(message, past)
        task.check()
        can_be_shorter = bool(self._history.prompt or _untold(past))
        if can_be_shorter and len(prompt) + _cost(prompt, later) + self._room_to_work() > self._room():
            self._make_room(task, message, past, later)
            prompt = self._told(message, past)
        for text in self.notices:
            task.emit(Notice(text, is_warning=True))
        self._check_room(len(prompt) + _cost(prompt, later))
        return prompt

    def _told(self, message: str, past: Sequence[Turn]) -> Prompt:
        """Return a prompt that goes on from the history with the turns that its ids do not contain, and a message."""
        prompt = self._begun()
        opening = Opening() if len(prompt) else self._opening(prompt)
        tell(prompt, opening, _untold(past), message)
        return prompt

    def _begun(self) -> Prompt:
        """Return a prompt of the history's ids, which may be none."""
        prompt = Prompt(self._engine.vocabulary)
        prompt.restore(self._history.prompt, self._history.stable_tokens)
        return prompt

    def _opening(self, prompt: Prompt) -> Opening:
        preamble = self._make_preamble(prompt.count_tokens)
        self.notices = preamble.notices
        return Opening(preamble.text, self._history.summary.text)

    def _room(self) -> int:
        return self._engine.backend.capabilities.context_tokens

    def _room_to_work(self) -> int:
        return min(self._working_tokens, self._room() // 4)

    def _check_room(self, tokens: int, beside: str = "its preamble") -> None:
        room = self._room()
        if tokens + _LEAST_ANSWER_TOKENS > room:
            raise ContextFullError(
                f"the question needs {tokens} tokens with {beside} and leaves no room for an answer: "
                f"the context holds {room}",
                "ask about less at once, or raise context_tokens",
                needed_tokens=tokens + _LEAST_ANSWER_TOKENS,
                context_tokens=room,
            )


def _cost(prompt: Prompt, later: str) -> int:
    return prompt.follow_cost(later) if later else 0


def _untold(past: Sequence[Turn]) -> list[Exchange]:
    return [turn.as_exchange() for turn in past if not turn.is_in_prompt]
