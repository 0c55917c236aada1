"""Runs a program with a limit on its time and on what it may write.

Which programs are run, and why, is not known here.
"""

import os
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

_CHUNK_BYTES: Final = 65536
_MOST_ERROR_BYTES: Final = 8192
_PATIENCE_S: Final = 0.05
# A shell under a name of its own: what kills Khepri by name does not kill it too. The session of the program is $1.
_OUTLIVE: Final = "trap '' HUP INT TERM QUIT; read -r farewell || kill -s KILL -- \"-$1\""


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
    """Bytes of output beyond the limit, after what was kept or before it."""
    timed_out: bool
    """True if it was killed because its time was over."""
    was_cancelled: bool = False
    """True if it was killed because the caller asked for it."""


def run_bounded(
    command: Sequence[str],
    *,
    cwd: Path,
    timeout_s: float,
    most_bytes: int,
    keeps_end: bool = False,
    merge_errors: bool = False,
    cancelled: threading.Event | None = None,
    is_guarded: bool = False,
) -> Completed:
    """Run a program without a shell and without input, and wait for it.

    The program leads a session of its own: when its time is over, its children are killed with it.

    Args:
        command: The program and its arguments.
        cwd: Where it runs.
        timeout_s: Most seconds.
        most_bytes: Most bytes of output to keep; the rest is read and dropped, so that memory stays bounded.
        keeps_end: True keeps the end of the output instead of its beginning.
        merge_errors: True sends standard error into the output.
        cancelled: Kills it within a tenth of a second once another thread has set it.
        is_guarded: True has it killed with its children even where this process is killed outright.

    Raises:
        OSError: The program cannot be started.
        ValueError: An argument holds a NUL byte.
    """
    with tempfile.TemporaryFile() as errors:
        with (
            subprocess.Popen(
                command,
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if merge_errors else errors,
                start_new_session=True,
            ) as process,
            _guarded(process.pid) if is_guarded else nullcontext(),
        ):
            watchdog = _Watchdog(process.pid, timeout_s, cancelled)
            watchdog.start()
            try:
                assert process.stdout is not None
                output, dropped = _drain(process.stdout, most_bytes, keeps_end=keeps_end)
                # A program may close its output and run on; the watchdog ends it then.
                os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            finally:
                watchdog.stop()
                # The process is not reaped yet, so its id cannot belong to a stranger.
                _kill_session(process.pid)
                status = process.wait()
        errors.seek(0)
        text = errors.read(_MOST_ERROR_BYTES).decode("utf-8", errors="replace")
    return Completed(status, output, text, dropped, watchdog.has_expired, watchdog.was_cancelled)


@contextmanager
def _guarded(pid: int) -> Iterator[None]:
    """Have a small process kill a session if this process ends inside without a farewell."""
    guard = subprocess.Popen(
        ["sh", "-c", _OUTLIVE, "khepri-guard", str(pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    try:
        yield
    finally:
        with suppress(OSError):
            guard.communicate(b"farewell\n")


class _Watchdog(threading.Thread):
    """Kills a session when its time is over, or when somebody asks for it."""

    def __init__(self, pid: int, timeout_s: float, cancelled: threading.Event | None) -> None:
        super().__init__(name="khepri-watchdog", daemon=True)
        self._pid = pid
        self._timeout_s = timeout_s
        self._cancelled = cancelled
        self._stopped = threading.Event()
        self.has_expired = False
        self.was_cancelled = False

    def run(self) -> None:
        deadline_s = time.monotonic() + self._timeout_s
        while not self._stopped.wait(self._patience_s(deadline_s)):
            self.was_cancelled = self._cancelled is not None and self._cancelled.is_set()
            self.has_expired = not self.was_cancelled and time.monotonic() >= deadline_s
            if self.was_cancelled or self.has_expired:
                _kill_session(self._pid)
                return

    def stop(self) -> None:
        """Kill nothing from here on."""
        self._stopped.set()
        self.join()

    def _patience_s(self, deadline_s: float) -> float:
        left_s = max(0.0, deadline_s - time.monotonic())
        return left_s if self._cancelled is None else min(left_s, _PATIENCE_S)


def _drain(stream: IO[bytes], most_bytes: int, *, keeps_end: bool) -> tuple[bytes, int]:
    kept = bytearray()
    seen = 0
    while chunk := stream.read(_CHUNK_BYTES):
        seen += len(chunk)
        if keeps_end:
            kept += chunk
            del kept[:-most_bytes]
        else:
            kept += chunk[: most_bytes - len(kept)]
    return bytes(kept), seen - len(kept)


def _kill_session(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        # It has ended already; macOS reports a group of zombies as not permitted.
        return
