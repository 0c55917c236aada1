"""A real terminal with a shell and a small app in it, seen from the other end."""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

APP = """
import os, signal, sys
from textual import events
from khepri.tui.terminal_app import TerminalApp

class Small(TerminalApp):
    keys = []

    async def on_event(self, event):
        if isinstance(event, events.Key):
            self.keys.append(event.key)
        await super().on_event(event)

    def on_mount(self):
        self.answer_signals()
        self.call_after_refresh(os.kill, os.getppid(), signal.SIGUSR1)

app = Small()
app.run()
if app.defect:
    raise app.defect
print("KEYS", *app.keys)
sys.exit(app.return_value)
"""
# What a shell does with a job of its own, as far as the terminal sees it.
SHELL = f"""
import fcntl, os, signal, subprocess, sys, termios, time

fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])

def begin():
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)

def send(*numbers, pause_s=0.0):
    for number in numbers:
        os.kill(app.pid, number)
        time.sleep(pause_s)

def stop(number):
    send(number)
    assert os.WIFSTOPPED(os.waitpid(app.pid, os.WUNTRACED)[1])
    os.tcsetpgrp(0, os.getpgrp())

app = subprocess.Popen([sys.executable, "-c", {APP!r}], preexec_fn=begin)
signal.sigwait([signal.SIGUSR1])
exec(sys.argv[1])
status = os.waitpid(app.pid, os.WUNTRACED)[1]
code = os.WSTOPSIG(status) + 1000 if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)
os.write(1, b"CODE=%d;" % code)
"""


def end_of(what_the_shell_does: str, typed_before: bytes = b"") -> tuple[int, bool, str]:
    """Return the app's exit code, whether the terminal's modes are those from before, and what was written."""
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    os.write(master, typed_before)
    shell = subprocess.Popen(
        [sys.executable, "-c", SHELL, what_the_shell_does],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
    )
    written, deadline_s = b"", time.monotonic() + 120
    while b"CODE=" not in written and time.monotonic() < deadline_s:
        if select.select([master], [], [], 0.1)[0]:
            written += os.read(master, 65536)
    is_restored = termios.tcgetattr(slave) == before
    shell.kill()
    shell.wait()
    os.close(master)
    os.close(slave)
    text = written.decode()
    assert "CODE=" in text, text
    return int(text.partition("CODE=")[2].partition(";")[0]), is_restored, text.partition("CODE=")[0]


@contextmanager
def in_terminal(*command: str) -> Iterator[int]:
    """Run a command that leads a terminal of its own, yield the other end of it, and kill the command."""
    child, master = pty.fork()
    if child == 0:
        os.environ |= {"PS1": "shell> ", "TERM": "xterm"}
        os.execvp(command[0], command)
    try:
        yield master
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        os.close(master)


def read_until(terminal: int, wanted: bytes) -> None:
    """Read what is written to a terminal up to a text."""
    written = b""
    while wanted not in written:
        assert select.select([terminal], [], [], 30)[0], written
        written += os.read(terminal, 65536)


def settle(terminal: int, modes: list[Any]) -> None:
    """Wait until a terminal has some modes, as it has them when its shell reads a line."""
    deadline_s = time.monotonic() + 30
    while termios.tcgetattr(terminal) != modes:
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
