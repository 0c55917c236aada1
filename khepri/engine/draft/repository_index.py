"""An index over the tokens of many files: where the end of a text stands in them, and what follows there.

A suffix array of the reversed tokens: the longest end of a context that occurs anywhere is found by one binary search.
Which files are in it, and when it is made, is not known here.
"""

import os
import struct
import zlib
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from khepri.engine.draft.suffix_array import sort_suffixes

DEPTH_TOKENS: Final = 32
"""Longest match that is looked for."""
SAMPLE: Final = 64
"""Most occurrences that are asked what follows; of more, as many evenly spread ones."""
KEY_BYTES: Final = 32
_SEPARATOR: Final = 0
_TOKEN_BYTES: Final = 4
_MAGIC: Final = b"khepri index 1\n\0"
_HEADER: Final = struct.Struct(f"<16s{KEY_BYTES}sQI")


class Continuation(NamedTuple):
    """What the index knows about the end of a context."""

    match: int
    """Tokens of the longest end that occurs, at most ``DEPTH_TOKENS``."""
    occurrences: int
    """How often it occurs."""
    tokens: tuple[int, ...]
    """What follows most of the occurrences, as far as they agree; at least one token."""
    position: int
    """Where ``tokens`` begin in one of the occurrences that agree to the end; ``RepositoryIndex.read`` takes it."""


