"""The disk tier: keys and values of prefixes that outlive the process.

One file for each prefix (``prefix_file``), named by what it depends on: everything that the numbers depend on besides
the tokens (the model, the library, the settings), and the tokens themselves. A longer or a shorter prompt finds what it
shares with the tokens of a file. Whatever is wrong with a file, it is deleted and counts as missing.
"""

import fcntl
import hashlib
import os
import stat
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from khepri.engine import json_cache
from khepri.engine.prefix_file import checksum, head_of, open_prefix, read_head
from khepri.engine.radix import common_length, path_identity

SUFFIX: Final = ".kv"
"""Ending of the files."""
_CONTEXT_CHARACTERS: Final = 24
_WRITING: Final = ".writing-"
_ABANDONED_S: Final = 600.0
"""Nobody writes that long: the process ended in the middle."""


@dataclass(frozen=True)
class Entry:
    """A prefix on the disk."""

    path: Path
    """Its file."""
    tokens: tuple[int, ...]
    """Its token ids."""
    is_tail: bool
    """True if it is a conversation that may go on; a longer state of it takes its place."""


@dataclass(frozen=True)
class DiskStatistics:
    """What came of looking for prefixes, over all processes so far."""

    lookups: int = 0
    """Conversations that began with a prefix which was not in memory."""
    hits: int = 0
    """Those of them that found it on the disk."""
    restored_tokens: int = 0
    """Tokens that did not have to be evaluated therefore."""


