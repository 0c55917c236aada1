"""Plan, act, observe: the loop that takes a question to an answer.

``AgentLoop.run`` is the whole of it. It appends to the prompt, asks the engine, runs tools and emits events; it renders
nothing and reads no files itself. It runs on one thread; ``cancel`` may be called from any.
"""

import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from khepri import assets
from khepri.agent.events import (
    AnswerDelta,
    Event,
    Finished,
    Notice,
    Thinking,
    ToolFinished,
    ToolStarted,
)
from khepri.agent.generation import figures, prefill_progress
from khepri.agent.guards import CallGuard, repeats_itself
from khepri.agent.language import ENGLISH, language_of
from khepri.agent.looks import why_unseen
from khepri.agent.metrics import draft_figures, summarize
from khepri.agent.prompt import Prompt
from khepri.agent.protocol import TRIGGER, ToolCall, opening_grammar, parse
from khepri.agent.reply import PREFACE_TOKENS, Reply
from khepri.engine.buffer import JobState, Snapshot
from khepri.engine.job import Job
from khepri.engine.request import DraftMode, Generation, Request, SamplingParams, StopReason, ToolCallGrammar
from khepri.engine.worker import EngineWorker
from khepri.errors import ContextFullError, StepLimitError
from khepri.repo.text import counted
from khepri.tools.base import Observation, ToolContext
from khepri.tools.registry import Registry

_POLL_S = 1 / 30
_CALL_TOKENS = 160
_LEAST_ANSWER_TOKENS = 64
_LEAST_OBSERVATION_TOKENS = 48
_LEAST_LOOK_TOKENS = 96
"""With less than that for each, fewer files are looked at: the beginnings of several say less than a part of one."""
_ANSWER_SHARE = 8
"""At most this part of the context is kept for the answer when something is looked at."""
_REPEATED_CHARS = 300
_MOST_REFUSALS = 1


@dataclass(frozen=True)
class LoopSettings:
    """What bounds one task."""

    steps: int
    """Most tool calls; 0 answers without tools."""
    max_tokens: int
    """Most tokens of the answer."""
    observation_tokens: int
    """Most tokens of one observation."""
    sampling: SamplingParams
    """How tokens are chosen."""
    draft: DraftMode = DraftMode.SUFFIX
    """Who may propose tokens."""
    gamma: int | None = None
    """Proposed tokens verified in one pass; None chooses at every step."""


@dataclass
class _Progress:
    """What the task has come to so far."""

    steps: list[ToolFinished] = field(default_factory=list)
    generations: list[Generation] = field(default_factory=list)
    answer_started_s: float | None = None
    notices: list[str] = field(default_factory=list)


