"""A session on disk and in memory: what happens is written down first and then counts.

Where sessions of a repository lie is in ``khepri.paths``. No model is known here.
"""

import os
import shutil
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from khepri.agent.events import Event
from khepri.agent.history import History, replay
from khepri.agent.journal import FORMAT, Journal, new_session_id, read_records
from khepri.agent.task import Question
from khepri.agent.words import describe_error
from khepri.errors import UsageError

_SUFFIX = ".jsonl"


@dataclass(frozen=True)
class SessionInfo:
    """What a list of sessions says of one."""

    session_id: str
    title: str
    """The first question in a few words."""
    turns: int
    changed: datetime
    """When it was last written to."""
    model: str
    size_bytes: int


class Recording:
    """One session that is being written. Any thread; the file appears with the first record.

    Args:
        path: The session's file, which may exist.
        repository: Root of the repository, for a new file.
        model: Name of the model, for a new file.
    """

    def __init__(self, path: Path, repository: Path, model: str) -> None:
        self.path = path
        self.history = _history_of(path) if os.path.exists(path) else History(path.stem, str(repository), model)
        self._journal: Journal | None = None
        self._lock = threading.RLock()
        if os.path.exists(path):
            self._journal = Journal(path, time.monotonic, self.history.apply)

    def question(self, question: Question) -> None:
        """Write what the user asks.

        Raises:
            UsageError: Another process writes this session.
        """
        with self._lock:
            self._opened().question(question)

    def change(self, text: str) -> None:
        """Write what the user wants to have changed.

        Raises:
            UsageError: Another process writes this session.
        """
        with self._lock:
            self._opened().append("change", text=text)

    def witness(self, event: Event | BaseException) -> None:
        """Write what happens in a turn."""
        with self._lock:
            if isinstance(event, BaseException):
                if self._journal is None:
                    return  # what failed is to open it
                self._journal.failure(type(event).__name__, *describe_error(event))
            else:
                self._opened().event(event)

    def tokens(self, ids: tuple[int, ...], stable_tokens: int) -> None:
        """Write the prompt after a turn: only what is new in it; the first ``stable_tokens`` are the preamble."""
        with self._lock:
            before = self.history.prompt
            start = len(before) if ids[: len(before)] == before else 0
            self._opened().tokens(start, ids[start:], stable_tokens)

    def append(self, kind: str, **fields: object) -> None:
        """Write a record of another kind: ``compact``, ``rewind``, ``model``, ``added``, ``dropped``."""
        with self._lock:
            self._opened().append(kind, **fields)

    @property
    def problem(self) -> str:
        """Why nothing is written any more; empty while all is well."""
        return self._journal.problem if self._journal is not None else ""

    def fork(self, path: Path) -> "Recording":
        """Return a copy of the session as it is now, under another name.

        Raises:
            UsageError: There is nothing to copy yet.
            OSError: It could not be copied.
        """
        with self._lock:
            if self._journal is None:
                raise UsageError("nothing has been said yet", "ask something first")
            shutil.copyfile(self.path, path)
            os.chmod(path, 0o600)
        return Recording(path, Path(self.history.repository), self.history.model)

    def close(self) -> None:
        """Let others write it. Harmless twice."""
        with self._lock:
            if self._journal is not None:
                self._journal.close()
                self._journal = None

    def _opened(self) -> Journal:
        if self._journal is None:
            is_new = not os.path.exists(self.path)
            self._journal = Journal(self.path, time.monotonic, self.history.apply)
            if not is_new:
                return self._journal
            self._journal.append(
                "session",
                format=FORMAT,
                id=self.path.stem,
                repository=self.history.repository,
                model=self.history.model,
                started=datetime.now(UTC).isoformat(timespec="seconds"),
            )
        return self._journal


def new_path(folder: Path) -> Path:
    """Return the path of a session that begins now."""
    return folder / f"{new_session_id(datetime.now(UTC), os.urandom(2))}{_SUFFIX}"


def find_session(folder: Path, name: str) -> Path:
    """Return the path of the session whose id is or begins with ``name``.

    Raises:
        UsageError: There is none, or more than one.
    """
    found = sorted(path for path in folder.glob(f"*{_SUFFIX}") if path.stem.startswith(name))
    exact = [path for path in found if path.stem == name]
    if len(exact or found) != 1:
        what = f"{len(found)} sessions of this repository begin" if found else "no session of this repository begins"
        raise UsageError(f"{what} with {name!r}", "see: khepri sessions")
    return (exact or found)[0]


def list_sessions(folder: Path) -> tuple[SessionInfo, ...]:
    """Return the sessions in a folder, the one that was last written to first."""
    infos = []
    for path in folder.glob(f"*{_SUFFIX}"):
        try:
            history = _history_of(path)
            state = path.stat()
        except (UsageError, OSError):
            continue
        if history.turns:
            changed = datetime.fromtimestamp(state.st_mtime, UTC)
            infos.append(
                SessionInfo(path.stem, history.title, len(history.turns), changed, history.model, state.st_size)
            )
    return tuple(sorted(infos, key=lambda info: (info.changed, info.session_id), reverse=True))


def _history_of(path: Path) -> History:
    return replay(path.stem, read_records(path))
