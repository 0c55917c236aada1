"""Measures how the app feels while the model works: python -m tests.tui.responsiveness --help.

It runs the real app on a terminal of its own, in a session of 200 messages, and asks for a long answer, which the model
cannot end before it has so many tokens. Reported are the lag of the event loop (how much later than asked a sleep of
10 ms ends) in each phase, how long a key takes to be seen and an answer to be stopped, the time to the first frame, and
the processor time of the idle app. A benchmark, not a test: figures depend on the machine and on what else it does.
"""

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
from pathlib import Path
from statistics import median, quantiles

import psutil

QUESTION = "Explain every module of this repository in great detail, one after another, with examples of code."
TURNS = 100
PROBE_S = 0.01
IDLE_S = 10.0
BUSY_S = 240.0
ANSWER_S = 900.0
STOP_S = 10.0
ENDS = (" prompt tokens", "✗ ")
"""What is shown when an answer has ended, or could not be given."""
BETWEEN_S = 3.0
"""A second press of Ctrl-C that comes sooner leaves the app."""
CTRL_C, ESCAPE, BACKSPACE = "\x03", "\x1b", "\x7f"


def child(report: str, session: str, repository: str) -> None:
    """Run the app with a probe in its event loop, and write the lags by phase to ``report``."""
    from khepri import config
    from khepri.cli import interactive
    from khepri.engine.output import Output
    from khepri.repo.root import Repository
    from khepri.tui.app import KhepriApp

    lags: dict[str, list[float]] = {}
    commit = Output.commit

    def commit_without_end(output: Output, token: int) -> None:
        output._end_ids = frozenset()
        commit(output, token)

    Output.commit = commit_without_end  # type: ignore[method-assign, assignment]

    class Probed(KhepriApp):
        """The app with a probe."""

        def on_mount(self) -> None:
            # Textual runs the handlers of each class; the app's own is not called from here.
            self._probe_task = asyncio.create_task(self._probe())

        async def _probe(self) -> None:
            while True:
                before_s = time.perf_counter()
                await asyncio.sleep(PROBE_S)
                lag_ms = (time.perf_counter() - before_s - PROBE_S) * 1000
                if not self.screen_stack:
                    return
                phase = self.status.status.activity.split(" ")[0].strip(",") or "idle"
                lags.setdefault(phase, []).append(lag_ms)

    opened = Repository.open(Path(repository))
    loaded = config.load(opened.root, {}, os.environ)
    start = interactive._start(opened, loaded, session, choose=False)
    try:
        Probed(start).run()
    finally:
        Path(report).write_text(json.dumps(lags), encoding="utf-8")
        start.conversation.close()


def write_session(repository: Path) -> str:
    """Write a session of many messages and return its id."""
    from khepri import paths
    from khepri.agent.events import Finished, Timing, Usage
    from khepri.agent.recording import Recording, new_path
    from khepri.agent.task import Question

    told = Recording(new_path(paths.sessions_dir(repository)), repository, "another model")
    # Short for the model, which reads all of it first.
    answer = "It is in `client.py`:\n\n```python\nreturn request\n```"
    for number in range(TURNS):
        told.question(Question(f"Question {number}: what of it?"))
        timing = Timing(1.0, 20.0, 1.0, 1.0, None, 1.0, 1.0)
        told.witness(Finished(answer, (), Usage(10, 5, 3), timing, "another model", "answered"))
    told.close()
    return told.path.stem


class Terminal:
    """The other end of the app's terminal."""

    def __init__(self, command: list[str]) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.started_s = time.perf_counter()
        self.program = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm"},
        )
        os.close(slave)
        self._seen = bytearray()
        self._arrived = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while select.select([self.master], [], []):
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            with self._arrived:
                self._seen += data
                self._arrived.notify_all()

    def write(self, text: str) -> None:
        """Type something."""
        os.write(self.master, text.encode())

    def wait_for(self, text: str, timeout_s: float) -> float:
        """Return the seconds until ``text`` is written from now on; ``timeout_s`` if it is not."""
        wanted, before_s = text.encode(), time.perf_counter()
        with self._arrived:
            found = self._arrived.wait_for(lambda: wanted in self._seen, timeout_s)
        return time.perf_counter() - before_s if found else timeout_s

    def has_shown(self, text: str) -> bool:
        """True if ``text`` was written since ``forget`` was called last."""
        with self._arrived:
            return text.encode() in self._seen

    def leave(self) -> None:
        """Leave the app."""
        self.write("\x11")
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.program.wait(20)
        self.program.kill()

    def forget(self) -> None:
        """Look only at what comes from here on."""
        with self._arrived:
            self._seen.clear()


def measure_starts(repository: Path, session: str, starts: int) -> None:
    """Print the time to the first sign and to the first frame."""
    command = [sys.executable, "-m", "khepri", "--cwd", str(repository)]
    signs_ms: list[float] = []
    frames_ms: list[float] = []
    for _ in range(starts):
        terminal = Terminal(command)
        for text, times_ms in (("khepri", signs_ms), ("commands", frames_ms)):
            terminal.wait_for(text, 30)
            times_ms.append((time.perf_counter() - terminal.started_s) * 1000)
        terminal.leave()
    for what, times_ms in (("first sign", signs_ms), ("first frame", frames_ms)):
        print(f"{what}: median {median(times_ms):.0f} ms of {starts}, highest {max(times_ms):.0f} ms", flush=True)
    terminal = Terminal([*command, "--resume", session])
    frame_ms = terminal.wait_for("commands", 30) * 1000
    print(f"first frame with a conversation of {2 * TURNS} messages: {frame_ms:.0f} ms", flush=True)
    terminal.leave()


