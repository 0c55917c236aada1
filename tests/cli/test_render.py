"""Answers to stdout, progress to stderr; progress vanishes, warnings stay, and the terminal is left as it was."""

import fcntl
import io
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest
from rich.console import Console

from khepri.agent.events import (
    AnswerDelta,
    Event,
    Finished,
    ModelLoading,
    Notice,
    PrefillProgress,
    Thinking,
    Timing,
    ToolFinished,
    ToolStarted,
    Usage,
)
from khepri.agent.words import describe_call, summarize
from khepri.cli.render import (
    ProgressLine,
    TextRenderer,
    as_result,
    json_renderer,
    stream_json_renderer,
    text_renderer,
)
from tests.support.command import PROGRAM, Command

MARKUP = "[red]src/[/x].py[/red]"
TOOL = ToolFinished(1, "read", {"path": MARKUP}, f"40 lines of {MARKUP}", 120, 3.2, False, "text")
FINISHED = Finished(
    answer="It is **here**.",
    steps=(TOOL,),
    usage=Usage(1000, 900, 5),
    timing=Timing(120.0, 33.0, 30.0, 40.0, None, 500.0, 80.0),
    model="tiny",
    stop_reason="answered",
)
EVENTS: tuple[Event, ...] = (
    ModelLoading(MARKUP),
    PrefillProgress(50, 100, 10, 200.0),
    PrefillProgress(100, 100, 100, 0.0),
    Thinking("hm", 1, 30.0, 0.5),
    ToolStarted(1, "read", {"path": MARKUP}),
    TOOL,
    Notice("only a word"),
    Notice(f"a warning about {MARKUP}", is_warning=True),
    AnswerDelta("It is ", 2, 30.0),
    AnswerDelta("**here**.", 5, 30.0),
    FINISHED,
)
ANSWERING = ("--max-tokens", "8", "Where is retry?")


def console(*, is_terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=is_terminal, width=200)


def text_of(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_pipe_gets_the_raw_answer_and_only_warnings_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    renderer = text_renderer()
    for event in EVENTS:
        renderer.handle(event)
    out, err = capsys.readouterr()
    assert out == "It is **here**.\n"
    assert err == f"khepri: a warning about {MARKUP}\n"
    assert renderer.finished is FINISHED


def test_a_terminal_gets_steps_notices_and_figures() -> None:
    screen = console(is_terminal=True)
    said: list[str] = []
    renderer = TextRenderer(said.append, lambda: None, ProgressLine(screen))
    for event in EVENTS:
        renderer.handle(event)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text_of(screen))
    assert f'• read path="{MARKUP}" → 40 lines of {MARKUP} (120 tokens, 3 ms)' in shown
    assert "khepri: only a word" in shown
    assert "nothing drafted" in shown
    assert said == ["It is ", "**here**."]
    assert text_of(screen).rfind("\x1b[?25h") > text_of(screen).rfind("\x1b[?25l")


def test_nothing_is_drawn_into_an_answer_and_what_has_to_be_said_comes_behind_it() -> None:
    screen = console(is_terminal=True)
    said: list[str] = []
    renderer = TextRenderer(said.append, lambda: said.append(text_of(screen)), ProgressLine(screen))
    renderer.handle(AnswerDelta("In `a.py`,", 2, 30.0))
    for event in EVENTS[1:8]:
        renderer.handle(event)
    renderer.handle(FINISHED)
    assert said == ["In `a.py`,", ""], "the terminal was written to while the answer was drawn"
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text_of(screen))
    assert "reading" not in shown
    assert shown.index("• read path=") < shown.index("a warning about") < shown.index("nothing drafted")


@pytest.mark.parametrize(("reason", "words"), [("max_tokens", "--max-tokens"), ("context_full", "context is full")])
def test_a_cut_answer_is_said_to_be_cut(capsys: pytest.CaptureFixture[str], reason: str, words: str) -> None:
    text_renderer().handle(Finished("It", (), FINISHED.usage, FINISHED.timing, "tiny", reason))
    assert words in capsys.readouterr().err


def test_an_answer_that_is_broken_off_stays(capsys: pytest.CaptureFixture[str]) -> None:
    renderer = text_renderer()
    renderer.handle(AnswerDelta("It is", 2, 30.0))
    renderer.close()
    assert capsys.readouterr().out == "It is\n"


def test_json_is_one_object(capsys: pytest.CaptureFixture[str]) -> None:
    renderer = json_renderer()
    for event in EVENTS:
        renderer.handle(event)
    out, _ = capsys.readouterr()
    assert json.loads(out) == json.loads(json.dumps(as_result(FINISHED)))


def test_stream_json_is_every_event_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    renderer = stream_json_renderer()
    for event in EVENTS:
        renderer.handle(event)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["event"] for line in lines] == [
        "model_loading",
        "prefill_progress",
        "prefill_progress",
        "thinking",
        "tool_started",
        "tool_finished",
        "notice",
        "notice",
        "answer_delta",
        "answer_delta",
        "finished",
    ]


