"""The token ids of a repository's files, kept on disk by content.

One SQLite file for each repository and vocabulary: a row per path, so that an unchanged file is not read again, and a
row per content. The cache is a convenience: one that is corrupt, foreign, locked or not writable is replaced by one in
memory, and a damaged row is no row.
"""

import os
import sqlite3
import zlib
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

_FORMAT: Final = 1
_SCHEMA: Final = """
CREATE TABLE files(path TEXT PRIMARY KEY, status TEXT NOT NULL, content TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE tokens(
    content TEXT PRIMARY KEY, count INTEGER NOT NULL, checksum INTEGER NOT NULL, ids BLOB NOT NULL
);
"""


class TokenCache:
    """Which file has which content, and each content's tokens. Belongs to one thread; close it after use.

    Every entry is written at once, so that whoever is interrupted loses only the file that he was at.
    """

    def __init__(self, path: Path | None) -> None:
        """Open the cache at ``path``, or begin one in memory if there is no path or it cannot be used."""
        self._connection = (_open(path) if path is not None else None) or _connect(":memory:")

    def __enter__(self) -> "TokenCache":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def content(self, path: str, status: str) -> str | None:
        """Return the name of the content that the file at ``path`` had when its status was ``status``."""
        row = self._row("SELECT content FROM files WHERE path = ? AND status = ?", path, status)
        return str(row[0]) if row else None

    def count(self, content: str) -> int | None:
        """Return how many tokens a content has, or None if it is not kept."""
        row = self._row("SELECT count FROM tokens WHERE content = ?", content)
        return row[0] if row and isinstance(row[0], int) else None

    def tokens(self, content: str) -> NDArray[np.uint32] | None:
        """Return the token ids of a content, uint32 ``[n]``, or None if they are not kept or damaged."""
        row = self._row("SELECT count * 4, checksum, ids FROM tokens WHERE content = ?", content)
        if row is None:
            return None
        count, checksum, ids = row
        if not isinstance(ids, bytes) or (len(ids), zlib.crc32(ids)) != (count, checksum):
            return None
        return np.frombuffer(ids, dtype="<u4").astype(np.uint32, copy=False)

    def keep_content(self, path: str, status: str, content: str) -> None:
        """Note that the file at ``path``, as long as its status is ``status``, has this content."""
        self._write("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", path, status, content)

    def keep_tokens(self, content: str, tokens: NDArray[np.uint32]) -> None:
        """Note the token ids of a content."""
        ids = tokens.astype("<u4").tobytes()
        self._write("INSERT OR REPLACE INTO tokens VALUES (?, ?, ?, ?)", content, tokens.size, zlib.crc32(ids), ids)

    def forget_others(self, paths: Collection[str]) -> None:
        """Forget the files that are not among ``paths``, and the contents that no file has any more."""
        with suppress(sqlite3.Error):
            known = [str(row[0]) for row in self._connection.execute("SELECT path FROM files")]
            for path in set(known) - set(paths):
                self._write("DELETE FROM files WHERE path = ?", path)
        self._write("DELETE FROM tokens WHERE content NOT IN (SELECT content FROM files)")

    def close(self) -> None:
        """Close the file. Calling it twice is harmless."""
        self._connection.close()

    def _row(self, query: str, *values: str) -> tuple[object, ...] | None:
        try:
            row: tuple[object, ...] | None = self._connection.execute(query, values).fetchone()
        except sqlite3.Error:
            return None
        return row

    def _write(self, statement: str, *values: str | int | bytes) -> None:
        with suppress(sqlite3.Error), self._connection:
            self._connection.execute(statement, values)


def trim_folder(folder: Path, most_bytes: int, keep: Collection[Path]) -> None:
    """Delete the files of a folder that were not changed for longest until the rest is within ``most_bytes``."""
    found: list[tuple[int, int, Path]] = []
    with suppress(OSError):
        for path in folder.iterdir():
            status = path.lstat()
            found.append((status.st_mtime_ns, status.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= most_bytes:
            return
        if path not in keep:
            with suppress(OSError):
                path.unlink()
                total -= size


def _open(path: Path) -> sqlite3.Connection | None:
    for _ in range(2):
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
            return _connect(str(path))
        except sqlite3.OperationalError:  # locked by another run, or no room
            return None
        except (sqlite3.DatabaseError, ValueError):  # not a cache of this format: begin anew
            with suppress(OSError):
                path.unlink()
        except OSError:
            return None
    return None


def _connect(name: str) -> sqlite3.Connection:
    connection = sqlite3.connect(name, timeout=1.0)
    try:
        # Losing the cache in a power failure is harmless; a killed process is still rolled back.
        connection.execute("PRAGMA synchronous = OFF")
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if not tables:
            connection.executescript(_SCHEMA + f"PRAGMA user_version = {_FORMAT};")
        elif version != _FORMAT:
            raise ValueError("the cache is of another format")
        connection.execute("SELECT path, status, content FROM files LIMIT 1").fetchall()
        connection.execute("SELECT content, count, checksum, ids FROM tokens LIMIT 1").fetchall()
    except BaseException:
        connection.close()
        raise
    return connection
