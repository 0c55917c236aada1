"""The real app in a real terminal with a real model: asked, watched, stopped and left, killed and resumed."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from khepri.agent.journal import read_records

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")


class Tmux:
    """A terminal of 100 by 30 with a shell in it."""

    def __init__(self, folder: Path, environ: dict[str, str]) -> None:
        # A name of its own: the server of the test before may still be ending.
        self._server = f"khepri-test-{uuid.uuid4().hex}"
        # A bare machine names no locale, and tmux then shows nothing but ASCII.
        self._environ = {**os.environ, **environ, "PS1": "$ ", "ENV": "", "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        self._run("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", "-c", str(folder), "sh")

    def _run(self, *arguments: str) -> str:
        command = ["tmux", "-u", "-L", self._server, *arguments]
        return subprocess.run(command, env=self._environ, capture_output=True, encoding="utf-8", check=True).stdout

    def press(self, *keys: str) -> None:
        """Press keys by their names in tmux."""
        self._run("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type a text as it is."""
        self._run("send-keys", "-l", text)

    def paste(self, file: Path) -> None:
        """Paste what a file holds, as a terminal does."""
        self._run("load-buffer", str(file))
        self._run("paste-buffer", "-p", "-d")

    def clipboard(self) -> str:
        """Return what was copied last."""
        shown = self._run("list-buffers", "-F", "#{buffer_name}").split()
        return self._run("show-buffer") if shown else ""

    def screen(self) -> str:
        """Return what is seen."""
        return self._run("capture-pane", "-p")

    def wait_for(self, what: str | Callable[[str], bool], timeout_s: float = 240.0) -> str:
        """Return the screen once it shows something."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            screen = self.screen()
            if what in screen if isinstance(what, str) else what(screen):
                return screen
            time.sleep(0.05)
        raise AssertionError(f"{what} is not on the screen:\n{self.screen()}")

    def app(self) -> psutil.Process:
        """Return the process of the app."""
        shell = psutil.Process(int(self._run("display-message", "-p", "#{pane_pid}")))
        (app,) = shell.children()
        return app

    def close(self) -> None:
        """End the terminal and what runs in it."""
        subprocess.run(["tmux", "-L", self._server, "kill-server"], check=False, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    folder.mkdir()
    (folder / "retry.py").write_text(
        "LIMIT = 3\n\n\ndef retry(call):\n    # Call up to LIMIT times.\n    for _ in range(LIMIT):\n        call()\n",
        encoding="utf-8",
    )
    return folder


@pytest.fixture
def terminal(tmp_path: Path, repository: Path) -> Iterator[Tmux]:
    environ = {f"XDG_{kind}_HOME": str(tmp_path / kind) for kind in ("CACHE", "CONFIG", "STATE")}
    tmux = Tmux(repository, {**environ, "PYTHONPATH": str(ROOT), "KHEPRI_CONTEXT_TOKENS": "4096"})
    try:
        yield tmux
    finally:
        tmux.close()


def start(terminal: Tmux, model: Path, options: str = "") -> None:
    terminal.type(f"stty -g > before; {sys.executable} -m khepri --model {model} {options}; echo CODE=$?")
    terminal.press("Enter")
    terminal.wait_for("Ask about this repository")


def assert_is_sane(terminal: Tmux, repository: Path) -> None:
    terminal.type("stty -g > after; echo DONE=$((40 + 2))")
    terminal.press("Enter")
    terminal.wait_for("DONE=42")
    assert (repository / "after").read_text() == (repository / "before").read_text()


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    """The tiny model under a name that a shell takes without quotes."""
    return Path(shutil.copyfile(tiny_model, tmp_path / "tiny.gguf"))


@pytest.mark.real_model
@pytest.mark.timeout(900)
def test_ask_watch_a_step_stop_a_second_question_and_leave(
    terminal: Tmux, repository: Path, default_model: Path
) -> None:
    start(terminal, default_model)
    terminal.type("What limits the retries?")
    terminal.press("Enter")
    terminal.wait_for("▸ read path=")
    terminal.wait_for(" tokens/s (", 400)
    screen = terminal.wait_for(lambda seen: "prompt tokens" in seen, 400)
    assert "retry.py" in screen
    terminal.press("C-o")
    terminal.wait_for("▾ ")
    terminal.press("C-o")
    terminal.type("Write a long story about retries, in ten chapters.")
    terminal.press("Enter")
    terminal.wait_for(lambda seen: "writing" in seen or "reading" in seen, 200)
    terminal.press("C-c")
    terminal.wait_for("! stopped", 10)
    time.sleep(2.5)  # a second press would leave
    terminal.type("/quit")
    terminal.press("Enter")
    terminal.wait_for("CODE=0")
    assert_is_sane(terminal, repository)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, 137)],
    ids=["TERM", "HUP", "KILL"],
)
def test_a_signal_leaves_the_terminal_sane_and_the_session_whole(
    terminal: Tmux, repository: Path, model: Path, number: signal.Signals, code: int
) -> None:
    start(terminal, model)
    terminal.type("What limits the retries?")
    terminal.press("Enter")
    terminal.wait_for("▸ read path=")
    terminal.app().send_signal(number)
    if number is signal.SIGKILL:
        terminal.wait_for("khepri was killed")
    else:
        terminal.wait_for(f"CODE={code}")
    assert_is_sane(terminal, repository)
    terminal.type("clear")
    terminal.press("Enter")
    start(terminal, model, "--continue")
    terminal.wait_for("> What limits the retries?")
    terminal.press("C-q")
    screen = terminal.wait_for("CODE=0")
    assert re.search(r"khepri --resume \d{8}-\d{6}-[0-9a-f]{4}", screen)


DEFECT = """
import sys
from khepri.tui.app import KhepriApp
from khepri.__main__ import main

