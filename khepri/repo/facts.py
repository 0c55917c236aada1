"""What is known of each file's content, its definitions and the names it uses, kept on disk by content.

The map and the retrieval both start here, so that a file is parsed once. One SQLite file per repository: a row per
path (its status and the hash of its content, so that an unchanged file is not read again) and a row per content. The
cache is a convenience: one that is corrupt, foreign, locked or not writable is as good as none.
"""

import hashlib
import importlib.metadata
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import khepri
from khepri.errors import ToolError
from khepri.repo.grammars import grammar_of
from khepri.repo.roles import role_of
from khepri.repo.root import Repository
from khepri.repo.symbols import Symbol, outline, references
from khepri.repo.text import read_text

MAX_FILE_BYTES: Final = 500_000
"""Larger files are generated or data; they are known by their path only."""
MAX_PARSED_BYTES: Final = 5_000_000
"""Source that is parsed per repository, a third of a second of processor time for each megabyte; counted in bytes and
not in seconds, so that each run knows the same files."""
MAX_PARSE_S: Final = 5.0
"""Processor time for what is not cached yet, three times what so much sound source takes: it is hostile files that are
left out. The next run goes on where this one stopped."""
_MAX_SYMBOLS = 2_000
_MAX_IDENTIFIERS = 800
_FORMAT = 3
_WRITER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_SCHEMA = """
CREATE TABLE IF NOT EXISTS files(path TEXT PRIMARY KEY, status TEXT NOT NULL, content TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts(content TEXT PRIMARY KEY, symbols TEXT NOT NULL, identifiers TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS maps(key TEXT PRIMARY KEY, body TEXT NOT NULL);
"""


@dataclass(frozen=True)
class Facts:
    """What the content of one file says."""

    symbols: tuple[Symbol, ...]
    """Its definitions, the first two thousand."""
    identifiers: Mapping[str, int]
    """How often it uses each identifier, the most frequent ones."""


def unchanged_mark(status: os.stat_result) -> str:
    """Return a text that stays the same only as long as a file is not written to.

    The change time is in it too: a restored modification time does not hide a change of the same length.
    """
    return f"{status.st_mtime_ns} {status.st_ctime_ns} {status.st_size} {status.st_ino}"


