"""The half-made model on disk: what makes a pull resumable, exclusive and safe on a full disk.

Everything of an unfinished pull lives in ``<models>/.partial/<name>/``, where discovery never looks; a finished file
leaves it by one atomic rename. Nothing here knows the network.
"""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from khepri.errors import PullError, is_disk_full

_COPY_BYTES = 1 << 20


def readable_bytes(count: int) -> str:
    """Return a byte count for people, such as ``1.1 GB``."""
    for size, unit in ((1e9, "GB"), (1e6, "MB")):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1e3:.1f} kB"


@contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turn what the operating system says about ``path`` into words.

    Raises:
        PullError: The disk is full, or the path cannot be read or written.
    """
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            raise PullError(
                f"the disk is full: {path.parent} takes no more data ({error.strerror})",
                "free some space and run the same command again",
            ) from error
        raise PullError(
            f"cannot write {path}: {error.strerror or error}",
            "check the permissions of the folder, or set XDG_DATA_HOME to another one",
        ) from error


@contextmanager
def locked(path: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold the lock file ``path`` until the block or the process ends; wait while another process holds it.

    Args:
        path: The lock file; it and its folder are made if missing, and stay.
        waiting: Called once if another process has the lock, before waiting for it.

    Raises:
        PullError: The folder cannot be written, or its file system knows no locks.
    """
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not _try_lock(lock, path):
            waiting()
            with storage_errors(path):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _try_lock(lock: int, path: Path) -> bool:
    with storage_errors(path):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


