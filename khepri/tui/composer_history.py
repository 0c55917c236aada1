"""The messages that the user wrote before, in this session and in earlier ones.

They lie in one file for all repositories, for the user's eyes only, with the pastes that they name unless those are
very long. A file that cannot be read or written is an empty one.
"""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from khepri.tui.pastes import Paste

_MOST_MESSAGES: Final = 1000
_MOST_CHARS: Final = 20_000
_MOST_PASTED_CHARS: Final = 200_000
_MOST_BYTES: Final = 4_000_000


class ComposerHistory:
    """Goes back and forth through earlier messages. The draft that was being written is kept at the end."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._messages: list[str] = []
        self._pastes: dict[str, Paste] = {}
        for message, pastes in _read(file):
            self._messages.append(message)
            self._keep(pastes)
        self._draft = ""
        self._place = len(self._messages)

    @property
    def messages(self) -> tuple[str, ...]:
        """The messages from before, oldest first."""
        return tuple(self._messages)

    def pastes_in(self, message: str) -> tuple[Paste, ...]:
        """Return the pastes that a message names, as far as they are still there."""
        return tuple(paste for label, paste in self._pastes.items() if label in message)

    def add(self, message: str, pastes: Iterable[Paste] = ()) -> None:
        """Remember a message with what it names; a repeated or a very long one is not remembered."""
        is_new = not self._messages or self._messages[-1] != message
        if message and is_new and len(message) <= _MOST_CHARS:
            self._messages.append(message)
            self._keep(pastes)
            kept = [paste for paste in pastes if len(paste.text) <= _MOST_PASTED_CHARS]
            _append(self._file, message, kept)
        self._place = len(self._messages)
        self._draft = ""

    def _keep(self, pastes: Iterable[Paste]) -> None:
        self._pastes |= {paste.label: paste for paste in pastes}

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


def _read(file: Path) -> list[tuple[str, list[Paste]]]:
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, os.fstat(opened.fileno()).st_size - _MOST_BYTES))
            lines = opened.read().split(b"\n")
    except OSError:
        return []
    return [read for line in lines if (read := _parsed(line)) is not None][-_MOST_MESSAGES:]


def _parsed(line: bytes) -> tuple[str, list[Paste]] | None:
    """Return a message with its pastes; None for a torn line, or the middle of one."""
    try:
        written = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if isinstance(written, str):
        return written, []
    if not isinstance(written, dict) or not isinstance(written.get("text"), str):
        return None
    pastes = written.get("pastes")
    pairs = pastes.items() if isinstance(pastes, dict) else ()
    return written["text"], [Paste(label, text) for label, text in pairs if isinstance(text, str)]


def _append(file: Path, message: str, pastes: list[Paste]) -> None:
    named = {paste.label: paste.text for paste in pastes}
    # A blank line first ends one that was torn.
    line = b"\n" + json.dumps({"text": message, "pastes": named} if named else message).encode() + b"\n"
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        opened = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        with open(opened, "ab", buffering=0) as lines:
            lines.write(line)
    except OSError:
        return
