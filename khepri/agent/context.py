"""What the model has been told: the prompt, what it goes on from, and when it has to be summarised.

A session that is resumed goes on with the very ids from before; what no ids exist for is told again as text. Which
files are looked at and how an answer comes about is not known here.
"""

from collections.abc import Callable, Sequence

from khepri.agent.compact import NO_SUMMARY, Compaction, most_summary_tokens, told_again
from khepri.agent.events import Compacted, Notice
from khepri.agent.history import History, Turn
from khepri.agent.preamble import Preamble
from khepri.agent.prompt import Prompt
from khepri.agent.task import Task
from khepri.engine.worker import EngineWorker
from khepri.errors import ContextFullError

_LEAST_ANSWER_TOKENS = 64
_NO_ANSWER = "(no answer)"


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

    def add(self, task: Task, message: str, past: Sequence[Turn]) -> Prompt:
        """Tell the model a message and return the prompt that ends with it.

        Args:
            task: Hears of it.
            message: What the user says.
            past: The turns before this one.

        Raises:
            ContextFullError: It does not fit, whatever is summarised.
            CancelledError: The task was cancelled.
            ModelError: The engine failed.
        """
        self.notices = ()
        self._forget_strange_ids()
        if self._prompt is not None:
            needed = len(self._prompt) + self._prompt.follow_cost(message)
            if past and needed + self._room_to_work() > self._room():
                self.compact(task, past)
            else:
                self._check_room(needed)
                self._prompt.follow(message)
        if self._prompt is None:
            self._prompt = self._opened(task, message, past)
        return self._prompt

    def foretell(self, message: str) -> Prompt:
        """Return the prompt as it would be if a message were told now; nothing is told by it."""
        self._forget_strange_ids()
        prompt = Prompt(self._engine.vocabulary)
        told = self.ids or self._history.prompt
        if told:
            prompt.restore(told, self.stable_tokens or self._history.stable_tokens)
            prompt.follow(message)
        else:
            prompt.open(self._make_preamble(prompt.count_tokens).text, self._history.summary + message)
        return prompt

    def compact(self, task: Task, past: Sequence[Turn]) -> None:
        """Summarise what has been told, so that the next message goes on from the summary.

        Raises:
            CancelledError: The task was cancelled; nothing has changed.
            ModelError: The engine failed.
        """
        self._forget_strange_ids()
        exchanges = [turn.as_exchange() for turn in past]
        prompt = self._prompt
        if prompt is None:
            prompt = Prompt(self._engine.vocabulary)
            prompt.restore(self._history.prompt, self._history.stable_tokens)
        compaction = Compaction(self._engine, task.emit)
        task.attach(compaction)
        compaction.run(prompt, exchanges)
        self._prompt = None

    def _forget_strange_ids(self) -> None:
        """Tell everything anew if the history's ids cannot be this model's, as in a damaged file."""
        ids = self._history.prompt
        if ids and not 0 <= min(ids) <= max(ids) < self._engine.vocabulary.size:
            self._history.forget_prompt()

    def _opened(self, task: Task, message: str, past: Sequence[Turn]) -> Prompt:
        prompt = Prompt(self._engine.vocabulary)
        untold = [turn for turn in past if not turn.is_in_prompt]
        if self._history.prompt:
            prompt.restore(self._history.prompt, self._history.stable_tokens)
            self._tell(prompt, message, untold)
            if len(prompt) + self._room_to_work() <= self._room():
                return prompt
            self.compact(task, past)
            prompt, untold = Prompt(self._engine.vocabulary), []
        preamble = self._make_preamble(prompt.count_tokens)
        self.notices = preamble.notices
        for text in preamble.notices:
            task.emit(Notice(text, is_warning=True))
        task.check()
        self._tell(prompt, message, untold, preamble.text)
        if untold and len(prompt) + self._room_to_work() > self._room():
            exchanges = [turn.as_exchange() for turn in past]
            told = told_again(NO_SUMMARY, exchanges, prompt.count_tokens, most_summary_tokens(self._room()))
            task.emit(Compacted(told, len(exchanges), len(prompt), prompt.count_tokens(told)))
            prompt = Prompt(self._engine.vocabulary)
            self._tell(prompt, message, [], preamble.text)
        self._check_room(len(prompt))
        return prompt

    def _tell(self, prompt: Prompt, message: str, untold: Sequence[Turn], preamble: str | None = None) -> None:
        """Tell the turns that the ids do not contain, and the message after them."""
        said = [*(turn.question.text for turn in untold), message]
        if preamble is None:
            prompt.follow(said[0])
        else:
            prompt.open(preamble, self._history.summary + said[0])
        for turn, text in zip(untold, said[1:], strict=True):
            prompt.say(turn.answer or _NO_ANSWER)
            prompt.follow(text)

    def _room(self) -> int:
        return self._engine.backend.capabilities.context_tokens

    def _room_to_work(self) -> int:
        return min(self._working_tokens, self._room() // 4)

    def _check_room(self, tokens: int) -> None:
        room = self._room()
        if tokens + _LEAST_ANSWER_TOKENS > room:
            raise ContextFullError(
                f"the question needs {tokens} tokens with its preamble and leaves no room for an answer: "
                f"the context holds {room}",
                "ask about less at once, or raise context_tokens",
                needed_tokens=tokens + _LEAST_ANSWER_TOKENS,
                context_tokens=room,
            )