def measure_idle(repository: Path) -> None:
    """Print what the app costs while nothing happens, in a new conversation and without a probe, which costs more."""
    terminal = Terminal([sys.executable, "-m", "khepri", "--cwd", str(repository)])
    terminal.wait_for("commands", 30)
    process = psutil.Process(terminal.program.pid)
    started_s = time.perf_counter()
    # The model is loaded, the preamble read ahead and the repository indexed first.
    while _used_s(process, 5.0) > 0.1 and time.perf_counter() - started_s < BUSY_S:
        pass
    print(f"idle after {time.perf_counter() - started_s:.0f} s: ", end="", flush=True)
    print(f"{100 * _used_s(process, IDLE_S) / IDLE_S:.2f} % of one processor over {IDLE_S:.0f} s", flush=True)
    terminal.leave()


def _used_s(process: psutil.Process, wall_s: float) -> float:
    """Return the processor time that a process uses in the next ``wall_s``, in seconds."""
    before = process.cpu_times()
    time.sleep(wall_s)
    after = process.cpu_times()
    return after.user + after.system - before.user - before.system


def measure_answer(terminal: Terminal) -> None:
    """Ask for a long answer and print how soon a key is seen until it has ended."""
    terminal.write(QUESTION)
    time.sleep(1)
    terminal.write("\r")
    echoes_ms: dict[str, list[float]] = {"reading": [], "writing": []}
    started_s, code, has_ended = time.perf_counter(), 0x0180, False
    while time.perf_counter() - started_s < ANSWER_S and not has_ended:
        terminal.forget()
        letter = chr(code)
        code = code + 1 if code < 0x01B0 else 0x0180
        phase = "writing" if terminal.wait_for("writing", 0.25) < 0.25 else "reading"
        terminal.write(letter)
        echoes_ms[phase].append(terminal.wait_for(letter, 5.0) * 1000)
        terminal.write(BACKSPACE)
        has_ended = any(map(terminal.has_shown, ENDS))
    for phase, values in echoes_ms.items():
        print(f"key seen while {phase}: {_figures(values)}", flush=True)
    print(f"the answer ended after {time.perf_counter() - started_s:.0f} s", flush=True)


def measure_stops(terminal: Terminal, stops: int) -> None:
    """Ask in new conversations, stop each answer, and print how soon it is said to have stopped."""
    for name, key in (("Ctrl-C", CTRL_C), ("Esc", ESCAPE)):
        stopped_ms: list[float] = []
        for number in range(stops):
            time.sleep(BETWEEN_S)
            # What was said to have stopped before is out of sight.
            terminal.write("/new\r")
            time.sleep(BETWEEN_S)
            terminal.write(f"{QUESTION} {number}")
            time.sleep(1)
            terminal.forget()
            terminal.write("\r")
            if terminal.wait_for("writing, ", ANSWER_S) == ANSWER_S:
                print(f"no answer to stop with {name}", flush=True)
                return
            time.sleep(1)
            terminal.forget()
            terminal.write(key)
            stopped_ms.append(terminal.wait_for("stopped", STOP_S) * 1000)
        shown = ", ".join(f"{each_ms:.0f}" if each_ms < STOP_S * 1000 else "not seen" for each_ms in stopped_ms)
        print(f"stopped after {name}: {shown} ms", flush=True)


def measure(repository: Path, report: Path, starts: int, stops: int) -> None:
    """Run everything and print the figures."""
    session = write_session(repository)
    if starts:
        measure_starts(repository, session, starts)
        measure_idle(repository)
    terminal = Terminal(
        [sys.executable, "-m", "tests.tui.responsiveness", "child", str(report), session, str(repository)]
    )
    terminal.wait_for("Question 99", 30)
    time.sleep(BETWEEN_S)
    measure_answer(terminal)
    measure_stops(terminal, stops)
    terminal.leave()
    for phase, values in json.loads(report.read_text(encoding="utf-8")).items():
        print(f"event loop lag, {phase}: {_figures(values)}")


def _figures(values: list[float]) -> str:
    if len(values) < 20:
        return f"{len(values)} values only"
    cuts = quantiles(values, n=100, method="inclusive")
    return (
        f"median {median(values):.1f} ms, p95 {cuts[94]:.1f} ms, p99 {cuts[98]:.1f} ms, "
        f"highest {max(values):.0f} ms, {len(values)} values"
    )


def main() -> None:
    """Read the command line and measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.tui.responsiveness", description=__doc__)
    parser.add_argument("repository", type=Path, nargs="?", default=Path(), help="asked about; the folder by default")
    parser.add_argument("--tokens", type=int, default=2000, help="tokens of the long answer (2000)")
    parser.add_argument(
        "--starts",
        type=int,
        default=5,
        help="how often the first frame is timed (5); 0 leaves out what an idle app costs as well",
    )
    parser.add_argument("--stops", type=int, default=3, help="how often an answer is stopped with each key (3)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_STATE_HOME"] = folder
        os.environ["KHEPRI_MAX_TOKENS"] = str(options.tokens)
        measure(options.repository.resolve(), Path(folder) / "lags.json", options.starts, options.stops)


if __name__ == "__main__":
    if sys.argv[1:2] == ["child"]:
        child(*sys.argv[2:5])
    else:
        main()
