"""The terminal after the app was killed outright, seen from the other end of a real one."""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time

PROGRAM = """
import os, signal, sys, time, tty
from khepri.tui.terminal_guard import guarded_terminal
with guarded_terminal():
    tty.setraw(0)
    os.write(2, b"\\x1b[?1049h\\x1b[?2004hready")
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[1] == "failed":
        raise SystemExit(3)
"""


def run_in_terminal(how: str) -> tuple[int, bytes, bool]:
    """Return the exit code, what was written, and whether the terminal's modes are those from before."""
    master, slave = pty.openpty()
    before = termios.tcgetattr(slave)
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, how], stdin=slave, stdout=slave, stderr=slave, start_new_session=True
    )
    code = program.wait(timeout=300)
    written = b""
    deadline_s = time.monotonic() + 10
    wanted = b"\x1b[?1049l" if how == "killed" else b"ready"
    while wanted not in written and time.monotonic() < deadline_s:
        if select.select([master], [], [], 0.1)[0]:
            written += os.read(master, 65536)
    is_restored = termios.tcgetattr(slave) == before
    os.close(master)
    os.close(slave)
    return code, written, is_restored


def test_a_kill_leaves_the_terminal_as_it_was() -> None:
    code, written, is_restored = run_in_terminal("killed")
    assert code == -signal.SIGKILL
    assert b"\x1b[?2004l" in written
    assert b"\x1b[?1049l" in written
    assert is_restored


def test_an_end_in_good_order_is_left_to_the_app() -> None:
    for how, expected in (("ended", 0), ("failed", 3)):
        code, written, _ = run_in_terminal(how)
        assert code == expected
        assert b"\x1b[?1049l" not in written
