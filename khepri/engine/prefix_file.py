"""One prefix in a file: a line of JSON that says what it is, its token ids, and the keys and values behind them.

Which files there are, and when they are written and deleted, is not known here. A file may be another program's,
damaged, or made to harm: nothing of it is believed before it fits together.
"""

import hashlib
import json
import os
import stat
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

_MAGIC: Final = b"khepri-kv-2\n"
_MOST_HEADER_BYTES: Final = 4096
_TOKEN_BYTES: Final = 4


@dataclass(frozen=True)
class Header:
    """What a file says of itself."""

    context: str
    """What the numbers depend on besides the tokens, as one word."""
    tokens: int
    """How many token ids follow, four bytes each."""
    is_tail: bool
    """True if it is a conversation that may go on."""
    state_bytes: int
    """Size of the keys and values after them."""
    sha256: str
    """``checksum`` of both."""


_HEADER_TYPES: Final = {"context": str, "tokens": int, "is_tail": bool, "state_bytes": int, "sha256": str}


def head_of(context: str, tokens: Sequence[int], state: bytes | memoryview, *, is_tail: bool) -> bytes:
    """Return what stands before the state in its file: the header and the token ids."""
    header = Header(context, len(tokens), is_tail, len(state), checksum(tokens, state))
    return _MAGIC + json.dumps(asdict(header)).encode() + b"\n" + np.asarray(tokens, dtype="<u4").tobytes()


def open_prefix(path: Path) -> BinaryIO:
    """Open a file of this user's own; a link is not followed.

    Raises:
        OSError: It cannot be opened.
        ValueError: It is not a file, or somebody else's.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    file = os.fdopen(descriptor, "rb")
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or (hasattr(os, "getuid") and status.st_uid != os.getuid()):
        file.close()
        raise ValueError("not a file of this user's")
    return file


def read_head(file: BinaryIO) -> tuple[Header, tuple[int, ...]]:
    """Return what stands before the state, and leave the file where that begins.

    Raises:
        ValueError: The file is not one of ours, or not of this version.
    """
    line = file.readline(_MOST_HEADER_BYTES) if file.read(len(_MAGIC)) == _MAGIC else b""
    try:
        fields = json.loads(line)
    except RecursionError as error:
        raise ValueError("the header is nested without end") from error
    if not isinstance(fields, dict) or {name: type(value) for name, value in fields.items()} != _HEADER_TYPES:
        raise ValueError("the header has other fields")
    header = Header(**fields)
    rest = os.fstat(file.fileno()).st_size - file.tell()
    sizes = (header.tokens * _TOKEN_BYTES, header.state_bytes)
    if header.tokens < 1 or min(sizes) < 0 or sum(sizes) != rest:
        raise ValueError("the file has another length than its header says")
    return header, tuple(np.frombuffer(file.read(header.tokens * _TOKEN_BYTES), dtype="<u4").tolist())


def checksum(tokens: Sequence[int], state: bytes | memoryview) -> str:
    """Return the SHA-256 of token ids and state, in hexadecimal."""
    digest = hashlib.sha256(np.asarray(tokens, dtype="<u4").tobytes())
    digest.update(state)
    return digest.hexdigest()