class PartFile:
    """A file that grows at its end and knows its SHA-256. Belongs to one thread of one process.

    Opening an existing file reads it once, because a hash cannot be resumed from disk.
    """

    def __init__(self, path: Path, *, keep_bytes: int | None = None) -> None:
        """Open or create ``path`` for appending.

        Args:
            path: The file; its folder exists.
            keep_bytes: Bytes at the start that are known to be good; the rest is cut off. None keeps all.

        Raises:
            PullError: The file cannot be opened or read.
        """
        self.path = path
        self._hash = hashlib.sha256()
        self._size = 0
        with storage_errors(path):
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                present = os.fstat(self._file).st_size
                if keep_bytes is not None:
                    present = keep_bytes if keep_bytes <= present else 0
                    os.ftruncate(self._file, present)
                while self._size < present and (chunk := os.read(self._file, _COPY_BYTES)):
                    self._hash.update(chunk)
                    self._size += len(chunk)
            except BaseException:
                os.close(self._file)
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def size_bytes(self) -> int:
        """Bytes in the file."""
        return self._size

    @property
    def sha256(self) -> str:
        """Hash of the bytes in the file, in lower-case hexadecimal."""
        return self._hash.hexdigest()

    def append(self, chunk: bytes) -> None:
        """Write ``chunk`` at the end.

        Raises:
            PullError: The disk is full or failed.
        """
        with storage_errors(self.path):
            view = memoryview(chunk)
            while view:
                written = os.write(self._file, view)
                self._hash.update(view[:written])
                self._size += written
                view = view[written:]

    def restart(self) -> None:
        """Forget everything written.

        Raises:
            PullError: The disk failed.
        """
        with storage_errors(self.path):
            os.ftruncate(self._file, 0)
            os.lseek(self._file, 0, os.SEEK_SET)
        self._hash = hashlib.sha256()
        self._size = 0

    def sync(self) -> None:
        """Return when the bytes are on the disk.

        Raises:
            PullError: The disk is full or failed.
        """
        with storage_errors(self.path):
            os.fsync(self._file)

    def delete(self) -> None:
        """Close the file and delete it.

        Raises:
            PullError: The folder cannot be changed.
        """
        self.close()
        with storage_errors(self.path):
            self.path.unlink()

    def close(self) -> None:
        """Close the file and keep it. Calling it twice is harmless."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class PartialModel:
    """The folder of one model's unfinished pull, locked for one process.

    Make it with ``PartialModel.claim``. Which source the bytes came from is part of each file's name, so that a source
    that sent wrong bytes never spoils what another one delivered.
    """

    def __init__(self, models_dir: Path, name: str) -> None:
        self._models_dir = models_dir
        self.folder = models_dir / ".partial" / name

    @classmethod
    @contextmanager
    def claim(cls, models_dir: Path, name: str, waiting: Callable[[], None]) -> Iterator[Self]:
        """Hold the model's folder until the block ends; wait while another process holds it.

        Args:
            models_dir: Khepri's folder of models.
            name: The model's full name.
            waiting: Called once if another process has the lock, before waiting for it.

        Raises:
            PullError: The folder cannot be written.
        """
        partial = cls(models_dir, name)
        with locked(partial.folder.with_name(f"{name}.lock"), waiting):
            try:
                with storage_errors(partial.folder):
                    partial.folder.mkdir(exist_ok=True)
                yield partial
            finally:
                with suppress(OSError):
                    partial.folder.rmdir()

    def open_part(self, name: str, *, keep_bytes: int | None = None) -> PartFile:
        """Open a file of the unfinished pull for appending.

        Raises:
            PullError: The file cannot be opened or read.
        """
        return PartFile(self.folder / f"{name}.part", keep_bytes=keep_bytes)

    def read_journal(self, source: str) -> tuple[int, int]:
        """Return how many parts of a source are in its assembly, and how many bytes they are.

        A journal that is missing or makes no sense means that nothing is there.
        """
        try:
            entry = json.loads((self.folder / f"{source}.json").read_bytes())
            parts, size_bytes = entry["parts"], entry["bytes"]
        except (OSError, ValueError, KeyError, TypeError):
            return 0, 0
        if type(parts) is not int or type(size_bytes) is not int or parts < 0 or size_bytes < 0:
            return 0, 0
        return parts, size_bytes

    def write_journal(self, source: str, parts: int, assembly: PartFile) -> None:
        """Record that ``assembly`` holds the first ``parts`` parts of a source, after making sure it does.

        Raises:
            PullError: The disk is full or failed.
        """
        assembly.sync()
        path = self.folder / f"{source}.json"
        draft = path.with_suffix(".json.new")
        with storage_errors(path):
            with draft.open("w", encoding="ascii") as file:
                json.dump({"parts": parts, "bytes": assembly.size_bytes}, file)
                file.flush()
                os.fsync(file.fileno())
            draft.replace(path)

    def require_space(self, needed_bytes: int, keep: str) -> None:
        """Check that the disk has room for what is still to come.

        What other sources left behind is given up if that makes the room.

        Args:
            needed_bytes: Bytes that will be written.
            keep: The source whose files are needed.

        Raises:
            PullError: There is not enough room.
        """
        with storage_errors(self.folder):
            if shutil.disk_usage(self.folder).free < needed_bytes:
                for leftover in self.folder.iterdir():
                    if not leftover.name.startswith(keep):
                        leftover.unlink()
            free_bytes = shutil.disk_usage(self.folder).free
        if free_bytes < needed_bytes:
            raise PullError(
                f"not enough room in {self._models_dir}: {readable_bytes(needed_bytes)} are needed, "
                f"{readable_bytes(free_bytes)} are free",
                "free some space and run the same command again, or set XDG_DATA_HOME to a folder on a larger disk",
            )

    def finish(self, assembly: PartFile, target: Path) -> None:
        """Turn ``assembly`` into the model at ``target``, atomically, and forget the rest of the pull.

        Raises:
            PullError: The disk is full or failed; nothing appears at ``target``.
        """
        assembly.sync()
        assembly.close()
        with storage_errors(target):
            assembly.path.replace(target)
            folder = os.open(target.parent, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        self.discard()

    def discard(self) -> None:
        """Delete everything of the unfinished pull.

        Raises:
            PullError: The folder cannot be changed.
        """
        with storage_errors(self.folder):
            for leftover in self.folder.iterdir():
                leftover.unlink()
