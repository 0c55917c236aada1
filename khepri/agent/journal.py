"""The session file: everything that happened, one JSON object a line, only ever appended.

A process may be killed at any moment. A last line that was torn is skipped by readers and closed by the next writer, so
that nothing else is lost. One process writes a session at a time. What the records mean to a model is not known here.
"""

import fcntl
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from khepri.agent.events import (
    AnswerDelta,
    ChangesApplied,
    CheckFinished,
    Compacted,
    Event,
    Finished,
    Notice,
    PlanMade,
    StepFinished,
    ToolFinished,
)
from khepri.agent.task import Question
from khepri.agent.words import describe_changes, describe_check
from khepri.errors import UsageError

FORMAT: Final = 1
"""Version of the records; a reader skips files of later ones."""
Record = Mapping[str, object]
"""One line: ``kind``, and what belongs to a record of that kind."""

_DELTA_S: Final = 1.0
# What they hold has records of its own.
_NOT_REPEATED: Final = frozenset({"steps", "report"})


class Journal:
    """The open file of one session. Its methods may be called by one thread at a time.

    Args:
        path: The file; made with its folder if there is none, for the user's eyes only.
        clock: Monotonic seconds, for how often a growing answer is written down.
        told: Gets each record after it was written.

    Raises:
        UsageError: Another process writes this session.
    """

    def __init__(self, path: Path, clock: Callable[[], float], told: Callable[[Record], None]) -> None:
        self.path = path
        self._clock = clock
        self._told = told
        self.problem = ""
        """Why nothing is written any more, for the user to read; empty while all is well."""
        self._answer: list[str] = []
        self._written_s = clock()
        self._file = -1
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self.problem = f"the session cannot be saved: {error.strerror} ({path.parent})"
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise UsageError(
                f"the session {path.stem} is open in another Khepri", "leave that one, or begin anew: khepri"
            ) from None
        self._close_torn_line()

    def append(self, kind: str, **fields: object) -> None:
        """Write one record. Costs one system call; where that fails, ``problem`` says so and the talk goes on."""
        self._write({"kind": kind, **fields})

    def question(self, question: Question) -> None:
        """Write what the user asks."""
        self.append("question", **asdict(question))

    def event(self, event: Event) -> None:
        """Write an event, if it is one that outlives its turn. A growing answer is written about once a second."""
        match event:
            case AnswerDelta(text):
                self._answer.append(text)
                if self._clock() - self._written_s > _DELTA_S:
                    self._flush_answer()
            case ToolFinished():
                self.append("step", **asdict(event))
            case Notice(text, is_warning):
                self.append("notice", text=text, is_warning=is_warning)
            case PlanMade(steps):
                rows = "\n".join(f"{number}. {step}" for number, step in enumerate(steps, 1))
                self.append("notice", text=rows, is_warning=False)
            case StepFinished(number, total, text, is_refused):
                self.append("notice", text=f"{number} of {total}: {text}", is_warning=is_refused)
            case ChangesApplied():
                self._append_work(*describe_changes(event), is_error=False)
            case CheckFinished():
                self._append_work(*describe_check(event), is_error=not event.passed)
            case Compacted():
                self.append("compacted", **asdict(event))
            case Finished():
                self._flush_answer()
                self.append(
                    "finished", **{key: value for key, value in asdict(event).items() if key not in _NOT_REPEATED}
                )
            case _:
                pass

    def _append_work(self, title: str, outcome: str, text: str, *, is_error: bool) -> None:
        self.append("work", title=title, outcome=outcome, text=text, is_error=is_error)

    def failure(self, error_type: str, message: str, hint: str) -> None:
        """Write that a turn failed."""
        self._flush_answer()
        self.append("failure", error=error_type, message=message, hint=hint)

    def tokens(self, start: int, ids: Sequence[int], stable: int) -> None:
        """Write the token ids that follow the first ``start`` ones of the prompt, and wait until the disk has them.

        ``stable`` of all the ids are the preamble's.
        """
        self.append("tokens", start=start, ids=list(ids), stable=stable)
        if not self.problem:
            self._try_to(lambda: os.fsync(self._file))

    def close(self) -> None:
        """Write what is left and let others write. Harmless twice."""
        if self._file >= 0:
            self._flush_answer()
            os.close(self._file)
            self._file = -1

    def check_integrity(self) -> None:
        """Assert that the file begins with its session and that what is appended next begins a line."""
        data = self.path.read_bytes()
        assert not data or data.endswith(b"\n"), "the last line is complete"
        records = read_records(self.path)
        assert not records or records[0]["kind"] == "session", "a session comes first"

    def _flush_answer(self) -> None:
        self._written_s = self._clock()
        if self._answer:
            text = "".join(self._answer)
            self._answer.clear()
            self.append("answer", text=text)

    def _write(self, record: Record) -> None:
        line = json.dumps(record, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"
        if not self.problem:
            self._try_to(lambda: self._write_all(line))
        self._told(json.loads(line))

    def _write_all(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._file, data) :]

    def _close_torn_line(self) -> None:
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            self._try_to(lambda: self._write_all(b"\n"))

    def _try_to(self, work: Callable[[], None]) -> None:
        """Do what needs the disk; where that fails, nothing more is written and the talk goes on."""
        try:
            work()
        except OSError as error:
            self.problem = (
                f"the session is not saved any more: {self.path} cannot be written ({error.strerror}); "
                "the conversation goes on, and what was saved stays"
            )


def is_written(path: Path) -> bool:
    """Return True if a process has a session file open to write it."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def read_records(path: Path) -> list[Record]:
    """Return the records of a session file in order, without what cannot be read.

    Raises:
        UsageError: The file cannot be opened, or a later version of Khepri wrote it.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UsageError(f"the session {path.stem} cannot be read: {error.strerror}", "see: khepri sessions") from error
    records = [record for line in data.split(b"\n") if (record := _parsed(line)) is not None]
    written_as = next((record.get("format") for record in records if record["kind"] == "session"), FORMAT)
    if isinstance(written_as, int) and written_as > FORMAT:
        raise UsageError(f"the session {path.stem} was written by a later Khepri", "use that one to read it")
    return records


def new_session_id(now: datetime, entropy: bytes) -> str:
    """Return an id that sorts by time, such as ``20260102-030405-9f3a``."""
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{entropy.hex()[:4]}"


def _parsed(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) and isinstance(record.get("kind"), str) else None
