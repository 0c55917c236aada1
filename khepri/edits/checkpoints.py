"""Remembers every applied change, so that it can be taken back: exactly the files it touched, without git.

A checkpoint is one archive in the user's own state folder: a record, and the content of each file before and after. It
is complete on the disk before the first file of the repository is written, so that a change which was broken off can
be taken back too. Nothing here writes into the repository.
"""

import fcntl
import hashlib
import io
import json
import os
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.files import digest, write_atomically
from khepri.edits.refusal import EditRefusedError, Refusal

MOST_CHECKPOINTS: Final = 100
"""Checkpoints kept for one repository; the oldest go first."""
_ARCHIVE_SUFFIX: Final = ".zip"
_DONE_SUFFIX: Final = ".done"
_UNDONE_SUFFIX: Final = ".undone"
_RECORD: Final = "record.json"
_VERSION: Final = 1


@dataclass(frozen=True)
class Checkpoint:
    """A change that was applied, or was being applied when it was broken off."""

    number: int
    """Its place in the repository's history of changes, from 1; what ``khepri undo N`` takes."""
    applied_s: float
    """When, in seconds since 1970."""
    is_complete: bool
    """False if writing was broken off in between; some files may be written, others not."""
    changes: ChangeSet
    """What was to change, with the files before and after."""


class Checkpoints:
    """The checkpoints of one repository. Any thread; processes keep out of each other's way by ``locked``."""

    def __init__(self, root: Path, folder: Path) -> None:
        """Name the place; nothing is read or made.

        Args:
            root: Real path of the repository's root.
            folder: ``paths.checkpoints_dir()``; each repository has a folder of its own in it.
        """
        self._root = root
        self._folder = folder / hashlib.sha256(os.fsencode(root)).hexdigest()[:24]

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from changing this repository through Khepri meanwhile.

        Raises:
            EditRefusedError: One is at it.
            OSError: The folder cannot be made or written.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._folder / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise EditRefusedError(
                    Refusal.BUSY, "another khepri is changing this repository", "wait until it is done"
                ) from error
            yield

    def begin(self, changes: ChangeSet, applied_s: float) -> int:
        """Write down a change that is about to be applied, and return its number. Only while ``locked``.

        Raises:
            OSError: It cannot be kept; then it must not be applied.
        """
        # A number that somebody has seen never comes to mean another change.
        number = max((*self._numbers(), *self._numbers(_UNDONE_SUFFIX)), default=0) + 1
        record = {
            "version": _VERSION,
            "root": str(self._root),
            "title": changes.title,
            "applied_s": applied_s,
            "files": [
                {
                    "path": change.path,
                    "before": digest(change.before),
                    "after": digest(change.after),
                    "mode": change.mode,
                }
                for change in changes.files
            ],
        }
        data = io.BytesIO()
        with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(_RECORD, json.dumps(record, indent=1))
            for index, change in enumerate(changes.files):
                for side, content in (("before", change.before), ("after", change.after)):
                    if content is not None:
                        archive.writestr(f"{index}.{side}", content)
        self._mark(number, _DONE_SUFFIX).unlink(missing_ok=True)
        write_atomically(self._archive(number), data.getvalue())
        self._archive(number).chmod(0o600)
        for old in sorted(self._numbers())[:-MOST_CHECKPOINTS]:
            self.forget(old)
        return number

    def complete(self, number: int) -> None:
        """Note that every file of the change was written."""
        write_atomically(self._mark(number, _DONE_SUFFIX), b"")

    def fold(self, first: int, second: int) -> int:
        """Make one checkpoint of two that follow one another, and return its number. Takes the lock itself.

        Raises:
            EditRefusedError: One of them cannot be read, or another Khepri is at work; both stay.
            OSError: The new one cannot be kept; both stay.
        """
        with self.locked():
            early, late = self.load(first), self.load(second)
            number = self.begin(early.changes.merged(late.changes), late.applied_s)
            self.complete(number)
            self.forget(second)
            self.forget(first)
        return number

    def mark_undone(self, number: int) -> None:
        """Note that a change was taken back, and remove its checkpoint. Only while ``locked``."""
        for old in sorted(self._numbers(_UNDONE_SUFFIX))[: -MOST_CHECKPOINTS + 1]:
            self._mark(old, _UNDONE_SUFFIX).unlink(missing_ok=True)
        write_atomically(self._mark(number, _UNDONE_SUFFIX), b"")
        self.forget(number)

    def is_undone(self, number: int) -> bool:
        """Tell if a change of that number was taken back."""
        return self._mark(number, _UNDONE_SUFFIX).exists()

    def forget(self, number: int) -> None:
        """Remove a checkpoint, because nothing of its change was written, or another one stands for it."""
        self._archive(number).unlink(missing_ok=True)
        self._mark(number, _DONE_SUFFIX).unlink(missing_ok=True)

    def load(self, number: int) -> Checkpoint:
        """Return a checkpoint with the content of its files.

        Raises:
            EditRefusedError: There is none of that number, or it is damaged.
        """
        try:
            with zipfile.ZipFile(self._archive(number)) as archive:
                record = json.loads(archive.read(_RECORD))
                files = [_read_file(archive, index, entry) for index, entry in enumerate(record["files"])]
                changes = change_set(str(record["title"]), files)
                return Checkpoint(
                    number, float(record["applied_s"]), self._mark(number, _DONE_SUFFIX).exists(), changes
                )
        except FileNotFoundError as error:
            raise EditRefusedError(
                Refusal.NO_CHECKPOINT, f"there is no change number {number}", "khepri undo --list shows them"
            ) from error
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            raise EditRefusedError(
                Refusal.NO_CHECKPOINT, f"the record of change {number} is damaged", f"see {self._archive(number)}"
            ) from error

    def all(self) -> list[Checkpoint]:
        """Return the checkpoints that can be read, the latest first."""
        found = []
        for number in sorted(self._numbers(), reverse=True):
            try:
                found.append(self.load(number))
            except EditRefusedError:  # a damaged one cannot be offered; `load` by its number says why
                continue
        return found

    def _numbers(self, suffix: str = _ARCHIVE_SUFFIX) -> list[int]:
        try:
            names = [Path(name) for name in os.listdir(self._folder)]
        except FileNotFoundError:
            return []
        return [int(name.stem) for name in names if name.suffix == suffix and name.stem.isdecimal()]

    def _archive(self, number: int) -> Path:
        return self._mark(number, _ARCHIVE_SUFFIX)

    def _mark(self, number: int, suffix: str) -> Path:
        return self._folder / f"{number:06d}{suffix}"


def _read_file(archive: zipfile.ZipFile, index: int, entry: dict[str, Any]) -> FileChange:
    sides: dict[str, bytes | None] = {}
    for side in ("before", "after"):
        data = None if entry[side] == digest(None) else archive.read(f"{index}.{side}")
        if digest(data) != entry[side]:
            raise ValueError(f"{index}.{side} is not what was written")
        sides[side] = data
    return FileChange(entry["path"], sides["before"], sides["after"], entry.get("mode"))