class DiskTier:
    """The prefixes of one context in a folder that others may share. One thread reads; another may write and delete."""

    def __init__(self, folder: Path, context: str, most_bytes: int) -> None:
        """Look for what is there; takes milliseconds.

        Args:
            folder: Where the files are; it is made when something is written.
            context: Everything besides the tokens that keys and values depend on.
            most_bytes: Most bytes of all files in the folder; those not used for longest are deleted first.
        """
        self._folder = folder
        self._context = hashlib.sha256(context.encode()).hexdigest()[:_CONTEXT_CHARACTERS]
        self._most_bytes = most_bytes
        # Replaced and never changed, so that a reader always sees a whole one. The lock is for those who replace.
        self._entries: Mapping[bytes, Entry] = {}
        self._lock = threading.Lock()
        self._counted = DiskStatistics()
        self._folder_changed_ns = 0
        _remove_abandoned(folder)
        trim(folder, most_bytes)
        self._look()

    def find(self, tokens: Sequence[int]) -> tuple[Entry | None, int]:
        """Return the entry that shares the longest prefix with ``tokens``, of equals the shortest, and its length."""
        self._look()
        best, longest = None, 0
        for entry in self._entries.values():
            length = common_length(entry.tokens, tokens)
            if (length, -len(entry.tokens)) > (longest, -len(best.tokens) if best else 0):
                best, longest = entry, length
        return best, longest

    def holds(self, tokens: Sequence[int]) -> bool:
        """True if there is an entry of exactly these tokens."""
        self._look()
        return path_identity(tokens) in self._entries

    def read(self, entry: Entry) -> bytes | None:
        """Return the state of an entry and note its use; None, and the entry is gone, if it is not what was written."""
        try:
            with open_prefix(entry.path) as file:
                header, tokens = read_head(file)
                state = file.read(header.state_bytes + 1)
        except (OSError, ValueError, MemoryError):
            self.discard(entry)
            return None
        is_this = (header.context, tokens, len(state)) == (self._context, entry.tokens, header.state_bytes)
        if not is_this or checksum(tokens, state) != header.sha256:
            self.discard(entry)
            return None
        with suppress(OSError):
            os.utime(entry.path)
        return state

    def write(self, tokens: Sequence[int], state: bytes | memoryview, *, is_tail: bool = False) -> None:
        """Keep a state for the user alone, atomically; what cannot be written is left out.

        Args:
            tokens: Token ids of a prefix.
            state: Its keys and values.
            is_tail: As in ``Entry``. Shorter states that this one goes on from are deleted, whichever process wrote
                them; but a tail, which its conversation takes along when it goes, takes the place of tails only.
        """
        path = tuple(tokens)
        head = head_of(self._context, path, state, is_tail=is_tail)
        if len(head) + len(state) > self._most_bytes:
            return
        identity = path_identity(path)
        target = self._folder / f"{self._context}-{identity.hex()}{SUFFIX}"
        half: Path | None = None
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The library makes it with mode 0600.
            with tempfile.NamedTemporaryFile(dir=self._folder, prefix=_WRITING, delete=False) as file:
                half = Path(file.name)
                file.writelines((head, state))
            os.replace(half, target)
        except OSError:
            if half is not None:
                with suppress(OSError):  # another process may have cleared the folder
                    half.unlink()
            return
        self._look()
        self._note(Entry(target, path, is_tail))
        self._discard_earlier(path, is_tail)
        for gone in trim(self._folder, self._most_bytes, spared=target):
            self._drop(gone)

    def discard(self, entry: Entry) -> None:
        """Delete an entry."""
        self._drop(entry.path)
        with suppress(OSError):
            entry.path.unlink()

    def count_lookup(self, restored_tokens: int) -> None:
        """Note that a prefix was looked for, and how many tokens were found; ``save_statistics`` writes it."""
        with self._lock:
            counted = self._counted
            self._counted = DiskStatistics(
                counted.lookups + 1, counted.hits + bool(restored_tokens), counted.restored_tokens + restored_tokens
            )

    def save_statistics(self) -> None:
        """Add what was counted to the folder's statistics."""
        with self._lock:
            now, self._counted = self._counted, DiskStatistics()
        if not now.lookups:
            return
        with suppress(OSError), _counting_alone(self._folder):
            before = read_statistics(self._folder)
            total = DiskStatistics(
                before.lookups + now.lookups, before.hits + now.hits, before.restored_tokens + now.restored_tokens
            )
            json_cache.write(_statistics_file(self._folder), asdict(total))

    def _look(self) -> None:
        """Note what anybody wrote or deleted since the last look; a change shows in the folder."""
        try:
            changed_ns = self._folder.stat().st_mtime_ns
        except OSError:
            changed_ns = -1
        if changed_ns == self._folder_changed_ns:
            return
        self._folder_changed_ns = changed_ns
        there = {path for path in _files(self._folder) if path.name.startswith(f"{self._context}-")}
        known = {entry.path for entry in self._entries.values()}
        for path in known - there:
            self._drop(path)
        for path in there - known:
            if (entry := self._open(path)) is not None:
                self._note(entry)

    def _open(self, path: Path) -> Entry | None:
        """Return the entry of a file, as far as its head says what it is; a damaged one is deleted."""
        try:
            with open_prefix(path) as file:
                header, tokens = read_head(file)
            if header.context == self._context and path.stem.endswith(path_identity(tokens).hex()):
                return Entry(path, tokens, header.is_tail)
        except (OSError, ValueError):
            pass
        with suppress(OSError):
            path.unlink()
        return None

    def _discard_earlier(self, path: tuple[int, ...], is_tail: bool) -> None:
        for entry in self._entries.values():
            is_replaced = entry.is_tail or not is_tail
            if is_replaced and len(entry.tokens) < len(path) and _begins_with(path, entry.tokens):
                self.discard(entry)

    def _note(self, entry: Entry) -> None:
        with self._lock:
            self._entries = {**self._entries, path_identity(entry.tokens): entry}

    def _drop(self, path: Path) -> None:
        with self._lock:
            self._entries = {key: entry for key, entry in self._entries.items() if entry.path != path}


def trim(folder: Path, most_bytes: int, spared: Path | None = None) -> list[Path]:
    """Delete what was not used for longest, until a folder is under its cap.

    Args:
        folder: The folder.
        most_bytes: Most bytes of its files, whatever context they belong to.
        spared: One that stays in any case.

    Returns:
        What was deleted.
    """
    sizes = sorted((status.st_mtime_ns, status.st_size, path) for path, status in _statuses(folder))
    total = sum(size for _, size, _ in sizes)
    deleted: list[Path] = []
    for _, size, path in sizes:
        if total <= most_bytes:
            break
        if path != spared:
            with suppress(OSError):
                path.unlink()
                total -= size
                deleted.append(path)
    return deleted


