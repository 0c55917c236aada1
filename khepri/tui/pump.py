"""From what has happened to what is seen: thirty times a second, and only while something happens.

Events come in bursts; the pieces of an answer that came since the last look are shown together.
"""

from collections.abc import Callable, Sequence

from khepri.agent.events import (
    AnswerDelta,
    ChangesApplied,
    CheckFinished,
    CheckStarted,
    Compacted,
    Compacting,
    Event,
    Finished,
    ModelLoading,
    Notice,
    PlanMade,
    PrefillProgress,
    ReviewRequested,
    StepFinished,
    StepStarted,
    Thinking,
    ToolFinished,
    ToolStarted,
)
from khepri.agent.words import (
    describe_acceptance,
    describe_call,
    describe_changes,
    describe_check,
    describe_compacted,
    describe_compacting,
    describe_cut,
    describe_end,
    describe_error,
    describe_outcome,
    describe_seconds,
    describe_speed,
    summarize,
)
from khepri.edits.review import Review
from khepri.errors import CancelledError
from khepri.repo.text import counted
from khepri.tui.entries import AnswerEntry, MarkdownEntry, NoteEntry, StepEntry, SummaryEntry
from khepri.tui.paint import Tone
from khepri.tui.turns import Failed
from khepri.tui.widgets.status_bar import StatusBar
from khepri.tui.widgets.transcript import Transcript


class Pump:
    """Shows the events of a turn. The event loop's thread only."""

    def __init__(self, transcript: Transcript, status: StatusBar, ask_about: Callable[[Review], None]) -> None:
        self._transcript = transcript
        self._status = status
        self._ask_about = ask_about
        self._answer: AnswerEntry | None = None
        self._step: StepEntry | None = None
        self._is_summarising = False

    def show(self, happened: Sequence[Event | Failed]) -> None:
        """Show what has happened since the last look."""
        fresh = "".join(event.text for event in happened if isinstance(event, AnswerDelta))
        for event in happened:
            if isinstance(event, AnswerDelta):
                if fresh:
                    self._write(fresh)
                    fresh = ""
                self._show_speed("writing", event)
            else:
                self._show_one(event)

    def _write(self, text: str) -> None:
        if self._answer is None:
            self._answer = AnswerEntry()
            self._answer.append(text)
            self._transcript.add(self._answer)
        else:
            self._answer.append(text)
            self._transcript.changed(self._answer)

    def _show_one(self, event: Event | Failed) -> None:
        match event:
            case ModelLoading(model, doing):
                self._status.change(activity=f"{doing} {model}")
            case PrefillProgress() if event.total_tokens > event.done_tokens:
                self._show_prefill(event)
            case Thinking():
                self._show_speed("summarising" if self._is_summarising else "thinking", event)
            case ToolStarted(_, tool, arguments):
                self._step = StepEntry(describe_call(tool, arguments))
                self._transcript.add(self._step)
                self._status.change(activity=f"{tool} …")
            case ToolFinished():
                self._finish_step(event)
            case Notice(text, is_warning):
                self._transcript.add(NoteEntry(text, Tone.WARNING if is_warning else Tone.NOTE))
            case PlanMade(steps):
                self._transcript.add(
                    MarkdownEntry("\n".join(f"{number}. {text}" for number, text in enumerate(steps, 1)))
                )
            case StepStarted(number, total, text):
                self._status.change(activity=f"{number} of {total}: {text}")
            case StepFinished(number, total, text, is_refused):
                self._transcript.add(
                    NoteEntry(f"{number} of {total}: {text}", Tone.WARNING if is_refused else Tone.STEP)
                )
            case ReviewRequested(review):
                self._status.change(activity="waiting for your review")
                self._ask_about(review)
            case ChangesApplied():
                self._show_work(*describe_changes(event), is_error=False)
            case CheckStarted(command):
                self._status.change(activity=f"checking: {command}")
            case CheckFinished():
                self._show_work(*describe_check(event), is_error=not event.passed)
            case Compacting():
                self._is_summarising = True
                self._transcript.add(NoteEntry(describe_compacting(event)))
                self._status.change(activity="summarising")
            case Compacted():
                self._is_summarising = False
                self._transcript.add(SummaryEntry(event.summary))
                self._transcript.add(NoteEntry(describe_compacted(event)))
            case Finished():
                self._finish(event)
            case Failed(error):
                self._fail(error)
            case _:
                pass

    def _show_work(self, title: str, outcome: str, text: str, *, is_error: bool) -> None:
        entry = StepEntry(title)
        entry.finish(outcome, text, is_error=is_error)
        self._transcript.add(entry)

    def _show_prefill(self, event: PrefillProgress) -> None:
        left = event.total_tokens - event.done_tokens
        share = (event.done_tokens - event.cached_tokens) / max(1, event.total_tokens - event.cached_tokens)
        seconds = f", {describe_seconds(left / event.tokens_per_s)} left" if event.tokens_per_s else ""
        self._status.change(
            activity=f"reading {share:.0%} of {event.total_tokens - event.cached_tokens:,} tokens{seconds}",
            context_tokens=event.total_tokens,
            cache=f"{event.cached_tokens:,}/{event.total_tokens:,} cached",
        )

    def _show_speed(self, activity: str, event: Thinking | AnswerDelta) -> None:
        acceptance = describe_acceptance(event.acceptance_rate)
        gamma = f", gamma {event.gamma}" if event.acceptance_rate is not None else ""
        speed = f"{event.tokens_per_s:.1f} tokens/s ({acceptance}{gamma})" if event.tokens_per_s else ""
        self._status.change(
            activity=f"{activity}, {counted(event.tokens, 'token')}",
            speed=speed,
            context_tokens=event.context_tokens or self._status.status.context_tokens,
        )

    def _finish_step(self, event: ToolFinished) -> None:
        if self._step is None:
            return
        self._step.finish(describe_outcome(event), event.text, is_error=event.is_error)
        self._transcript.changed(self._step)
        self._step = None

    def _finish(self, event: Finished) -> None:
        if cut := describe_cut(event.stop_reason):
            self._transcript.add(NoteEntry(cut, Tone.WARNING))
        if event.stop_reason == "compacted":
            self._end()
            return
        if event.report is not None:
            self._transcript.add(NoteEntry(describe_end(event.report.outcome)))
        self._transcript.add(NoteEntry(summarize(event)))
        usage, timing = event.usage, event.timing
        self._end()
        self._status.change(
            speed=describe_speed(timing.decode_tokens_per_s, timing.acceptance_rate),
            cache=f"{usage.cached_tokens:,}/{usage.prompt_tokens:,} cached",
        )

    def _fail(self, error: BaseException) -> None:
        if isinstance(error, CancelledError):
            self._transcript.add(NoteEntry("stopped", Tone.WARNING))
        else:
            message, hint = describe_error(error)
            self._transcript.add(NoteEntry(f"{message}\n{hint}" if hint else message, Tone.ERROR))
        self._end()

    def _end(self) -> None:
        self._answer = None
        self._step = None
        self._is_summarising = False
        self._status.change(activity="")
