"""Has the engine write one constrained turn while the user sees how far it is."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

from khepri.agent.events import Event, PrefillProgress, Thinking
from khepri.agent.guards import repeats_itself
from khepri.agent.prompt import Prompt
from khepri.agent.protocol import TRIGGER
from khepri.engine.buffer import JobState, Snapshot
from khepri.engine.job import Job
from khepri.engine.request import DraftMode, Generation, Request, SamplingParams, ToolCallGrammar
from khepri.engine.worker import EngineWorker
from khepri.errors import CancelledError, ContextFullError

_POLL_S = 1 / 30
_SEED = 1
_REPEATED_CHARS = 240
_LEAST_ROOM_TOKENS = 64


class Writer:
    """Writes turns that are constrained from their first token on. One thread; ``cancel`` is for any."""

    def __init__(
        self,
        engine: EngineWorker,
        sampling: SamplingParams,
        draft: DraftMode,
        gamma: int | None,
        emit: Callable[[Event], None],
    ) -> None:
        """Prepare.

        Args:
            engine: The engine; need not be loaded yet.
            sampling: How tokens are chosen.
            draft: Who may propose tokens.
            gamma: Proposed tokens verified in one pass; None chooses at every step.
            emit: Told how far a turn is.
        """
        self._engine = engine
        self._sampling = sampling
        self._draft = draft
        self._gamma = gamma
        self._emit = emit
        self._job: Job | None = None
        self.cancelled = threading.Event()
        """Set once ``cancel`` was called."""
        self.generations: list[Generation] = []
        """Every turn that was written, in order."""

    @property
    def is_cancelled(self) -> bool:
        """True once ``cancel`` was called."""
        return self.cancelled.is_set()

    def cancel(self) -> None:
        """Stop what is being written, and refuse everything later."""
        self.cancelled.set()
        job = self._job
        if job is not None:
            job.cancel()

    @property
    def context_tokens(self) -> int:
        """How many tokens a conversation can have. Waits for the load."""
        return self._engine.backend.capabilities.context_tokens

    def write(self, prompt: Prompt, lark: str, max_tokens: int, temperature: float = 0.0, known: str = "") -> str:
        """Continue a prompt within a grammar, append what came to it, and return the text.

        Args:
            prompt: Its last turn is the model's, and open.
            lark: Grammar of the whole turn (llguidance's dialect).
            max_tokens: Most tokens; a turn that is cut off there is returned as it is.
            temperature: The least to choose tokens with; above 0 another try comes out differently.
            known: Text that may be copied; what repeats itself in it is no sign of a model that goes in circles.

        Raises:
            CancelledError: ``cancel`` was called.
            ContextFullError: The context has no room for an answer.
            ModelError: The engine failed.
        """
        room = self._engine.backend.capabilities.context_tokens - len(prompt)
        if room < _LEAST_ROOM_TOKENS:
            raise ContextFullError(
                f"the task needs {len(prompt) + _LEAST_ROOM_TOKENS} tokens and the context holds {len(prompt) + room}",
                "name a smaller piece of code, or raise context_tokens",
                needed_tokens=len(prompt) + _LEAST_ROOM_TOKENS,
                context_tokens=len(prompt) + room,
            )
        self.check()
        grammar = ToolCallGrammar(TRIGGER, lark, 0, forced=True)
        sampling = replace(self._sampling, temperature=max(temperature, self._sampling.temperature))
        if temperature and sampling.seed is None:
            sampling = replace(sampling, seed=_SEED)
        request = Request(
            prompt.ids, min(max_tokens, room), sampling, grammar, self._draft, self._gamma, prompt.stable_tokens
        )
        self._job = job = self._engine.submit(request)
        if self.cancelled.is_set():
            job.cancel()
        for text in followed(job, self._emit):
            if repeats_itself(text) and text[-_REPEATED_CHARS:] not in known:
                job.cancel()
        generation = job.result()
        self._job = None
        self.generations.append(generation)
        self.check()
        prompt.reply(generation.tokens)
        return generation.text

    def check(self) -> None:
        """Give up if ``cancel`` was called.

        Raises:
            CancelledError: It was.
        """
        if self.cancelled.is_set():
            raise CancelledError("interrupted; nothing was written")


def followed(job: Job, emit: Callable[[Event], None]) -> Iterator[str]:
    """Tell how far a job is until it ends, and yield its text so far whenever there is more of it."""
    text, cursor = "", 0
    while True:
        done = job.wait(_POLL_S)
        snapshot = job.buffer.snapshot
        piece, cursor = job.buffer.read(cursor)
        text += piece
        if snapshot.state is JobState.PREFILL:
            emit(prefill_progress(snapshot))
        elif piece:
            emit(Thinking(text, snapshot.completion_tokens, *figures(snapshot)))
            yield text
        if done:
            return


def prefill_progress(snapshot: Snapshot) -> PrefillProgress:
    """Return how far the evaluation of a prompt is."""
    evaluated = snapshot.prefilled_tokens - snapshot.cached_tokens
    per_s = evaluated / snapshot.prefill_s if snapshot.prefill_s else 0.0
    return PrefillProgress(snapshot.prefilled_tokens, snapshot.prompt_tokens, snapshot.cached_tokens, per_s)


def figures(snapshot: Snapshot) -> tuple[float, float | None, int, int]:
    """Return tokens a second, accepted over proposed tokens (None without any), gamma, and tokens in all so far."""
    # The first token comes of the prefill, and what is forced of no pass.
    decoded = max(0, snapshot.completion_tokens - 1 - snapshot.forced_tokens)
    rate = decoded / snapshot.decode_s if snapshot.decode_s else 0.0
    acceptance = snapshot.accepted_tokens / snapshot.drafted_tokens if snapshot.drafted_tokens else None
    return rate, acceptance, snapshot.gamma, snapshot.prompt_tokens + snapshot.completion_tokens
