"""The conversation line by line, as a real process: the same commands, nothing drawn over, resumed and exported."""

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from khepri.agent.conversation import Conversation
from khepri.agent.events import AnswerDelta, Event, Finished, Notice, ReviewRequested, Timing, Usage
from khepri.cli import plain
from khepri.config import Config, Loaded
from khepri.edits.change import FileChange, change_set
from khepri.edits.checks import CheckOutcome
from khepri.edits.review import Review
from khepri.errors import CancelledError
from khepri.repo.root import Repository
from tests.support.command import Command


def talk(khepri: Command, *lines: str, options: tuple[str, ...] = ()) -> tuple[int, str, str]:
    stdin = "".join(f"{line}\n" for line in lines).encode()
    done = khepri.run("--plain", "--model", str(khepri.model), *options, stdin=stdin, KHEPRI_MAX_TOKENS="8")
    return done.returncode, done.stdout, done.stderr


def test_a_conversation_is_held_line_by_line_resumed_listed_exported_and_removed(khepri: Command) -> None:
    code, said, errors = talk(khepri, "What limits retry?", "/stats", "/nothing", "/quit", "never read")
    assert code == 0
    assert 'step: read path="src/retry.py"' in said
    assert "tokens/s (" in said
    assert "error: there is no command /nothing" in said
    assert "never read" not in said
    assert "\x1b" not in said
    session = errors.split("--resume ")[1].split()[0]

    code, said, _ = talk(khepri, "And then?", options=("--continue",))
    assert code == 0
    assert "you> What limits retry?" in said

    (listed,) = json.loads(khepri.run("sessions", "--json").stdout)
    assert (listed["id"], listed["turns"], listed["title"]) == (session, 2, "What limits retry?")
    assert session in khepri.run("sessions").stdout
    assert "What limits retry?" in khepri.run("sessions", "export", session[:8]).stdout
    exported = json.loads(khepri.run("sessions", "export", session, "--json").stdout)
    assert [turn["question"]["text"] for turn in exported["turns"]] == ["What limits retry?", "And then?"]
    assert khepri.run("sessions", "remove", session).returncode == 0
    assert khepri.run("sessions", "--json").stdout.strip() == "[]"
    assert talk(khepri, options=("--continue",))[0] == 2


def test_every_command_has_words_for_a_line(khepri: Command) -> None:
    (khepri.cwd / "notes.txt").write_text("notes", encoding="utf-8")
    code, said, _ = talk(
        khepri,
        "/help",
        "/models",
        "/config",
        "/theme",
        "/sessions",
        "/add notes.txt",
        "/drop",
        "/new",
        "/undo",
        "!echo $((40 + 2))",
        "!",
        "one\\",
        "more line",
        "/rewind",
        "/export out.md",
    )
    assert code == 0
    for words in (
        "/compact: go on",
        "(in use)",
        "max_tokens",
        "config.toml, a line each",
        "terminal's own colours",
        "Not looked at any more",
        "42\n",
        "such as: !git status",
        "taken back",
    ):
        assert words in said, words


def test_options_of_the_conversation_are_refused_where_they_mean_nothing(khepri: Command) -> None:
    for arguments in (("--plain", "ask", "x"), ("--continue", "--resume", "x"), ("--plain", "--resume")):
        assert khepri.run(*arguments).returncode == 2


def test_the_app_needs_a_terminal_and_says_what_does_not(khepri: Command) -> None:
    done = khepri.run()
    assert done.returncode == 2
    assert "needs a terminal" in done.stderr
    assert "khepri ask" in done.stderr


def test_no_value_of_an_option_leaves_the_network_unlocked(khepri: Command) -> None:
    done = khepri.run("--resume", "models", "--model", "pull", "doctor", "--json")
    assert done.returncode == 2


def test_the_machine_is_checked_with_the_model_of_the_conversation(khepri: Command) -> None:
    code, said, _ = talk(khepri, "/doctor")
    assert code == 0
    report = said[said.index("configuration: ") :]
    assert khepri.model.name in report
    assert "all in all: " in report
    assert "terminal: " not in said
    assert "examining" not in said


@pytest.fixture
def sitting(own_folders: object, tmp_path: Path) -> plain._Talk:
    conversation = Conversation(Repository.open(tmp_path), Config(), lambda name: pytest.fail(name))
    return plain._Talk(conversation, Loaded(Config(), {}))


def type_lines(monkeypatch: pytest.MonkeyPatch, *lines: str | None) -> Iterator[str | None]:
    """Let these lines be typed, and return those that are not read yet; None is an interrupt."""
    typed = iter(lines)

    def read(prompt: str) -> str:
        line = next(typed)
        if line is None:
            raise KeyboardInterrupt
        return line

    monkeypatch.setattr("builtins.input", read)
    return typed


def test_a_second_interrupt_at_the_prompt_leaves_unless_something_was_sent_between(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, sitting: plain._Talk
) -> None:
    typed = type_lines(monkeypatch, None, "/nothing", None, None, "never read")
    sitting.run()
    assert next(typed) == "never read"
    assert capsys.readouterr().out.count("Press Ctrl-C again to leave.") == 2


