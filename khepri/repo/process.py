"""Runs a program with a limit on its time and on what it may write.

Which programs are run, and why, is not known here.
"""

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

_CHUNK_BYTES: Final = 65536
_MOST_ERROR_BYTES: Final = 8192


@dataclass(frozen=True)
class Completed:
    """How a program ended."""

    status: int
    """Exit status; negative for the signal that ended it."""
    output: bytes
    """Its standard output, as far as the limit allowed."""
    errors: str
    """The beginning of its standard error; empty if that was merged into the output."""
    dropped_bytes: int
    """Bytes of output beyond the limit."""
    timed_out: bool
    """True if it was killed because its time was over."""


def run_bounded(
    command: Sequence[str], *, cwd: Path, timeout_s: float, most_bytes: int, merge_errors: bool = False
) -> Completed:
    """Run a program without a shell and without input, and wait for it.

    The program leads a session of its own: when its time is over, its children are killed with it.

    Args:
        command: The program and its arguments.
        cwd: Where it runs.
        timeout_s: Most seconds.
        most_bytes: Most bytes of output to keep; the rest is read and dropped, so that memory stays bounded.
        merge_errors: True sends standard error into the output.

    Raises:
        OSError: The program cannot be started.
        ValueError: An argument holds a NUL byte.
    """
    with tempfile.TemporaryFile() as errors:
        with subprocess.Popen(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merge_errors else errors,
            start_new_session=True,
        ) as process:
            expired = threading.Event()

            def kill() -> None:
                expired.set()
                _kill_session(process.pid)

            watchdog = threading.Timer(timeout_s, kill)
            watchdog.daemon = True
            watchdog.start()
            try:
                assert process.stdout is not None
                output, dropped = _drain(process.stdout, most_bytes)
                # A program may close its output and run on; the watchdog ends it then.
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            finally:
                watchdog.cancel()
                # The process is not reaped yet, so its id cannot belong to a stranger.
                _kill_session(process.pid)
                status = process.wait()
        errors.seek(0)
        text = errors.read(_MOST_ERROR_BYTES).decode("utf-8", errors="replace")
    return Completed(status=status, output=output, errors=text, dropped_bytes=dropped, timed_out=expired.is_set())


def _drain(stream: IO[bytes], most_bytes: int) -> tuple[bytes, int]:
    kept = bytearray()
    dropped = 0
    while chunk := stream.read(_CHUNK_BYTES):
        room = most_bytes - len(kept)
        kept += chunk[:room]
        dropped += max(0, len(chunk) - room)
    return bytes(kept), dropped


def _kill_session(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # It has ended already; macOS reports a group of zombies as not permitted.
        return
