"""From events to streams: answers to stdout, progress to stderr.

Four renderers share one method: text for a terminal, raw text for a pipe, one JSON object, one JSON event a line.
Progress is shown only on a terminal and leaves nothing behind; warnings are always said.
"""

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Final, Protocol

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from khepri.agent.events import (
    AnswerDelta,
    Event,
    Finished,
    ModelLoading,
    Notice,
    PrefillProgress,
    Thinking,
    ToolFinished,
    ToolStarted,
)
from khepri.agent.words import describe_acceptance, describe_call, summarize
from khepri.cli.markdown_stream import MarkdownStream

_CUT: Final = {
    "max_tokens": "the answer was cut at max_tokens; raise it with --max-tokens",
    "context_full": "the answer was cut because the context is full; ask about less, or raise context_tokens",
}


class Renderer(Protocol):
    """Shows the events of one task."""

    finished: Finished | None
    """The last event, once it has come."""

    def handle(self, event: Event) -> None:
        """Show one event."""

    def close(self) -> None:
        """Leave the terminal as it was. Harmless twice."""


class ProgressLine:
    """What Khepri is doing, in one line of stderr that vanishes; finished steps stay as dim lines.

    On anything but a terminal only warnings are written.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None

    def handle(self, event: Event) -> None:
        """Show one event, if it is one of progress."""
        match event:
            case ModelLoading(model, doing):
                self.show(f"{escape(doing)} {escape(model)}")
            case PrefillProgress(done, total, cached, rate) if total > cached:
                percent = 100 * (done - cached) // (total - cached)
                self.show(f"reading {percent}% of {total - cached:,} tokens · {rate:.0f} tokens/s")
            case Thinking(_, tokens, rate, acceptance):
                self.show(f"thinking · {tokens} tokens · {rate:.1f} tokens/s ({describe_acceptance(acceptance)})")
            case ToolStarted(step, tool, arguments):
                self.show(f"step {step}: {escape(describe_call(tool, arguments))}")
            case ToolFinished():
                if self._console.is_terminal:
                    call = escape(describe_call(event.tool, event.arguments))
                    cost = f"{event.tokens} tokens, {event.duration_ms:.0f} ms"
                    self._console.print(f"[dim]• {call} → {escape(event.summary)} ({cost})[/dim]", highlight=False)
            case Notice(text, is_warning) if is_warning or self._console.is_terminal:
                self._console.print(f"khepri: {escape(text)}", highlight=False, soft_wrap=True)
            case _:
                pass

    def finish(self, finished: Finished) -> None:
        """Show the figures of the task in one line, on a terminal."""
        self.close()
        if self._console.is_terminal:
            self._console.print(f"[dim]{summarize(finished)}[/dim]", highlight=False)

    def close(self) -> None:
        """Take the line away."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def show(self, text: str) -> None:
        """Show what is being done, in the markup of Rich; on a terminal only."""
        if not self._console.is_terminal:
            return
        if self._status is None:
            self._status = self._console.status(text)
            self._status.start()
        self._status.update(text)


class TextRenderer:
    """The answer on stdout as it comes: Markdown on a terminal, raw text in a pipe."""

    def __init__(self, write: Callable[[str], None], end: Callable[[], None], progress: ProgressLine) -> None:
        self.finished: Finished | None = None
        self._write = write
        self._end = end
        self._progress = progress
        self._is_open = False
        self._held: list[Event] = []

    def handle(self, event: Event) -> None:
        """Show one event; while an answer is drawn, nothing else is, and what has to be said waits for its end."""
        match event:
            case AnswerDelta(text):
                self._progress.close()
                self._is_open = True
                self._write(text)
            case Finished():
                self.finished = event
                self._end_answer()
                self._progress.finish(event)
                if event.stop_reason in _CUT:
                    self._progress.handle(Notice(_CUT[event.stop_reason], is_warning=True))
            case Notice() | ToolFinished() if self._is_open:
                self._held.append(event)
            case _ if not self._is_open:
                self._progress.handle(event)
            case _:
                pass

    def close(self) -> None:
        """Take the progress line away and end an answer that was broken off, so that what was said stays."""
        self._progress.close()
        if self._is_open:
            self._end_answer()

    def _end_answer(self) -> None:
        self._is_open = False
        self._end()
        for event in self._held:
            self._progress.handle(event)
        self._held.clear()


class JsonRenderer:
    """One JSON object at the end, or one event a line as they come."""

    def __init__(self, progress: ProgressLine, *, is_stream: bool) -> None:
        self.finished: Finished | None = None
        self._progress = progress
        self._is_stream = is_stream
        self._latest: Event | None = None

    def handle(self, event: Event) -> None:
        """Print or remember one event; how far the prefill is, is said when it has changed."""
        is_said = isinstance(event, PrefillProgress) and event == self._latest
        self._latest = event
        if self._is_stream and not is_said:
            _print_json({"event": _snake(type(event).__name__), **_event_fields(event)})
        if isinstance(event, Finished):
            self.finished = event
            if not self._is_stream:
                _print_json(as_result(event))
            self._progress.finish(event)
        else:
            self._progress.handle(event)

    def close(self) -> None:
        """Take the progress line away."""
        self._progress.close()


def text_renderer() -> Renderer:
    """Return the renderer for people: rendered Markdown on a terminal, raw Markdown otherwise."""
    progress = ProgressLine(Console(stderr=True))
    console = Console()
    if console.is_terminal and os.environ.get("TERM") != "dumb":
        stream = MarkdownStream(console)
        return TextRenderer(stream.push, stream.finish, progress)
    return TextRenderer(_write_raw, _end_raw, progress)


def json_renderer() -> Renderer:
    """Return the renderer that prints one JSON object."""
    return JsonRenderer(ProgressLine(Console(stderr=True)), is_stream=False)


def stream_json_renderer() -> Renderer:
    """Return the renderer that prints one JSON event a line."""
    return JsonRenderer(ProgressLine(Console(stderr=True)), is_stream=True)


def as_result(finished: Finished) -> dict[str, object]:
    """Return the object that ``--json`` prints."""
    return {
        "answer": finished.answer,
        "steps": [
            {
                "tool": step.tool,
                "arguments": dict(step.arguments),
                "tokens": step.tokens,
                "milliseconds": round(step.duration_ms, 1),
                "summary": step.summary,
                "is_error": step.is_error,
            }
            for step in finished.steps
        ],
        "usage": asdict(finished.usage),
        "timing": {
            key: round(value, 3) if value is not None else None for key, value in asdict(finished.timing).items()
        },
        "model": finished.model,
        "stop_reason": finished.stop_reason,
        "notices": list(finished.notices),
    }


def _event_fields(event: Event) -> dict[str, object]:
    return as_result(event) if isinstance(event, Finished) else asdict(event)


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


def _print_json(value: Mapping[str, object]) -> None:
    print(json.dumps(value, ensure_ascii=False), flush=True)


def _write_raw(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _end_raw() -> None:
    sys.stdout.write("\n")
    sys.stdout.flush()
