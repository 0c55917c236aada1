"""Ctrl-Z in a real terminal, with a script around the app and with no shell at all."""

import os
import sys
import termios
from pathlib import Path

import pytest

from tests.tui.real_terminal import in_terminal, read_until, settle

APP = """
from textual.binding import Binding
from textual.widgets import Static
from khepri.tui.terminal_app import TerminalApp

class Small(TerminalApp):
    BINDINGS = [Binding("ctrl+z", "suspend_process", priority=True), Binding("q", "quit")]

    def on_mount(self):
        self.answer_signals()

    def compose(self):
        yield Static("drawn")

Small().run()
"""


@pytest.mark.parametrize("wrapper", ["#!/bin/sh\n{}\nexit $?\n", "#!/bin/bash\ntimeout --foreground 500 {}\nexit 0\n"])
def test_the_shell_of_a_script_has_the_terminal_after_ctrl_z_and_fg_gives_it_back(tmp_path: Path, wrapper: str) -> None:
    program = tmp_path / "program.py"
    program.write_text(APP)
    script = tmp_path / "script"
    script.write_text(wrapper.format(f"{sys.executable} {program}"))
    script.chmod(0o755)
    with in_terminal("bash", "--norc", "-i") as master:
        read_until(master, b"shell> ")
        before = termios.tcgetattr(master)
        os.write(master, f"{script}\r".encode())
        for _ in range(2):
            read_until(master, b"drawn")
            os.write(master, b"\x1a")
            read_until(master, b"Stopped")
            os.write(master, b"fg\r")
        read_until(master, b"drawn")
        os.write(master, b"q")
        read_until(master, b"shell> ")
        os.write(master, b"echo le''ft\r")
        read_until(master, b"left")
        settle(master, before)


def test_ctrl_z_stops_nothing_where_there_is_no_shell_to_continue_it(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(APP)
    with in_terminal(sys.executable, str(program)) as master:
        read_until(master, b"drawn")
        os.write(master, b"\x1a")
        read_until(master, b"no shell")