def interrupted_answer(*_: object) -> "Told":
    def events() -> Iterator[Event]:
        signal.raise_signal(signal.SIGINT)
        yield ended("interrupted")

    return Told(events())


def interrupted_command(command: str, cancelled: threading.Event) -> CheckOutcome:
    signal.raise_signal(signal.SIGINT)
    assert cancelled.is_set()
    return CheckOutcome(command, False, "stopped", "", 1.0, "")


def interrupted_review(*_: object) -> "Told":
    def events() -> Iterator[Event]:
        yield ReviewRequested(Review(change_set("a", [FileChange("a", b"", b"1\n")])))
        yield ended("interrupted")

    return Told(events())


@pytest.mark.parametrize(
    ("works", "line", "does"),
    [
        ("submit", "Why?", interrupted_answer),
        ("run_shell", "!sleep 20", interrupted_command),
        ("submit", "Change it.", interrupted_review),
    ],
)
def test_an_interrupt_that_stops_what_runs_is_the_first_of_the_two_that_leave(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    sitting: plain._Talk,
    works: str,
    line: str,
    does: Callable[..., object],
) -> None:
    def interrupt() -> str:
        signal.raise_signal(signal.SIGINT)
        return "y\n"

    monkeypatch.setattr(sitting._conversation, works, does)
    monkeypatch.setattr(sys.stdin, "readline", interrupt)
    typed = type_lines(monkeypatch, line, None, "never read")
    sitting.run()
    assert next(typed) == "never read"
    said = capsys.readouterr().out
    assert "stopped" in said
    assert said.count("Press Ctrl-C again to leave.") == 1

    typed = type_lines(monkeypatch, line, "/nothing", line, "/quit", "never read")
    sitting.run()
    assert next(typed) == "never read"


def test_a_second_interrupt_before_the_first_has_stopped_the_answer_leaves(
    monkeypatch: pytest.MonkeyPatch, sitting: plain._Talk
) -> None:
    def events() -> Iterator[Event]:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        yield ended("interrupted")

    monkeypatch.setattr(sitting._conversation, "submit", lambda question: Told(events()))
    typed = type_lines(monkeypatch, "Why?", "never read")
    sitting.run()
    assert next(typed) == "never read"


def test_an_interrupt_of_a_command_that_looks_at_the_machine_does_not_leave(
    monkeypatch: pytest.MonkeyPatch, sitting: plain._Talk
) -> None:
    monkeypatch.setattr(plain, "check_machine", lambda conversation: signal.raise_signal(signal.SIGINT))
    typed = type_lines(monkeypatch, "/doctor", "/nothing", "/quit", "never read")
    sitting.run()
    assert next(typed) == "never read"


class Told:
    """A task of which this happens."""

    def __init__(self, events: Iterator[Event]) -> None:
        self._events = events
        self.was_cancelled = False

    def events(self) -> Iterator[Event]:
        return self._events

    def cancel(self) -> None:
        self.was_cancelled = True


def ended(stop_reason: str) -> Finished:
    return Finished("", (), Usage(1, 1, 1), Timing(1, 1, 1, 1, None, 1, 1), "tiny", stop_reason)


@pytest.mark.parametrize(("is_terminal", "said"), [(True, "\nstopped\n"), (False, "stopped\n")])
def test_what_follows_an_interrupt_that_the_terminal_shows_begins_a_line(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    sitting: plain._Talk,
    is_terminal: bool,
    said: str,
) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: is_terminal)

    def events() -> Iterator[Event]:
        signal.raise_signal(signal.SIGINT)
        yield ended("interrupted")

    task = Told(events())
    sitting._follow(task)  # type: ignore[arg-type]
    assert task.was_cancelled
    assert capsys.readouterr().out.startswith(said)


@pytest.mark.parametrize(
    ("stop_reason", "said"), [("max_tokens", "ask for what is missing"), ("context_full", "/compact makes room")]
)
def test_an_answer_that_was_cut_says_how_to_go_on(
    capsys: pytest.CaptureFixture[str], sitting: plain._Talk, stop_reason: str, said: str
) -> None:
    sitting._follow(Told(iter([ended(stop_reason)])))  # type: ignore[arg-type]
    assert said in capsys.readouterr().out


def test_what_is_said_within_an_answer_begins_a_line(capsys: pytest.CaptureFixture[str], sitting: plain._Talk) -> None:
    def events() -> Iterator[Event]:
        yield AnswerDelta("is a class that", 4, 1.0)
        yield Notice("the answer was cut")
        yield AnswerDelta("goes on\n", 6, 1.0)
        yield Notice("all of it is there")
        yield AnswerDelta("half", 7, 1.0)
        raise CancelledError("stopped")

    sitting._follow(Told(events()))  # type: ignore[arg-type]
    assert capsys.readouterr().out == (
        "is a class that\nnote: the answer was cut\ngoes on\nnote: all of it is there\nhalf\nstopped\n"
    )
