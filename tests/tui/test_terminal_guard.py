"""The terminal after the app was killed outright, seen from the other end of a real one."""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from pathlib import Path

from tests.tui.real_terminal import in_terminal, read_until, settle

PROGRAM = """
import os, signal, sys, time, tty
from khepri.tui.terminal_guard import guarded_terminal
with guarded_terminal(has_screen=sys.argv[1] != "killed in lines"):
    tty.setraw(0)
    os.write(2, b"\\x1b[?1049h\\x1b[?2004hready")
    if sys.argv[1] == "killed late" and os.fork() == 0:
        time.sleep(1)  # the child holds the pipe of the guard, which so learns of the death only now
        os._exit(0)
    if sys.argv[1].startswith("killed"):
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
    wanted = b"press Enter" if how.startswith("killed") else b"ready"
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


def test_a_kill_of_what_only_reads_lines_leaves_the_screen_alone() -> None:
    code, written, is_restored = run_in_terminal("killed in lines")
    assert code == -signal.SIGKILL
    assert b"\x1b[?2004l" in written
    assert b"\x1b[?1049l" not in written
    assert is_restored


def test_an_end_in_good_order_is_left_to_the_app() -> None:
    for how, expected in (("ended", 0), ("failed", 3)):
        code, written, _ = run_in_terminal(how)
        assert code == expected
        assert b"\x1b[?1049l" not in written


def test_a_shell_that_took_the_modes_of_the_killed_app_for_its_own_is_cured_by_its_next_command(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f"#!/bin/sh\n{sys.executable} {program} 'killed late'\nexit 0\n")
    wrapper.chmod(0o755)
    with in_terminal("bash", "--norc", "-i") as master:
        read_until(master, b"shell> ")
        before = termios.tcgetattr(master)
        os.write(master, str(wrapper).encode() + b"\r")
        read_until(master, b"press Enter")
        os.write(master, b"\r")
        read_until(master, b"shell> ")
        # Without this the test would pass whatever the guard does.
        assert not termios.tcgetattr(master)[3] & termios.IEXTEN
        time.sleep(0.5)
        os.write(master, b"sleep 2; echo do''ne\r")
        read_until(master, b"done")
        settle(master, before)
