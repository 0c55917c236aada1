"""The folder that keeps compiled wheels: what lies there is whole, belongs to one package, and is written once.

How a wheel is compiled, and under which key it is kept, is ``native_wheel.py``'s business.
"""

import base64
import csv
import fcntl
import hashlib
import io
import os
import platform
import shutil
import sys
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

_CHECKOUT = Path(__file__).resolve().parent.parent
_RECORD = ".dist-info/RECORD"
_MOST_WHEEL_AND_LOG_BYTES = 160_000_000
_MOST_BUILD_BYTES = 300_000_000


class KeepError(Exception):
    """A wheel cannot be kept or compiled here; the message says what to do."""


def wheels_root(environment: Mapping[str, str]) -> Path:
    """Return the folder that keeps wheels: ``KHEPRI_WHEELS``, the user's cache, or ``.wheels`` if that is read-only.

    Raises:
        KeepError: ``KHEPRI_WHEELS`` lies in the home of a user who does not exist.
    """
    if named := environment.get("KHEPRI_WHEELS"):
        try:
            return Path(named).expanduser().resolve()
        except RuntimeError as error:
            raise KeepError(f"KHEPRI_WHEELS={named}: {error}; name another folder") from error
    home = Path(environment.get("HOME") or Path.home())
    cache = Path(environment.get("XDG_CACHE_HOME") or home / ".cache")
    cache = home / "Library" / "Caches" if platform.system() == "Darwin" else cache
    root = cache / "khepri" / "wheels"
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError:
        return _CHECKOUT / ".wheels"
    return root if os.access(root, os.W_OK) else _CHECKOUT / ".wheels"


def find(folder: Path, distribution: str) -> Path | None:
    """Return the wheel of a distribution in ``folder``, if one is there."""
    return next(iter(sorted(folder.glob(f"{distribution.replace('-', '_')}-*.whl"))), None)


def flaw(wheel: Path) -> str:
    """Return in what a wheel is not what was built, by the checksums that it holds; empty if it is whole."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            digests = dict(row[:2] for row in _record(archive))
            for name in archive.namelist():
                found = base64.urlsafe_b64encode(hashlib.sha256(archive.read(name)).digest()).decode().rstrip("=")
                if digests.pop(name, "") not in ("", f"sha256={found}"):
                    return f"{name} is not what was built"
            return f"{min(digests)} is missing" if digests else ""
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, LookupError, RuntimeError) as error:
        return str(error) or type(error).__name__


def is_tidy(wheel: Path, package: str) -> bool:
    """Return True if a whole wheel holds nothing but its package."""
    with zipfile.ZipFile(wheel) as archive:
        return all(_is_own(name, package) for name in archive.namelist())


def keep(wheel: Path, folder: Path, package: str) -> Path:
    """Write what of a whole wheel belongs to its package into ``folder``, and return it there.

    The builds of both libraries install headers, ``lib`` and ``bin`` of the same names beside their packages as well.
    Nobody loads those, and pip would write those of one over those of the other, and remove both with either.

    Raises:
        OSError: The folder cannot be written; nothing is left in it.
    """
    handle, name = tempfile.mkstemp(prefix=f".{wheel.name}.", suffix=".partial", dir=folder)
    partial = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            _write_tidy(wheel, file, package)
        partial.chmod(0o644)
        # The last step is a rename within the folder: a wheel that is there is whole.
        return partial.replace(folder / wheel.name)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a folder, made if need be, for this process alone; waits for another one that holds it, and says so.

    Raises:
        KeepError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise KeepError(
            f"no wheel can be kept in {folder}: {error.strerror}; "
            "name a folder that can be written: KHEPRI_WHEELS=/path"
        ) from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another build of this wheel is at work; waiting for it ({folder})", file=sys.stderr, flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        for left_behind in folder.glob(".*.partial"):
            left_behind.unlink()
        yield


def require_room(folder: Path) -> None:
    """Make sure that a build has room, before it takes minutes.

    Raises:
        KeepError: The disk of ``folder``, or that of temporary files, is too full.
    """
    needs = {folder: _MOST_WHEEL_AND_LOG_BYTES, Path(tempfile.gettempdir()): _MOST_BUILD_BYTES}
    variables = ("KHEPRI_WHEELS", "TMPDIR")
    for (place, needed), variable in zip(needs.items(), variables, strict=True):
        on_this_disk = sum(size for other, size in needs.items() if other.stat().st_dev == place.stat().st_dev)
        free = shutil.disk_usage(place).free
        if free < on_this_disk:
            raise KeepError(
                f"{place} has {free // 1_000_000} MB free, and the build takes up to {on_this_disk // 1_000_000} MB "
                f"there ({needed // 1_000_000} MB of it in this folder): make room, or name a folder elsewhere: "
                f"{variable}=/path"
            )


def _is_own(member: str, package: str) -> bool:
    top = member.partition("/")[0]
    return top == package or top.endswith((".dist-info", ".libs"))


def _record(archive: zipfile.ZipFile) -> list[list[str]]:
    name = next((name for name in archive.namelist() if name.endswith(_RECORD)), None)
    if name is None:
        raise ValueError("it has no RECORD")
    rows = csv.reader(io.StringIO(archive.read(name).decode("utf-8")))
    return [row for row in rows if row]


def _write_tidy(wheel: Path, file: BinaryIO, package: str) -> None:
    with zipfile.ZipFile(wheel) as archive, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as kept:
        for member in archive.infolist():
            content = archive.read(member)
            if member.filename.endswith(_RECORD):
                rows = io.StringIO()
                csv.writer(rows, lineterminator="\n").writerows(
                    row for row in _record(archive) if _is_own(row[0], package)
                )
                content = rows.getvalue().encode("utf-8")
            if _is_own(member.filename, package):
                kept.writestr(member, content)