def test_stream_json_tells_how_far_the_prefill_is_when_that_has_changed(capsys: pytest.CaptureFixture[str]) -> None:
    renderer = stream_json_renderer()
    for done in (0, 0, 64, 64, 64, 100, 0):
        renderer.handle(PrefillProgress(done, 100, 0, 200.0))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["done_tokens"] for line in lines] == [0, 64, 100, 0]


def test_a_call_is_shown_short() -> None:
    assert describe_call("search", {"pattern": "é", "path": "src"}) == 'search pattern="é" path="src"'
    assert len(describe_call("search", {"pattern": "x" * 500})) == 160


def test_a_speed_never_stands_without_its_rate_of_acceptance() -> None:
    drafted = Timing(120.0, 33.0, 30.0, 40.0, 0.5, 500.0, 80.0)
    assert "33.0 tokens/s (nothing drafted)" in summarize(FINISHED)
    assert "33.0 tokens/s (acceptance 50%)" in summarize(Finished("x", (), FINISHED.usage, drafted, "tiny", "answered"))


class Screen:
    """The command on a pseudo-terminal."""

    def __init__(self, khepri: Command, *arguments: str, columns: int = 80, **variables: str) -> None:
        self.main, self._side = pty.openpty()
        fcntl.ioctl(self._side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        self.before = termios.tcgetattr(self._side)
        self.written = b""
        self.process = subprocess.Popen(
            [*PROGRAM, "ask", "--model", str(khepri.model), *arguments],
            cwd=khepri.cwd,
            env=khepri.environment(TERM="xterm-256color", **variables),
            stdin=self._side,
            stdout=self._side,
            stderr=self._side,
            start_new_session=True,
        )

    def read_until(self, wanted: bytes | None) -> bytes:
        """Read until ``wanted`` is on the screen, or until the end."""
        deadline = time.monotonic() + 300
        while wanted is None or wanted not in self.written:
            ended = self.process.poll() is not None
            ready, _, _ = select.select([self.main], [], [], 0.1)
            if ready:
                self.written += os.read(self.main, 65536)
            elif ended:
                break
            assert time.monotonic() < deadline, self.written[-500:]
        return self.written

    def end(self) -> tuple[int, str]:
        """Return the exit code and all that was written; the terminal must be as it was."""
        text = self.read_until(None).decode("utf-8", "replace")
        assert termios.tcgetattr(self._side) == self.before
        assert text.rfind("\x1b[?25h") >= text.rfind("\x1b[?25l"), "the cursor is hidden"
        assert "\x1b[?1049h" not in text
        assert "Traceback" not in text
        os.close(self.main)
        os.close(self._side)
        return self.process.wait(300), text


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def test_a_terminal_shows_progress_and_the_rendered_answer(khepri: Command) -> None:
    code, text = Screen(khepri, *ANSWERING).end()
    assert code == 0
    assert "• read" in plain(text)
    assert "tokens/s" in plain(text)
    assert "In src/retry.py," in plain(text)  # rendered: the marks of code are gone


@pytest.mark.parametrize("columns", [20, 1])
def test_a_narrow_terminal_is_written_within_its_columns(khepri: Command, columns: int) -> None:
    code, text = Screen(khepri, *ANSWERING, columns=columns).end()
    assert code == 0
    answer = plain(text).split("•")[-1]
    assert "src/" in answer or columns == 1


def test_no_color_means_no_colour(khepri: Command) -> None:
    _, text = Screen(khepri, *ANSWERING, NO_COLOR="1").end()
    assert not re.search(r"\x1b\[[0-9;]*(3[0-9]|4[0-9])[;m]", text)


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_the_terminal_as_it_was(talkative: Command, number: signal.Signals, expected: int) -> None:
    screen = Screen(talkative, "--no-tools", "--temperature", "1", "--seed", "3", "Why?")
    screen.read_until(b"\x1b[?25l")
    time.sleep(0.5)
    screen.process.send_signal(number)
    code, text = screen.end()
    assert code == expected, text[-800:]


def test_a_dumb_terminal_gets_raw_text(khepri: Command) -> None:
    main, side = pty.openpty()
    done = subprocess.run(
        [*PROGRAM, "ask", "--model", str(khepri.model), *ANSWERING],
        cwd=khepri.cwd,
        env=khepri.environment(TERM="dumb"),
        stdin=subprocess.DEVNULL,
        stdout=side,
        stderr=subprocess.PIPE,
        timeout=300,
    )
    written = os.read(main, 65536)
    os.close(main)
    os.close(side)
    assert done.returncode == 0
    assert written.startswith(b"In `src/retry.py`,")
    assert b"\x1b" not in written
