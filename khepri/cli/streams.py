"""The three standard streams, made usable whatever the caller closed and whatever encoding it asked for."""

import io
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer


def prepare() -> None:
    """Make the three streams usable, whatever the caller closed and whatever encoding it asked for.

    Left closed, their numbers would go to the next files that are opened, and what a library prints into those files.
    """
    # A closed standard output gets a descriptor that refuses what is written: an answer that nobody gets is a failure.
    for descriptor, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, mode)  # takes the lowest free number, which is this one
    sys.stdin = sys.stdin or open(0, closefd=False)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    encoding = sys.stderr.encoding if sys.stderr else None
    words = io.BufferedWriter(_Words(2, "w", closefd=False))
    sys.stderr = io.TextIOWrapper(words, encoding, errors="replace", line_buffering=True)


class _Words(io.FileIO):
    """A descriptor for words beside the result: where they cannot be written they are lost, and nothing fails."""

    def write(self, data: "Buffer") -> int:
        try:
            written = super().write(data)
        except OSError:
            written = None
        return memoryview(data).nbytes if written is None else written
