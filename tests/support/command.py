"""Runs the real command in a home of its own, with a tiny model in the place of a large one."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROGRAM = (sys.executable, "-m", "khepri")
_CHECKOUT = Path(__file__).parents[2]


@dataclass
class Command:
    """``khepri`` as a process, in ``cwd``."""

    home: Path
    cwd: Path
    model: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    def environment(self, **more: str) -> dict[str, str]:
        """Return an environment in which nothing outside ``home`` matters."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_DATA_HOME": str(self.home / "data"),
            "LC_ALL": "C.UTF-8",
            "PYTHONPATH": str(_CHECKOUT),
            # One thread does not wait for another on a busy machine; probe and measurement have tests of their own.
            "KHEPRI_THREADS": "1",
            "KHEPRI_BACKEND": "llama_cpp",
            "KHEPRI_EXTRA_BUFFERS": "off",
            **self.variables,
            **more,
        }

    def run(self, *arguments: str | bytes, stdin: bytes = b"", **more: str) -> "subprocess.CompletedProcess[str]":
        """Run it to its end; by default there is nothing to read. No end may show a traceback."""
        done = subprocess.run(
            [*PROGRAM, *arguments],
            cwd=self.cwd,
            env=self.environment(**more),
            input=stdin,
            capture_output=True,
            timeout=300,
        )
        shown = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        assert "Traceback" not in shown[1]
        assert "defect" not in shown[1]
        return subprocess.CompletedProcess(done.args, done.returncode, *shown)

    def ask(self, *arguments: str | bytes, stdin: bytes = b"", **more: str) -> "subprocess.CompletedProcess[str]":
        """Ask the tiny model for a short answer."""
        return self.run("ask", "--model", str(self.model), "--max-tokens", "8", *arguments, stdin=stdin, **more)

    def start(self, *arguments: str, **more: str) -> "subprocess.Popen[bytes]":
        """Start an endless answer of the tiny model, for what happens in its middle."""
        return self.start_command("ask", "--model", str(self.model), *arguments, **more)

    def start_command(self, *arguments: str, **more: str) -> "subprocess.Popen[bytes]":
        """Start any command, to be stopped on its way; there is nothing to read."""
        return subprocess.Popen(
            [*PROGRAM, *arguments],
            cwd=self.cwd,
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