KhepriApp.action_help = lambda app: 1 / 0
sys.exit(main())
"""


@pytest.mark.slow
def test_a_defect_of_the_app_is_said_in_words_and_leaves_the_terminal_sane(
    terminal: Tmux, repository: Path, model: Path, tmp_path: Path
) -> None:
    program = tmp_path / "defect.py"
    program.write_text(DEFECT, encoding="utf-8")
    terminal.type(f"stty -g > before; {sys.executable} {program} --model {model}; echo CODE=$?")
    terminal.press("Enter")
    terminal.wait_for("Ask about this repository")
    terminal.press("F1")
    screen = terminal.wait_for("CODE=1")
    assert "ZeroDivisionError" in screen
    assert "please report it" in screen
    assert "Traceback" not in screen
    assert_is_sane(terminal, repository)


@pytest.mark.slow
def test_a_paste_of_two_megabytes_arrives_whole(terminal: Tmux, repository: Path, model: Path, tmp_path: Path) -> None:
    text = "0123456789abcdé\n" * 131_072
    file = tmp_path / "paste"
    file.write_text(text, encoding="utf-8")
    start(terminal, model)
    terminal.paste(file)
    terminal.wait_for("[paste 1: 131,073 lines")
    terminal.type(" what is it?")
    terminal.press("Enter")
    terminal.wait_for("✗ ")  # no context holds it
    (session,) = (tmp_path / "STATE").glob("**/sessions/**/*.jsonl")
    (question,) = (record for record in read_records(session) if record["kind"] == "question")
    assert question["attachments"] == [{"name": "paste 1: 131,073 lines, 2,097,152 characters", "text": text}]
    terminal.press("C-q")
    terminal.wait_for("CODE=0")
    assert_is_sane(terminal, repository)


@pytest.mark.slow
def test_a_question_that_is_entered_while_khepri_starts_is_sent(terminal: Tmux, repository: Path, model: Path) -> None:
    terminal.type(f"stty -g > before; {sys.executable} -m khepri --model {model}; echo CODE=$?")
    terminal.press("Enter")
    terminal.type("What limits the retries?")
    terminal.press("Enter")
    terminal.wait_for("> What limits the retries?", 60)
    terminal.press("C-q")
    terminal.wait_for("CODE=0")
    assert_is_sane(terminal, repository)


@pytest.mark.slow
def test_what_is_copied_reaches_the_clipboard_through_tmux(terminal: Tmux, repository: Path, model: Path) -> None:
    start(terminal, model)
    terminal.type("/add nothing-like-this")
    terminal.press("Enter")
    terminal.wait_for("does not exist")
    terminal.press("Tab")
    terminal.wait_for("f2 Copy")
    terminal.press("F2")
    terminal.wait_for("copied")
    terminal.wait_for(lambda seen: "does not exist" in terminal.clipboard())
    terminal.press("C-q")
    terminal.wait_for("CODE=0")
    assert_is_sane(terminal, repository)


def is_drawn(screen: str) -> bool:
    """True if the whole app is seen, with what was half written."""
    return all(part in screen for part in ("half a question", " tokens", "network", "f1 Help"))


@pytest.mark.slow
def test_the_app_is_suspended_and_comes_back(terminal: Tmux, repository: Path, model: Path) -> None:
    start(terminal, model)
    terminal.type("half a question")
    for _ in range(3):
        terminal.wait_for(is_drawn)
        terminal.press("C-z")
        terminal.wait_for("CODE=147")
        assert_is_sane(terminal, repository)
        terminal.type("clear; fg; echo CODE=$?")
        terminal.press("Enter")
    terminal.wait_for(is_drawn)
    terminal.press("C-q")
    terminal.wait_for("CODE=0")
    assert_is_sane(terminal, repository)


@pytest.mark.slow
def test_a_stop_from_outside_harms_neither_the_app_nor_the_terminal(
    terminal: Tmux, repository: Path, model: Path
) -> None:
    start(terminal, model)
    terminal.type("half a question")
    terminal.wait_for(is_drawn)
    app = terminal.app()
    app.send_signal(signal.SIGSTOP)
    terminal.wait_for("CODE=147")
    app.send_signal(signal.SIGCONT)
    terminal.wait_for(lambda _: app.status() == psutil.STATUS_STOPPED)  # the terminal is the shell's
    terminal.type("clear; fg; echo CODE=$?")
    terminal.press("C-j")  # the app's modes are still in force: Enter ends no line
    terminal.wait_for(is_drawn)
    terminal.press("C-q")
    terminal.wait_for("CODE=0")
    assert_is_sane(terminal, repository)


STOPPED_WHILE_WRITING = """
import os, signal, sys
from khepri.tui.app import KhepriApp
from khepri.__main__ import main

