"""The tokens of a repository's files, in the order of their worth, made anew only for what has changed.

When they are made, and what for, is not known here.
"""

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from khepri.agent.token_cache import TokenCache
from khepri.engine.backend import Vocabulary
from khepri.errors import ToolError
from khepri.repo.facts import MAX_FILE_BYTES, unchanged_mark
from khepri.repo.roles import role_of
from khepri.repo.root import Repository
from khepri.repo.text import read_text

_PIECE_CHARS: Final = 500
"""Text that is tokenized at once: the vocabulary may be locked for it, and the engine may be waiting."""
_NOT_TEXT: Final = ""


@dataclass(frozen=True)
class SourceFile:
    """A file as it was when the files were listed."""

    path: str
    """POSIX path from the root."""
    status: str
    """Changes with every change of the file."""
    size_bytes: int
    """Its size."""


class RepositoryTokens:
    """Reads and tokenizes one repository's files. One thread."""

    def __init__(
        self, repository: Repository, vocabulary: Vocabulary, cache: TokenCache, check: Callable[[], None]
    ) -> None:
        """Prepare; nothing is read.

        Args:
            repository: Whose files; its rules decide which may be read.
            vocabulary: Asked for ``tokenize`` alone.
            cache: Where tokens are kept.
            check: Called between short steps; what it raises ends the work.
        """
        self._repository = repository
        self._vocabulary = vocabulary
        self._cache = cache
        self._check = check
        self._fresh: dict[str, NDArray[np.uint32]] = {}

    def files(self) -> list[SourceFile]:
        """Return the files that may be worth drafting from: source first, the least like it last, then by size.

        Raises:
            ToolError: The folder cannot be listed.
        """
        found = []
        for path in self._repository.files():
            self._check()
            try:
                status = os.lstat(self._repository.root / path)
            except OSError:
                continue
            if 0 < status.st_size <= MAX_FILE_BYTES:
                found.append(SourceFile(path, unchanged_mark(status), status.st_size))
        return sorted(found, key=lambda file: (-role_of(file.path).weight, file.size_bytes, file.path))

    def contents(self, files: list[SourceFile], max_tokens: int) -> dict[str, SourceFile]:
        """Return a file for each content that fits into ``max_tokens``, by the content's name, in order."""
        chosen: dict[str, SourceFile] = {}
        room = max_tokens
        for file in files:
            self._check()
            content = self._cache.content(file.path, file.status)
            count = 0 if content == _NOT_TEXT else None if content is None else self._cache.count(content)
            if count is None:
                content, count = self._read(file)
            if content and content not in chosen:
                if count > room:  # what comes after it is worth less, and would be tokenized only to be left out
                    break
                chosen[content] = file
                room -= count
        return chosen

    def tokens(self, content: str, file: SourceFile) -> NDArray[np.uint32]:
        """Return the token ids of a content, uint32 ``[n]``; none if its file has changed since it was listed."""
        self._check()
        known = self._fresh.get(content)
        if known is None:
            known = self._cache.tokens(content)
        if known is None and self._read(file)[0] == content:
            known = self._fresh[content]
        return np.empty(0, dtype=np.uint32) if known is None else known

    def _read(self, file: SourceFile) -> tuple[str, int]:
        """Tokenize a file and keep the result; return the content's name and its number of tokens."""
        try:
            text = read_text(self._repository.root / file.path, MAX_FILE_BYTES)
        except ToolError:
            text = None
        content, count = _NOT_TEXT, 0
        if text is not None and not text.is_cut:
            content = hashlib.blake2b(text.text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
            tokens = self._cache.tokens(content)
            if tokens is None:
                tokens = self._tokenize(text.text)
                self._cache.keep_tokens(content, tokens)
            self._fresh[content] = tokens
            count = tokens.size
        self._cache.keep_content(file.path, file.status, content)
        return content, count

    def _tokenize(self, text: str) -> NDArray[np.uint32]:
        parts = [np.empty(0, dtype=np.uint32)]
        for piece in _pieces(text):
            self._check()
            parts.append(np.array(self._vocabulary.tokenize(piece), dtype=np.uint32))
        return np.concatenate(parts)


def _pieces(text: str) -> Iterator[str]:
    """Yield the text in pieces of whole lines; a line that is too long for one is cut."""
    start = 0
    while start < len(text):
        end = text.rfind("\n", start, start + _PIECE_CHARS) + 1
        if not end or len(text) - start <= _PIECE_CHARS:
            end = start + _PIECE_CHARS
        yield text[start:end]
        start = end
