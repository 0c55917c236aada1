"""Feeds the suffix drafter: keeps an index over the tokens of the repository's files, made in the background.

This is how Khepri drafts with the user's own code. A thread does the work, a part of the time, and publishes each new
index by one assignment. Which of the index's tokens are proposed is decided in ``khepri.engine.draft``.

The thread has the priority of all others. With a lower one it would wait for a processor while it holds the
interpreter's lock, as long as the model's passes take all of them, and the whole app would stand still meanwhile.
"""

import hashlib
import keyword
import os
import string
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from khepri.agent.repository_tokens import RepositoryTokens
from khepri.agent.token_cache import TokenCache, trim_folder
from khepri.engine.backend import Vocabulary
from khepri.engine.draft.repository_index import RepositoryIndex
from khepri.errors import KhepriError
from khepri.repo.root import Repository

MAX_TOKENS: Final = 5_000_000
"""Most tokens of an index."""
MAX_CACHE_BYTES: Final = 512_000_000
"""Most bytes of the caches of all repositories and vocabularies; those not used for longest are deleted first."""
_PROBE: Final = string.printable + " ".join(keyword.kwlist) + "".join(map(chr, range(0xA0, 0x250)))
"""Vocabularies of one size that agree on this are taken for the same."""
_CLOSE_PATIENCE_S: Final = 2.0
_STRETCH_S: Final = 0.005
"""How long is worked before a rest, at least; as long as the interpreter lets one thread run while others wait."""
_REST: Final = 3.0
"""How many times as long as the work a rest is: the model's passes lose a quarter of one processor at most."""


class _Stopped(Exception):
    """The work was told to stop."""


class RepositoryDrafts:
    """An index of a repository's tokens that follows its files. A context manager; ``close`` stops the work.

    The files are those that the tools may read, up to half a megabyte each and ``max_tokens`` in all. What does not fit
    is left out by what its path says: vendored and generated files first, then data, migrations, documentation, tests,
    and of equals the biggest. Of the engine, only the vocabulary's ``size`` and ``tokenize`` are used.
    """

    def __init__(self, root: Path, cache_dir: Path | None, max_tokens: int = MAX_TOKENS) -> None:
        """Prepare; nothing is read before ``start``.

        Args:
            root: The repository's root; the thread opens a ``Repository`` of its own.
            cache_dir: Folder of the caches (``paths.drafts_cache_dir()``); None keeps nothing on disk.
            max_tokens: Most tokens of the index.
        """
        self._root = root
        self._cache_dir = cache_dir
        self._max_tokens = max_tokens
        self._index: RepositoryIndex | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._is_current = threading.Event()
        self._closed = threading.Event()
        self._rested_s = 0.0

    def __enter__(self) -> "RepositoryDrafts":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def index(self) -> RepositoryIndex | None:
        """The latest index, or None while there is none. Any thread, never waits."""
        return self._index

    def start(self, vocabulary: Vocabulary) -> None:
        """Begin the work. Call it once, when the model is loaded; an index on disk is there some milliseconds later."""
        self._wanted.set()
        self._thread = threading.Thread(target=self._run, args=(vocabulary,), name="khepri-drafts", daemon=True)
        self._thread.start()

    def refresh(self) -> None:
        """Look for changed files again; the index follows when it is made. Any thread, returns at once."""
        with self._lock:
            self._is_current.clear()
            self._wanted.set()

    def wait_current(self, timeout_s: float) -> bool:
        """Wait until the files of the last ``refresh`` are in the index; False if that took too long."""
        return self._is_current.wait(timeout_s)

    def close(self) -> None:
        """Stop the work; what is done is kept on disk. Calling it twice is harmless.

        Steps take milliseconds, and the thread is waited for, but for two seconds at most.
        """
        self._closed.set()
        self._wanted.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_PATIENCE_S)

    def _run(self, vocabulary: Vocabulary) -> None:
        while self._wanted.wait() and not self._closed.is_set():
            self._wanted.clear()
            self._rested_s = time.monotonic()
            try:
                self._update(vocabulary)
            except _Stopped:
                return
            except (KhepriError, OSError, MemoryError):  # the drafter goes on with the index that it has
                pass
            with self._lock:
                if not self._wanted.is_set():
                    self._is_current.set()

    def _update(self, vocabulary: Vocabulary) -> None:
        """Bring the index up to date.

        Raises:
            _Stopped: The work was told to stop.
            KhepriError: The folder cannot be listed, or the engine is closed.
        """
        self._check()
        identity = _identity(vocabulary)
        tokens_file, index_file = self._cache_files(identity)
        if self._index is None and index_file is not None:
            self._index = RepositoryIndex.load(index_file)
        with TokenCache(tokens_file) as cache:
            source = RepositoryTokens(Repository.open(self._root), vocabulary, cache, self._check)
            files = source.files()
            contents = source.contents(files, self._max_tokens)
            key = hashlib.sha256(f"{identity} {' '.join(contents)}".encode()).digest()
            if self._index is None or self._index.key != key:
                tokens = (source.tokens(content, file) for content, file in contents.items())
                index = RepositoryIndex.build(tokens, key, self._is_closed)
                self._check()
                self._index = index
                if index is not None and index_file is not None:
                    index.save(index_file)
            cache.forget_others({file.path for file in files})
        if self._cache_dir is not None:
            _mark_used_and_trim(self._cache_dir, {path for path in (tokens_file, index_file) if path is not None})

    def _cache_files(self, identity: str) -> tuple[Path | None, Path | None]:
        if self._cache_dir is None:
            return None, None
        name = hashlib.sha256(os.fsencode(self._root) + b"\0" + identity.encode()).hexdigest()[:24]
        return self._cache_dir / f"{name}.sqlite3", self._cache_dir / f"{name}.index"

    def _check(self) -> None:
        if self._is_closed():
            raise _Stopped

    def _is_closed(self) -> bool:
        """Rest after a stretch of work, and tell if the work is to stop."""
        worked_s = time.monotonic() - self._rested_s
        if worked_s >= _STRETCH_S:
            self._closed.wait(_REST * worked_s)
            self._rested_s = time.monotonic()
        return self._closed.is_set()


def _identity(vocabulary: Vocabulary) -> str:
    return hashlib.sha256(f"{vocabulary.size} {vocabulary.tokenize(_PROBE)}".encode()).hexdigest()


def _mark_used_and_trim(folder: Path, files: set[Path]) -> None:
    for path in files:
        with suppress(OSError):
            os.utime(path)
    trim_folder(folder, MAX_CACHE_BYTES, files)