def read_statistics(folder: Path) -> DiskStatistics:
    """Return what was counted in a folder so far; figures that cannot be count as none."""
    found = json_cache.read(_statistics_file(folder))
    counts = DiskStatistics(**{name: _count(found.get(name, 0)) for name in asdict(DiskStatistics())})
    return counts if 0 <= counts.hits <= counts.lookups and counts.restored_tokens >= 0 else DiskStatistics()


def _count(written: object) -> int:
    return written if isinstance(written, int) and not isinstance(written, bool) else 0


@dataclass(frozen=True)
class DiskUsage:
    """What lies in a folder of prefixes, whatever context it belongs to."""

    entries: int
    """Prefixes."""
    bytes: int
    """Their size."""


def usage(folder: Path) -> DiskUsage:
    """Return what lies in a folder."""
    sizes = [status.st_size for _, status in _statuses(folder)]
    return DiskUsage(len(sizes), sum(sizes))


def clear(folder: Path) -> DiskUsage:
    """Delete all prefixes and what was counted, and return what was deleted.

    Raises:
        OSError: A file cannot be deleted.
    """
    deleted = DiskUsage(0, 0)
    for path, status in _statuses(folder):
        path.unlink(missing_ok=True)
        deleted = DiskUsage(deleted.entries + 1, deleted.bytes + status.st_size)
    _statistics_file(folder).unlink(missing_ok=True)
    return deleted


def forget_conversation(
    folder: Path, states: Sequence[Sequence[int]], others: Sequence[Sequence[int]] = ()
) -> DiskUsage:
    """Delete what a conversation alone left in a folder, whatever context it belongs to, and return what was deleted.

    What a killed process left half written goes with it, as nobody can tell whose it is.

    Args:
        folder: The folder.
        states: Token ids of all that the conversation ever was.
        others: The same of conversations that stay.

    Raises:
        OSError: A file cannot be deleted.
    """
    deleted = DiskUsage(0, 0)
    for path, status in _statuses(folder):
        if path.name.startswith(_WRITING) or (_is_of(path, states) and not _is_of(path, others)):
            path.unlink(missing_ok=True)
            deleted = DiskUsage(deleted.entries + 1, deleted.bytes + status.st_size)
    return deleted


def _is_of(path: Path, states: Sequence[Sequence[int]]) -> bool:
    """True if a file is a tail that one of the states begins with."""
    try:
        with open_prefix(path) as file:
            header, tokens = read_head(file)
    except (OSError, ValueError):
        return False
    return header.is_tail and any(_begins_with(state, tokens) for state in states)


def _begins_with(tokens: Sequence[int], beginning: tuple[int, ...]) -> bool:
    return tuple(tokens[: len(beginning)]) == beginning


def _statistics_file(folder: Path) -> Path:
    return folder / "statistics.json"


@contextmanager
def _counting_alone(folder: Path) -> Iterator[None]:
    """Keep other processes from adding to the statistics meanwhile.

    Raises:
        OSError: The folder cannot be made or written to.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    with open(os.open(folder / ".statistics.lock", flags, 0o600), "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _files(folder: Path) -> list[Path]:
    """Return the files of all contexts, those that a killed process left half written included."""
    try:
        return [path for path in folder.iterdir() if path.suffix == SUFFIX or path.name.startswith(_WRITING)]
    except OSError:
        return []


def _remove_abandoned(folder: Path) -> None:
    """Delete what killed processes left half written."""
    for path, status in _statuses(folder):
        if path.name.startswith(_WRITING) and time.time() - status.st_mtime > _ABANDONED_S:
            with suppress(OSError):
                path.unlink()


def _statuses(folder: Path) -> list[tuple[Path, os.stat_result]]:
    found = []
    for path in _files(folder):
        with suppress(OSError):
            status = path.lstat()
            if not stat.S_ISDIR(status.st_mode):
                found.append((path, status))
    return found