def help(app):
    # What a signal interrupts may hold the lock of what is still to be written.
    with app._driver._writer_thread._queue.mutex:
        os.kill(os.getpid(), signal.{signal})

KhepriApp.action_help = help
sys.exit(main())
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", ["SIGCONT", "SIGTSTP"])
def test_a_stop_in_the_middle_of_a_write_harms_neither_the_app_nor_the_terminal(
    terminal: Tmux, repository: Path, model: Path, tmp_path: Path, number: str
) -> None:
    program = tmp_path / "stopped.py"
    program.write_text(STOPPED_WHILE_WRITING.format(signal=number), encoding="utf-8")
    terminal.type(f"stty -g > before; {sys.executable} {program} --model {model}; echo CODE=$?")
    terminal.press("Enter")
    terminal.wait_for("Ask about this repository")
    terminal.type("half a question")
    terminal.wait_for(is_drawn)
    terminal.press("F1")
    if number == "SIGTSTP":
        terminal.wait_for("CODE=147", 30)
        terminal.type("clear; fg; echo CODE=$?")
        terminal.press("Enter")
    terminal.type(" and more")
    terminal.wait_for("half a question and more", 30)
    terminal.press("C-q")
    terminal.wait_for("CODE=0", 30)
    assert_is_sane(terminal, repository)
