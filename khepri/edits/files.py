"""Reads and writes the files of a repository as whole byte strings, each write atomic.

A write goes to a temporary file in the same folder, which then takes the place of the old one in a single step: a kill
at any moment leaves the old file or the new one. Mode, owner and extended attributes are kept; a symbolic link stays
and its target is written. What is written, and whether it may be, is decided elsewhere.
"""

import contextlib
import hashlib
import os
import re
import secrets
import stat
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.repo.text import printable

TEMPORARY_PREFIX: Final = ".khepri-"
_TEMPORARY_SUFFIX: Final = ".tmp"
_TEMPORARY: Final = re.compile(r"\.khepri-(\d{1,10})-[0-9a-f]{12}\.tmp")
_RANDOM_BYTES: Final = 6
_LONGEST_WRITE_S: Final = 300.0
"""How long a file may lie staged; the process may run in a container, where it cannot be seen."""
_MOST_BYTES: Final = 20_000_000
_READ_FLAGS: Final = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | os.O_CLOEXEC
_AGAIN: Final = "put a file that can be read in its place, or leave it out, and ask again"


def read_bytes(path: Path) -> bytes | None:
    """Return the whole content of a regular file; None if nothing is there.

    Raises:
        EditRefusedError: It is no regular file, cannot be read, or is larger than 20 MB.
    """
    shown = printable(path.name)
    try:
        descriptor = os.open(path, _READ_FLAGS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EditRefusedError(Refusal.UNREADABLE, f"{shown} cannot be read: {error.strerror}", _AGAIN) from error
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise EditRefusedError(Refusal.UNREADABLE, f"{shown} is not a regular file", _AGAIN)
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > _MOST_BYTES:
            raise EditRefusedError(Refusal.UNREADABLE, f"{shown} is larger than {_MOST_BYTES // 1_000_000} MB")
        return file.read()


def digest(data: bytes | None) -> str:
    """Return what stands for a content in a record; a missing file has one of its own."""
    return "absent" if data is None else hashlib.sha256(data).hexdigest()


@dataclass(frozen=True)
class Staged:
    """New content that lies beside its file, complete and on the disk, and only has to take its place."""

    target: Path
    """The file that it is for."""
    temporary: Path | None
    """Where the content is; None if the file is to go."""

    def commit(self, before: bytes | None) -> None:
        """Put it in its place if the file still is what it was.

        Args:
            before: The content that the file must have; None if there must be no file.

        Raises:
            EditRefusedError: The file has changed.
            OSError: The system refused; the file is as it was.
        """
        if read_bytes(self.target) != before:
            raise changed_since(self.target)
        if self.temporary is None:
            os.unlink(self.target)
        elif before is None:
            _place_new(self.temporary, self.target)
        else:
            os.replace(self.temporary, self.target)
        sync_folder(self.target.parent)

    def discard(self) -> None:
        """Remove what was staged and not committed."""
        if self.temporary is not None:
            with contextlib.suppress(OSError):
                os.unlink(self.temporary)


def changed_since(path: Path) -> EditRefusedError:
    """Return the error for a file that is not what it was when it was read."""
    return EditRefusedError(
        Refusal.CHANGED_ON_DISK,
        f"{printable(path.name)} has changed on disk since it was read; it was not written",
        "ask again, so that the change is made on what is there now",
    )


def mode_of(path: Path) -> int | None:
    """Return the permission bits of a file, links not followed; None if nothing is there."""
    status = _status(path)
    return None if status is None else stat.S_IMODE(status.st_mode)


def stage(target: Path, data: bytes | None, mode: int | None = None) -> Staged:
    """Write ``data`` beside ``target``, flushed to the disk, with the target's mode, owner and attributes.

    Args:
        target: The file that it is for.
        data: Its new content; None if it is to go.
        mode: Permission bits, if the target does not exist and had some; else those of any new file.

    Raises:
        OSError: The system refused, for example because the disk is full; it names the target, and nothing is left
            behind.
    """
    if data is None:
        return Staged(target, None)
    unique = f"{os.getpid()}-{secrets.token_hex(_RANDOM_BYTES)}"
    temporary = target.parent / f"{TEMPORARY_PREFIX}{unique}{_TEMPORARY_SUFFIX}"
    status = _status(target)
    try:
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if status is None else 0o600
        )
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if status is not None:
                _copy_attributes(target, status, file.fileno())
            elif mode is not None:
                os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
    except BaseException as error:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            # A write that fails names no file, and nobody knows the temporary one.
            error.filename = str(target)
        raise
    return Staged(target, temporary)


def remove_leftovers(folder: Path, *, is_locked: bool = False) -> None:
    """Remove what writes that were killed have left in a folder: of this user's, of processes that are no more.

    Args:
        folder: Where to look; one that cannot be listed is left alone.
        is_locked: True while no other Khepri of this user's writes there; otherwise what is young is left as well.
    """
    try:
        names = [name for name in os.listdir(folder) if name.startswith(TEMPORARY_PREFIX)]
    except OSError:
        return
    for name in names:
        # The whole form of the name: a user's own file may begin and end like it.
        found = _TEMPORARY.fullmatch(name)
        status = _status(folder / name) if found is not None else None
        if found is None or status is None or not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            continue
        is_old = is_locked or time.time() - status.st_mtime > _LONGEST_WRITE_S
        if is_old and not _is_alive(int(found[1])):
            with contextlib.suppress(OSError):
                os.unlink(folder / name)


def write_atomically(target: Path, data: bytes) -> None:
    """Write a file of Khepri's own, whatever was there before.

    Raises:
        OSError: The system refused; what was there is as it was.
    """
    remove_leftovers(target.parent)
    staged = stage(target, data)
    assert staged.temporary is not None
    try:
        os.replace(staged.temporary, target)
    except BaseException:
        staged.discard()
        raise
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Have the system write down which names a folder holds, where it can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # somebody else's
        return True
    return True


def _status(target: Path) -> os.stat_result | None:
    try:
        return os.lstat(target)
    except FileNotFoundError:
        return None


def _copy_attributes(source: Path, status: os.stat_result, descriptor: int) -> None:
    if (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid()):
        # Only root may give a file away; anyone else keeps it, as every editor does that saves by renaming.
        with contextlib.suppress(PermissionError):
            os.fchown(descriptor, status.st_uid, status.st_gid)
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            for name in os.listxattr(source):
                os.setxattr(descriptor, name, os.getxattr(source, name))
    os.fchmod(descriptor, stat.S_IMODE(status.st_mode))


def _place_new(temporary: Path, target: Path) -> None:
    """Give a new file its name without ever replacing one that has appeared meanwhile."""
    try:
        os.link(temporary, target)
    except FileExistsError as error:
        raise changed_since(target) from error
    except OSError:
        # A file system without hard links.
        if os.path.lexists(target):
            raise changed_since(target) from None
        os.replace(temporary, target)
        return
    # The file is in place; a second name that stays is no reason to call that a failure.
    with contextlib.suppress(OSError):
        os.unlink(temporary)