class FactsCache:
    """The facts of one repository's files. Belongs to one thread; close it after use."""

    def __init__(
        self, repository: Repository, cache_dir: Path | None, clock: Callable[[], float] = time.thread_time
    ) -> None:
        """Open the cache, or work without one.

        Args:
            repository: Whose files.
            cache_dir: Folder of caches; None keeps nothing on disk.
            clock: Processor time of this thread, in seconds; other programs do not make it pass.
        """
        self._repository = repository
        self._clock = clock
        self._parsed_s = 0.0
        self._version = f"{_FORMAT} {khepri.__version__} {importlib.metadata.version('tree-sitter-language-pack')}"
        self._connection = self._open(cache_dir) if cache_dir is not None else None
        self._statuses: dict[str, tuple[str, str]] = {}
        self._fresh_statuses: dict[str, tuple[str, str]] = {}
        self._fresh_facts: dict[str, Facts] = {}
        if self._connection is not None:
            rows = self._rows("SELECT path, status, content FROM files")
            self._statuses = {path: (status, content) for path, status, content in rows}

    def __enter__(self) -> "FactsCache":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def contents(self, paths: Iterable[str]) -> dict[str, str]:
        """Return a name for the content of each file that can be read, without reading those seen before.

        New files are parsed at once; when ``MAX_PARSE_S`` are spent, those that remain are left out.
        """
        found: dict[str, str] = {}
        for path in paths:
            status = self._status(path)
            known = self._statuses.get(path)
            if known is not None and known[0] == status:
                found[path] = known[1]
            elif status and self._has_time() and (text := self._text(path)) is not None:
                content = self._content_name(path, text)
                found[path] = content
                self._fresh_statuses[path] = (status, content)
                if content not in self._fresh_facts and not self._stored(content):
                    self._fresh_facts[content] = self._extract(path, text)
        return found

    def facts(self, contents: Mapping[str, str]) -> dict[str, Facts]:
        """Return the facts of each file that ``contents`` named, reading and parsing only what is not cached.

        A file whose cached facts are damaged is left out when ``MAX_PARSE_S`` are spent.
        """
        wanted = set(contents.values()) - self._fresh_facts.keys()
        stored: dict[str, Facts] = {}
        if wanted:
            where = "" if len(wanted) > 200 else f" WHERE content IN ({','.join('?' * len(wanted))})"
            rows = self._rows(
                "SELECT content, symbols, identifiers FROM facts" + where, sorted(wanted) if where else ()
            )
            for content, symbols, identifiers in rows:
                if content in wanted:
                    with suppress(ValueError, TypeError, AttributeError):
                        stored[content] = _decode(symbols, identifiers)
        result: dict[str, Facts] = {}
        for path, content in contents.items():
            known = self._fresh_facts.get(content) or stored.get(content)
            if known is None:
                if not self._has_time():
                    continue
                text = self._text(path)
                known = self._extract(path, text) if text is not None else Facts((), {})
                self._fresh_facts[content] = known
            result[path] = known
        return result

    def map_body(self, key: str) -> str | None:
        """Return what ``keep_map`` was given for ``key``."""
        rows = self._rows("SELECT body, '', '' FROM maps WHERE key = ?", [key])
        return rows[0][0] if rows else None

    def keep_map(self, key: str, body: str) -> None:
        """Keep the map of this repository, instead of an earlier one."""
        self._write([("DELETE FROM maps", [()]), ("INSERT OR REPLACE INTO maps VALUES (?, ?)", [(key, body)])])

    def save(self) -> None:
        """Write what is new, and forget files and contents that are gone."""
        if not self._fresh_statuses and not self._fresh_facts:
            return
        visible = set(self._repository.files())
        gone = [(path,) for path in self._statuses if path not in visible]
        facts = [(content, *_encode(facts)) for content, facts in self._fresh_facts.items()]
        self._write(
            [
                ("DELETE FROM files WHERE path = ?", gone),
                (
                    "INSERT OR REPLACE INTO files VALUES (?, ?, ?)",
                    [(path, status, content) for path, (status, content) in self._fresh_statuses.items()],
                ),
                ("INSERT OR REPLACE INTO facts VALUES (?, ?, ?)", facts),
                ("DELETE FROM facts WHERE content NOT IN (SELECT content FROM files)", [()]),
            ]
        )
        self._statuses.update(self._fresh_statuses)
        self._fresh_statuses = {}

    def close(self) -> None:
        """Save and close. Calling it twice is harmless."""
        self.save()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _open(self, cache_dir: Path) -> sqlite3.Connection | None:
        name = hashlib.sha256(os.fsencode(self._repository.root)).hexdigest()[:24]
        path = cache_dir / f"{name}.sqlite3"
        for _ in range(2):
            try:
                cache_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
                return self._connect(path)
            except sqlite3.OperationalError:  # locked by another run, or no room
                return None
            except (sqlite3.DatabaseError, ValueError):  # not a cache of this version: begin anew
                with suppress(OSError):
                    path.unlink()
            except OSError:
                return None
        return None

    def _connect(self, path: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(path, timeout=1.0)
        try:
            # Losing the cache in a power failure is harmless; a killed process is still rolled back.
            connection.execute("PRAGMA synchronous = OFF")
            connection.executescript(_SCHEMA + "CREATE TABLE IF NOT EXISTS version(text TEXT NOT NULL);")
            rows = connection.execute("SELECT text FROM version").fetchall()
            if not rows:
                with connection:
                    connection.execute("INSERT INTO version VALUES (?)", [self._version])
            elif rows != [(self._version,)]:
                raise ValueError("the cache is of another version")
            connection.execute("SELECT path, status, content FROM files LIMIT 1").fetchall()
        except BaseException:
            connection.close()
            raise
        return connection

    def _rows(self, query: str, values: Iterable[str] = ()) -> list[tuple[str, str, str]]:
        if self._connection is None:
            return []
        try:
            with closing(self._connection.execute(query, tuple(values))) as cursor:
                return [(str(row[0]), str(row[1]), str(row[2])) for row in cursor]
        except sqlite3.Error:
            return []

    def _write(self, statements: Iterable[tuple[str, Sequence[tuple[str, ...]]]]) -> None:
        if self._connection is None:
            return
        with suppress(sqlite3.Error), self._connection:
            for statement, rows in statements:
                self._connection.executemany(statement, rows)

    def _has_time(self) -> bool:
        return self._parsed_s < MAX_PARSE_S

    def _extract(self, path: str, text: str) -> Facts:
        started_s = self._clock()
        counts: dict[str, int] = references(path, text)
        if len(counts) > _MAX_IDENTIFIERS:
            counts = dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MAX_IDENTIFIERS])
        known = Facts(outline(path, text)[:_MAX_SYMBOLS], dict(counts))
        self._parsed_s += self._clock() - started_s
        return known

    def _stored(self, content: str) -> bool:
        return bool(self._rows("SELECT content, '', '' FROM facts WHERE content = ?", [content]))

    def _status(self, path: str) -> str:
        try:
            return unchanged_mark(os.lstat(self._repository.root / path))
        except OSError:
            return ""

    def _text(self, path: str) -> str | None:
        try:
            file = read_text(self._repository.root / path, MAX_FILE_BYTES)
        except ToolError:
            return None
        return None if file.is_cut else file.text

    def _content_name(self, path: str, text: str) -> str:
        grammar = grammar_of(path, text)
        language = grammar.name if grammar else ""
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        return f"{digest} {language}"


def parsed_files(repository: Repository) -> tuple[str, ...]:
    """Return the files that are worth parsing, within ``MAX_PARSED_BYTES``: source first, then by depth and path.

    Raises:
        ToolError: The files cannot be listed.
    """
    order = sorted(
        (path for path in repository.files() if grammar_of(path) is not None),
        key=lambda path: (-role_of(path).weight // 0.5, path.count("/"), path),
    )
    chosen: list[str] = []
    total = 0
    for path in order:
        try:
            size = os.lstat(repository.root / path).st_size
        except OSError:
            continue
        if size > MAX_FILE_BYTES or total + size > MAX_PARSED_BYTES:
            continue
        total += size
        chosen.append(path)
    return tuple(chosen)


def _encode(facts: Facts) -> tuple[str, str]:
    symbols = [
        [symbol.name, symbol.qualified_name, symbol.kind, symbol.start_line, symbol.end_line, symbol.signature]
        for symbol in facts.symbols
    ]
    return _WRITER.encode(symbols), _WRITER.encode(facts.identifiers)


def _decode(symbols: str, identifiers: str) -> Facts:
    rows = json.loads(symbols)
    counts = json.loads(identifiers)
    return Facts(
        tuple(
            Symbol(str(name), str(qualified), str(kind), int(start), int(end), str(signature))
            for name, qualified, kind, start, end, signature in rows
        ),
        {str(name): int(count) for name, count in counts.items()},
    )