class AgentLoop:
    """One conversation with the model and its tools; each ``run`` is one task in it."""

    def __init__(
        self,
        engine: EngineWorker,
        prompt: Prompt,
        registry: Registry,
        context: ToolContext,
        grammar: str,
        settings: LoopSettings,
        question: str,
        emit: Callable[[Event], None],
    ) -> None:
        self._engine = engine
        self._prompt = prompt
        self._registry = registry
        self._context = context
        self._grammar = grammar
        self._settings = settings
        self._question = _shortened(question)
        self._language = language_of(question)
        self._emit = emit
        self._cancelled = threading.Event()
        self._job: Job | None = None
        self._guard = CallGuard()
        self._cited: dict[str, None] = {}
        self._tool_names = [manifest.name for manifest in registry.manifests]
        self._reminder_tokens = prompt.follow_cost(self._reminder("reminder.md", self._question))

    def run(
        self, looks: Sequence[ToolCall], model: str, started_s: float, load_ms: float, *, untold: str = ""
    ) -> Finished:
        """Take the conversation, whose last message is the question, to an answer.

        Args:
            looks: Calls that are made before the model is asked, so that it never answers from the map alone; no
                more of them than there are steps.
            model: Name of the model, for the result.
            started_s: When the user asked, on ``time.perf_counter``'s scale.
            load_ms: What the load of the model took.
            untold: The question, if the last message does not hold it: it then follows what the looks show.

        Raises:
            ContextFullError: The question does not fit into the context.
            StepLimitError: The model has not answered although it was told to.
            ModelError: The engine failed.
        """
        progress = _Progress()
        self._begin(looks, untold, progress)
        answer, stop_reason = self._converse(progress)
        usage, timing = summarize(progress.generations, progress.answer_started_s, started_s, load_ms)
        steps, notices, drafts = tuple(progress.steps), tuple(progress.notices), draft_figures(progress.generations)
        return Finished(answer, steps, usage, timing, model, stop_reason, notices, drafts=drafts)

    def foretell(self, looks: Sequence[ToolCall], untold: str) -> None:
        """Append to the prompt what ``run`` appends before the model is asked; the engine is not asked for anything."""
        self._begin(looks, untold, _Progress())

    def cancel(self) -> None:
        """Stop the task; ``run`` then returns what it has, with the stop reason ``interrupted``. Any thread."""
        self._cancelled.set()
        job = self._job
        if job is not None:
            job.cancel()

    def _converse(self, progress: _Progress) -> tuple[str, str]:
        """Return the answer and why it ended."""
        while True:
            reply = self._act(progress)
            text = reply.text.strip()
            if reply.call is not None:
                self._observe(reply.call, progress)
            elif reply.is_cut_call:
                self._guard.refusals += 1
                self._prompt.follow(self._observation_message([], self._question, progress))
            elif text or reply.was_interrupted:
                return text, reply.stop_reason
            else:
                raise self._no_answer(progress)

    def _act(self, progress: _Progress) -> Reply:
        """Let the model write one turn: a call, or an answer that is emitted as it comes."""
        may_call = self._may_call(progress)
        if not self._cited or not self._language.opening:
            window = PREFACE_TOKENS if may_call else 0
            grammar = ToolCallGrammar(TRIGGER, self._grammar, window) if self._tool_names else None
            return self._write(Reply(may_call), grammar, self._settings.max_tokens, progress)
        call_grammar = self._grammar if may_call else ""
        opening_rules = opening_grammar(call_grammar, tuple(self._cited), self._language)
        forced = ToolCallGrammar(TRIGGER, opening_rules, 0, forced=True)
        opening = self._write(Reply(may_call), forced, max(_CALL_TOKENS, self._settings.max_tokens), progress)
        if (
            opening.was_interrupted
            or opening.call is not None
            or opening.generation.stop_reason is not StopReason.TOOL_CALL
        ):
            return opening
        left = self._settings.max_tokens - len(opening.generation.tokens)
        if left < 1:
            opening.stop_reason = "max_tokens"
            return opening
        rest = Reply(may_call=False, text=opening.text, emitted=opening.emitted)
        answer = self._write(rest, ToolCallGrammar(TRIGGER, self._grammar, 0), left, progress)
        if answer.stop_reason == "answered" and not answer.text.removeprefix(opening.text).strip():
            raise self._no_answer(progress)
        return answer

    def _write(self, reply: Reply, grammar: ToolCallGrammar | None, max_tokens: int, progress: _Progress) -> Reply:
        """Generate what comes next in the assistant's turn and append it to the prompt."""
        if self._cancelled.is_set():
            reply.stop_reason = "interrupted"
            return reply
        if self._room() < 2:
            raise self._context_full(len(self._prompt) + _LEAST_ANSWER_TOKENS)
        settings = self._settings
        most = min(max_tokens, self._room())
        request = Request(
            self._prompt.ids,
            most,
            settings.sampling,
            grammar,
            settings.draft,
            settings.gamma,
            self._prompt.stable_tokens,
        )
        self._job = job = self._engine.submit(request)
        if self._cancelled.is_set():
            job.cancel()
        self._follow(job, reply, progress)
        reply.generation = job.result()
        self._job = None
        self._prompt.reply(reply.generation.tokens)
        progress.generations.append(reply.generation)
        self._close(reply, progress)
        return reply

    def _follow(self, job: Job, reply: Reply, progress: _Progress) -> None:
        """Watch a job to its end: emit progress and decided text, stop it when it goes in circles."""
        cursor = 0
        while True:
            done = job.wait(_POLL_S)
            snapshot = job.buffer.snapshot
            piece, cursor = job.buffer.read(cursor)
            reply.text += piece
            if snapshot.state is JobState.PREFILL:
                self._emit(prefill_progress(snapshot))
            elif piece:
                self._emit_text(reply, snapshot, progress)
                if not reply.is_looping and repeats_itself(reply.text):
                    reply.is_looping = True
                    job.cancel()
            if done:
                return

    def _emit_text(self, reply: Reply, snapshot: Snapshot, progress: _Progress) -> None:
        if reply.is_undecided(snapshot.completion_tokens):
            self._emit(Thinking(reply.text, snapshot.completion_tokens, *figures(snapshot)))
            return
        if progress.answer_started_s is None:
            progress.answer_started_s = time.perf_counter()
        fresh = reply.take_fresh()
        if fresh:
            self._emit(AnswerDelta(fresh, snapshot.completion_tokens, *figures(snapshot)))

    def _close(self, reply: Reply, progress: _Progress) -> None:
        """Decide what a finished turn is, and emit what was held back of an answer."""
        reason = reply.generation.stop_reason
        is_whole = reason in (StopReason.END, StopReason.TOOL_CALL)
        if reply.is_looping:
            reply.stop_reason = "loop"
            self._notice("the model began to repeat itself and was stopped", progress)
        elif reason is StopReason.CANCELLED:
            reply.stop_reason = "interrupted"
        elif reason is StopReason.CONTEXT_FULL or (reason is StopReason.MAX_TOKENS and self._room() < 2):
            reply.stop_reason = "context_full"
        elif reason is StopReason.MAX_TOKENS:
            reply.stop_reason = "max_tokens"
        if reason is not StopReason.CANCELLED and reply.is_undecided(0):
            reply.call = parse(reply.text, self._tool_names)
        if reply.call is not None and not reply.may_call:
            raise self._no_answer(progress)
        if not is_whole and reply.call is None and reply.has_begun_call(self._tool_names):
            reply.is_cut_call = not reply.was_interrupted
            reply.text = ""
        if reply.call is None:
            fresh = reply.take_fresh()
            if fresh.strip():
                progress.answer_started_s = progress.answer_started_s or time.perf_counter()
                self._emit(AnswerDelta(fresh, len(reply.generation.tokens), 0.0))

    def _begin(self, looks: Sequence[ToolCall], untold: str, progress: _Progress) -> None:
        question = untold or self._question
        reminder_tokens = self._prompt.follow_cost(self._reminder("reminder.md", question))
        calls = looks[: self._most_looks(reminder_tokens)] if looks else looks
        # What names no lines was named by the user, and not only found for the question.
        unseen = [str(call.arguments["path"]) for call in looks[len(calls) :] if "start" not in call.arguments]
        if unseen:
            settings, room = self._settings, self._room_to_look(reminder_tokens)
            why = why_unseen(len(calls), settings.steps, settings.observation_tokens, room)
            self._notice(f"not looked at: {', '.join(unseen)}; {why}", progress)
        if calls:
            self._look(calls, question, reminder_tokens, progress)
        elif untold:
            self._prompt.follow(untold)

    def _most_looks(self, reminder_tokens: int) -> int:
        """Return how many calls can be made at once: one if there is room at all, more while each shows enough."""
        if not self._has_room_for_call(reminder_tokens):
            return 0
        shown = max(1, self._observation_budget(reminder_tokens) // _LEAST_LOOK_TOKENS)
        return min(self._settings.steps, shown)

    def _look(self, calls: Sequence[ToolCall], question: str, reminder_tokens: int, progress: _Progress) -> None:
        """Make several calls in the model's name, which share the budget of one observation."""
        for call in calls:
            self._prompt.write_call(json.dumps({"name": call.name, "arguments": dict(call.arguments)}))
        budget = self._observation_budget(reminder_tokens) // len(calls)
        observations = [self._run_tool(call, budget, progress) for call in calls]
        self._prompt.follow(self._observation_message(observations, question, progress))

    def _observe(self, call: ToolCall, progress: _Progress) -> None:
        """Make the model's call and append what it shows to the prompt."""
        observation = self._run_tool(call, self._observation_budget(self._reminder_tokens), progress)
        self._prompt.follow(self._observation_message([observation], self._question, progress))

    def _run_tool(self, call: ToolCall, budget_tokens: int, progress: _Progress) -> Observation:
        step = len(progress.steps) + 1
        self._emit(ToolStarted(step, call.name, call.arguments))
        started_s = time.perf_counter()
        self._context.budget_tokens = budget_tokens
        if self._guard.admits(call):
            observation = self._registry.run(self._context, call.name, call.arguments)
        else:
            text = assets.render_prompt("repeated_call.md").strip()
            observation = Observation(text, self._prompt.count_tokens(text), "the same call again", is_error=True)
        finished = ToolFinished(
            step,
            call.name,
            call.arguments,
            observation.summary,
            observation.tokens,
            (time.perf_counter() - started_s) * 1000,
            observation.is_error,
            observation.text,
        )
        progress.steps.append(finished)
        if not observation.is_error:
            self._cited.update(dict.fromkeys(observation.paths))
        self._emit(finished)
        return observation

    def _observation_message(self, observations: Sequence[Observation], question: str, progress: _Progress) -> str:
        parts = [assets.render_prompt("observation.md", text=each.text).strip() for each in observations]
        reminder = "reminder.md" if self._may_call(progress) else "answer_now.md"
        parts.append(self._reminder(reminder, question).rstrip())
        return "\n".join(parts)

    def _reminder(self, name: str, question: str) -> str:
        is_english = self._language is ENGLISH
        language = "" if is_english else assets.render_prompt("in_language.md", language=self._language.name).rstrip()
        return assets.render_prompt(name, question=question, language=language)

    def _may_call(self, progress: _Progress) -> bool:
        """True while another call is within the steps, has room, and the model is not going in circles."""
        has_steps = len(progress.steps) < self._settings.steps and self._guard.refusals < _MOST_REFUSALS
        return has_steps and bool(self._tool_names) and self._has_room_for_call(self._reminder_tokens)

    def _room(self) -> int:
        """Return how many tokens the context still holds."""
        return self._engine.backend.capabilities.context_tokens - len(self._prompt)

    def _observation_budget(self, reminder_tokens: int) -> int:
        room = self._room_to_look(reminder_tokens)
        return max(_LEAST_OBSERVATION_TOKENS, min(self._settings.observation_tokens, room))

    def _room_to_look(self, reminder_tokens: int) -> int:
        """Return how many tokens the context holds of what a look shows, beside what comes after it."""
        answer = min(self._settings.max_tokens // 2, self._engine.backend.capabilities.context_tokens // _ANSWER_SHARE)
        reserve = _CALL_TOKENS + reminder_tokens + max(_LEAST_ANSWER_TOKENS, answer)
        return self._room() - reserve

    def _has_room_for_call(self, reminder_tokens: int) -> bool:
        least = 2 * _CALL_TOKENS + _LEAST_OBSERVATION_TOKENS + reminder_tokens + _LEAST_ANSWER_TOKENS
        return self._room() > least

    def _no_answer(self, progress: _Progress) -> StepLimitError:
        taken = len(progress.steps)
        more = ", or allow more --steps" if taken >= self._settings.steps > 0 else ""
        return StepLimitError(
            f"the model has no answer after {counted(taken, 'step')}",
            f"ask a narrower question, name a file with --file{more}, or take a larger model with --model",
        )

    def _context_full(self, needed: int) -> ContextFullError:
        room = self._engine.backend.capabilities.context_tokens
        return ContextFullError(
            f"this needs {needed} tokens and the context holds {room}",
            "ask about less at once, or raise context_tokens",
            needed_tokens=needed,
            context_tokens=room,
        )

    def _notice(self, text: str, progress: _Progress) -> None:
        progress.notices.append(text)
        self._emit(Notice(text, is_warning=True))


def _shortened(question: str) -> str:
    """Return the question as it is repeated after observations, where a long one would only cost."""
    return question if len(question) <= _REPEATED_CHARS else f"{question[:_REPEATED_CHARS]}…"