class RepositoryIndex:
    """The tokens of many files, immutable. Any thread may ask it; ``build`` and ``load`` make one.

    It holds 8 bytes a token in memory: a mapped file that someone truncates would end the process.

    Attributes:
        key: What it was made from, in ``KEY_BYTES`` bytes that the maker understands.
    """

    def __init__(self, key: bytes, text: bytes, order: NDArray[np.uint32]) -> None:
        """Take ownership of what ``build`` or ``load`` made.

        Args:
            key: See the attribute.
            text: Token ids plus 1 as big-endian uint32, so that one comparison of bytes compares token by token; the
                last token first, 0 between files and at both ends.
            order: uint32 ``[n]``: the positions of ``text``, ordered by the suffixes that begin there.
        """
        self.key = key
        self._text = text
        self._tokens = np.frombuffer(text, dtype=">u4")
        self._order = order.data

    @classmethod
    def build(
        cls, files: Iterable[NDArray[np.uint32]], key: bytes, is_stopped: Callable[[], bool] = lambda: False
    ) -> "RepositoryIndex | None":
        """Return the index of files, uint32 ``[n_tokens]`` each, or None if it was stopped.

        Some 0.7 s and 40 MB for each million tokens; ``is_stopped`` is asked every few tens of milliseconds.
        """
        separator = np.array([_SEPARATOR], dtype=np.uint32)
        parts = [separator]
        for tokens in files:
            parts += [tokens + np.uint32(1), separator]
        text = np.ascontiguousarray(np.concatenate(parts)[::-1])
        order = sort_suffixes(text, DEPTH_TOKENS, is_stopped)
        return None if order is None else cls(key, text.astype(">u4").tobytes(), order)

    def __len__(self) -> int:
        """Return the number of tokens, the ends of files included."""
        return len(self._order)

    def follow(self, context: Sequence[int], limit: int) -> Continuation | None:
        """Return at most ``limit`` tokens that follow the longest end of ``context`` in the files.

        None if the last token is in no file, or nothing follows that most occurrences agree on. Well under 1 ms.
        """
        tail = [token + 1 for token in reversed(context[-DEPTH_TOKENS:])]
        wanted = struct.pack(f">{len(tail)}I", *tail)
        place = bisect_left(self._order, wanted, key=self._reader(len(wanted)))
        near = [self._order[each] for each in (place - 1, place) if 0 <= each < len(self._order)]
        match = max((self._common_tokens(wanted, position) for position in near), default=0)
        if not match:
            return None
        wanted = wanted[: match * _TOKEN_BYTES]
        read = self._reader(len(wanted))
        first, end = bisect_left(self._order, wanted, key=read), bisect_right(self._order, wanted, key=read)
        step = max(1, -(-(end - first) // SAMPLE))
        places = np.array(self._order[first:end:step], dtype=np.int64)
        tokens, agreeing = self._agreement(places, limit)
        if not tokens:
            return None
        return Continuation(match, end - first, tokens, len(self) - int(places[agreeing]))

    def read(self, position: int, count: int) -> list[int]:
        """Return at most ``count`` tokens of a file from ``position`` on, to the end of the file."""
        end = len(self) - position
        if not 0 <= end <= len(self):
            return []
        tokens: list[int] = self._tokens[max(0, end - count) : end][::-1].tolist()
        if _SEPARATOR in tokens:
            del tokens[tokens.index(_SEPARATOR) :]
        return [token - 1 for token in tokens]

    def save(self, path: Path) -> bool:
        """Write the index to ``path`` in one step, for the user alone; False if that is not possible."""
        order = np.asarray(self._order, dtype="<u4").tobytes()
        checksum = zlib.crc32(self._text, zlib.crc32(order, zlib.crc32(self.key)))
        temporary = None
        try:
            with NamedTemporaryFile(dir=path.parent, prefix=path.name, suffix=".part", delete=False) as file:
                temporary = Path(file.name)  # made with mode 0600
                file.write(_HEADER.pack(_MAGIC, self.key, len(self), checksum))
                file.write(order)
                file.write(self._text)
            os.replace(temporary, path)
        except OSError:
            if temporary is not None:
                with suppress(OSError):
                    temporary.unlink()
            return False
        return True

    @classmethod
    def load(cls, path: Path) -> "RepositoryIndex | None":
        """Return the index in a file, or None if there is none or it is foreign, truncated or damaged."""
        try:
            with path.open("rb") as file:
                header = file.read(_HEADER.size)
                if len(header) != _HEADER.size:
                    return None
                magic, key, count, checksum = _HEADER.unpack(header)
                size = os.fstat(file.fileno()).st_size
                if magic != _MAGIC or size != _HEADER.size + 2 * _TOKEN_BYTES * count:
                    return None
                order, text = file.read(_TOKEN_BYTES * count), file.read(_TOKEN_BYTES * count)
        except OSError:
            return None
        if len(text) != len(order) or zlib.crc32(text, zlib.crc32(order, zlib.crc32(key))) != checksum:
            return None
        return cls(key, text, np.frombuffer(order, dtype="<u4").astype(np.uint32, copy=False))

    def _reader(self, size_bytes: int) -> Callable[[int], bytes]:
        text = self._text

        def read(position: int) -> bytes:
            return text[position * _TOKEN_BYTES : position * _TOKEN_BYTES + size_bytes]

        return read

    def _common_tokens(self, wanted: bytes, position: int) -> int:
        found = self._text[position * _TOKEN_BYTES : position * _TOKEN_BYTES + len(wanted)]
        for start in range(0, len(found), _TOKEN_BYTES):
            if found[start : start + _TOKEN_BYTES] != wanted[start : start + _TOKEN_BYTES]:
                return start // _TOKEN_BYTES
        return len(found) // _TOKEN_BYTES

    def _agreement(self, places: NDArray[np.int64], limit: int) -> tuple[tuple[int, ...], int]:
        """Return the tokens that most occurrences continue with, and which of them agrees to the end."""
        following = self._tokens[np.maximum(places[:, None] - np.arange(1, limit + 1), 0)].tolist()
        agreeing = list(range(len(following)))
        tokens: list[int] = []
        for column in range(limit):
            token, votes = Counter(following[row][column] for row in agreeing).most_common(1)[0]
            if token == _SEPARATOR or votes * 2 <= len(agreeing):
                break
            tokens.append(token - 1)
            agreeing = [row for row in agreeing if following[row][column] == token]
        return tuple(tokens), agreeing[0]
