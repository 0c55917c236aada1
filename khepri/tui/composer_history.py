"""The messages that the user wrote before, in this session and in earlier ones.

They lie in one file for all repositories, for the user's eyes only. A file that cannot be read or written is an empty
one.
"""

import json
import os
from pathlib import Path
from typing import Final

_MOST_MESSAGES: Final = 1000
_MOST_CHARS: Final = 20_000
_MOST_BYTES: Final = 4_000_000


class ComposerHistory:
    """Goes back and forth through earlier messages. The draft that was being written is kept at the end."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._messages = _read(file)
        self._draft = ""
        self._place = len(self._messages)

    @property
    def messages(self) -> tuple[str, ...]:
        """The messages from before, oldest first."""
        return tuple(self._messages)

    def add(self, message: str) -> None:
        """Remember a message; a repeated or a very long one is not remembered."""
        is_new = not self._messages or self._messages[-1] != message
        if message and is_new and len(message) <= _MOST_CHARS:
            self._messages.append(message)
            _append(self._file, message)
        self._place = len(self._messages)
        self._draft = ""

    def older(self, written: str) -> str | None:
        """Return the message before, or None if there is none; ``written`` is what the composer holds."""
        if not self._place:
            return None
        if self._place == len(self._messages):
            self._draft = written
        self._place -= 1
        return self._messages[self._place]

    def newer(self) -> str | None:
        """Return the message after, the draft at last, or None if there is none."""
        if self._place == len(self._messages):
            return None
        self._place += 1
        return self._draft if self._place == len(self._messages) else self._messages[self._place]


def _read(file: Path) -> list[str]:
    messages: list[str] = []
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - _MOST_BYTES))
            lines = opened.read().split(b"\n")
    except OSError:
        return messages
    for line in lines:
        try:
            message = json.loads(line)
        except ValueError:
            continue  # a torn line, or the middle of one
        if isinstance(message, str):
            messages.append(message)
    return messages[-_MOST_MESSAGES:]


def _append(file: Path, message: str) -> None:
    # A blank line first ends one that was torn.
    line = b"\n" + json.dumps(message).encode() + b"\n"
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with open(opened, "ab", buffering=0) as lines:
            lines.write(line)
    except OSError:
        return
