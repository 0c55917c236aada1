"""What a task is made of on the command line: files that are named, text that is piped in, and a way to stop it."""

import os
import select
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from khepri.agent.task import Attachment
from khepri.errors import ToolError, UsageError
from khepri.repo.text import decode, printable, read_text

_PATIENCE_S = 1.0
_MOST_BYTES = 2_000_000
_PART = "pass the part that matters: sed -n 1,200p FILE | khepri ask …"


@contextmanager
def interrupt_calls(cancel: Callable[[], None]) -> Iterator[None]:
    """Let the first interrupt end the task in good order, so that no piece of the answer is lost; a second one cuts."""

    def stop(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        cancel()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def attach(cwd: Path, file: Path) -> Attachment:
    """Read a file that the user named, wherever it lies: naming it is the permission."""
    # Not Path.resolve, which gives up on a loop of links with an error of its own before Python 3.13.
    path = Path(os.path.realpath((cwd / file).expanduser()))
    try:
        content = read_text(path)
    except ToolError as error:
        raise UsageError(f"--file {file}: {error.message} (in {path.parent})", "name a text file") from error
    if content.is_cut:
        raise UsageError(
            f"--file {file}: {content.size_bytes / 1e6:.0f} MB is more than any context holds",
            _PART,
        )
    return Attachment(printable(str(file)), content.text)


def standard_input(question: str | None) -> str:
    """Return what is piped in; empty on a terminal, and where there is nothing to read from.

    Raises:
        UsageError: It is not text.
    """
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return ""
    is_asked_for = question in (None, "", "-")
    if os.isatty(0) and not is_asked_for:
        return ""
    if not is_asked_for and not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
        return ""
    _say_if_waiting()
    data = sys.stdin.buffer.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise UsageError(f"standard input has more than {_MOST_BYTES / 1e6:.0f} MB: no context holds that", _PART)
    try:
        return decode(data).text if data else ""
    except ToolError as error:
        raise UsageError(f"standard input is not text: {error.message}", "pipe text in") from error


def _say_if_waiting() -> None:
    ready, _, _ = select.select([0], [], [], _PATIENCE_S)
    if not ready:
        how = "end it with Ctrl-D" if os.isatty(0) else "close it with < /dev/null if there is none"
        print(f"khepri: reading standard input; {how}", file=sys.stderr)
