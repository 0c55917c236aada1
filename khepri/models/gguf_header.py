"""Reads the header of a GGUF file: what model it is, and whether the file is all there.

Bounded in time and memory whatever the bytes say: arrays are stepped over and never built, counts are believed only as
far as the file could hold them, and plain reads are used in place of a memory map, which would kill the process if
the file shrank meanwhile. Weights are not read, and what can be done with a model is not known here.

References:
    https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from khepri.errors import ModelFileError
from khepri.models.gguf_types import FILE_TYPES, SCALARS, TENSOR_BLOCKS, ValueType

_WINDOW_BYTES = 1 << 20
_MOST_HEADER_BYTES = 1 << 28
_MOST_KEYS = 1 << 16
_MOST_TENSORS = 1 << 17
_MOST_STRINGS = 1 << 22
_MOST_KEY_BYTES = 1 << 16
_MOST_TEXT_BYTES = 1 << 12
_MOST_DIMENSIONS = 8
_SUMMARY_KEYS = frozenset({"general.architecture", "general.file_type", "tokenizer.ggml.model"})

_HINT = "fetch the file again, or choose another one: khepri models"

_FOREIGN = (
    (b"version https://git-lfs", "a Git LFS pointer; the model itself was not fetched (git lfs pull)"),
    (b"<!DOCTYPE", "a web page"),
    (b"<!doctype", "a web page"),
    (b"<html", "a web page"),
    (b"PK\x03\x04", "a zip archive or a PyTorch file"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"ggjt", "a file of the GGML format that came before GGUF"),
    (b"lmgg", "a file of the GGML format that came before GGUF"),
)


@dataclass(frozen=True)
class Header:
    """What the header of a GGUF file says."""

    version: int
    """Version of the format, 2 or 3."""
    architecture: str
    """``general.architecture``, such as ``qwen2``; empty if the file does not say."""
    name: str
    """``general.name``; empty if the file does not say."""
    kind: str
    """``general.type``, such as ``model`` or ``adapter``; ``model`` if the file does not say."""
    quantization: str
    """Name of the quantization, such as ``Q4_K_M``; ``unknown`` if the file does not say."""
    has_tokenizer: bool
    """True if the file carries a vocabulary, which projectors and adapters do not."""
    tensor_count: int
    """Tensors in this file."""
    expected_bytes: int | None
    """Least size of the whole file; None if only a summary was read."""


def read_header(path: Path) -> Header:
    """Read all of the header, and check that the file is as long as its tensors need.

    Takes well under 100 ms for a vocabulary of 150,000 tokens.

    Raises:
        ModelFileError: The file cannot be read, is not GGUF, is damaged, or is truncated.
    """
    return _read(path, summary=False)


def read_summary(path: Path) -> Header:
    """Read only as far as is needed to name the model; the length of the file is not checked.

    Raises:
        ModelFileError: The file cannot be read, is not GGUF, or is damaged where it was read.
    """
    return _read(path, summary=True)


def _read(path: Path, *, summary: bool) -> Header:
    try:
        # Opening a named pipe would wait for its writer for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror}", "check the path and its permissions") from error
    try:
        if os.path.isdir(path):
            raise ModelFileError(f"{path} is a folder, not a GGUF file", _HINT)
        return _parse(_Window(descriptor), summary=summary)
    except _DamagedError as damage:
        raise ModelFileError(f"{path} {damage}", _HINT) from damage
    except OSError as error:
        raise ModelFileError(f"cannot read {path}: {error.strerror}", "check the path and its permissions") from error
    finally:
        os.close(descriptor)


class _DamagedError(Exception):
    """What is wrong with the file, as the rest of a sentence that begins with its path."""


class _Window:
    """A forward-only reader that keeps one stretch of the file in memory."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._start = 0
        self._bytes = b""
        self.file_bytes = os.fstat(descriptor).st_size
        self.position = 0

    def take(self, count: int) -> bytes:
        """Return the next ``count`` bytes (at most a window of them) and step over them."""
        offset = self.position - self._start
        if offset + count > len(self._bytes):
            self._bytes = os.pread(self._descriptor, max(count, _WINDOW_BYTES), self.position)
            self._start, offset = self.position, 0
            if len(self._bytes) < count:
                raise _DamagedError(f"ends inside its header: it is truncated (it has {self.file_bytes} bytes)")
        self.position += count
        return self._bytes[offset : offset + count]

    def skip(self, count: int) -> None:
        """Step over ``count`` bytes without reading them."""
        if count > self.file_bytes - self.position:
            raise _DamagedError(f"ends inside its header: it is truncated (it has {self.file_bytes} bytes)")
        self.position += count
        if self.position > _MOST_HEADER_BYTES:
            raise _DamagedError(f"has a damaged header: it claims to be larger than {_MOST_HEADER_BYTES} bytes")

    def skip_strings(self, count: int) -> None:
        """Step over ``count`` strings; the one loop that runs per token of the vocabulary."""
        length_at = struct.Struct("<Q").unpack_from
        while count:
            self.take(8)
            self.position -= 8
            window, at = self._bytes, self.position - self._start
            last = len(window) - 8
            while count and at <= last:
                at += 8 + length_at(window, at)[0]
                count -= 1
            self.skip(self._start + at - self.position)

    def number(self, layout: str) -> int:
        """Return one little-endian integer."""
        value: int = struct.unpack(f"<{layout}", self.take(struct.calcsize(layout)))[0]
        return value

    def text(self, most_bytes: int) -> str:
        """Return a string of at most ``most_bytes``; a longer one is damage."""
        length = self.number("Q")
        if length > most_bytes:
            raise _DamagedError(f"has a damaged header: a name of {length} bytes")
        return self.take(length).decode("utf-8", "replace")


@dataclass
class _Metadata:
    texts: dict[str, str]
    numbers: dict[str, int]
    strings: int = 0

    @classmethod
    def empty(cls) -> Self:
        return cls({}, {})

    @property
    def seen(self) -> set[str]:
        return self.texts.keys() | self.numbers.keys()


def _parse(window: _Window, *, summary: bool) -> Header:
    version = _check_magic(window)
    tensor_count, key_count = window.number("Q"), window.number("Q")
    if tensor_count > _MOST_TENSORS or key_count > _MOST_KEYS:
        raise _DamagedError(f"has a damaged header: it claims {tensor_count} tensors and {key_count} keys")
    metadata = _Metadata.empty()
    is_cut_short = False
    for _ in range(key_count):
        key = window.text(_MOST_KEY_BYTES)
        _read_value(window, key, metadata)
        if summary and metadata.seen >= _SUMMARY_KEYS:
            is_cut_short = True
            break
    expected_bytes = None
    if not is_cut_short:
        expected_bytes = _expected_bytes(window, tensor_count, metadata.numbers.get("general.alignment", 32))
        if not summary and window.file_bytes < expected_bytes:
            raise _DamagedError(f"is truncated: it should have {expected_bytes} bytes and has {window.file_bytes}")
    return Header(
        version=version,
        architecture=metadata.texts.get("general.architecture", ""),
        name=metadata.texts.get("general.name", ""),
        kind=metadata.texts.get("general.type", "model"),
        quantization=FILE_TYPES.get(metadata.numbers.get("general.file_type", -1) & ~1024, "unknown"),
        has_tokenizer="tokenizer.ggml.model" in metadata.texts,
        tensor_count=tensor_count,
        expected_bytes=None if summary else expected_bytes,
    )


def _check_magic(window: _Window) -> int:
    if window.file_bytes == 0:
        raise _DamagedError("is empty")
    beginning = window.take(min(64, window.file_bytes))
    window.position = 4
    if len(beginning) < 4 and b"GGUF".startswith(beginning):
        raise _DamagedError(f"is truncated, or not a GGUF file at all: it has {window.file_bytes} bytes")
    if beginning[:4] != b"GGUF":
        raise _DamagedError(f"is not a GGUF file: it looks like {_describe(beginning)}")
    version = window.number("I")
    if version and version & 0xFFFF == 0:
        raise _DamagedError("is a big-endian GGUF file, which this machine cannot use")
    if version not in (2, 3):
        raise _DamagedError(f"is of GGUF version {version}; 2 and 3 are supported")
    return version


def _describe(beginning: bytes) -> str:
    for prefix, description in _FOREIGN:
        if beginning.lstrip().startswith(prefix):
            return description
    if beginning[8:9] == b"{" and int.from_bytes(beginning[:8], "little") < 1 << 32:
        return "a safetensors file, which must be converted to GGUF first"
    try:
        # The cut after 64 bytes may fall into a character.
        text = beginning.decode("utf-8", "strict" if len(beginning) < 64 else "ignore")
    except UnicodeDecodeError:
        return "other data"
    is_text = bool(text) and all(character.isprintable() or character.isspace() for character in text)
    return "a text file" if is_text else "other data"


def _read_value(window: _Window, key: str, metadata: _Metadata) -> None:
    kind = window.number("I")
    if kind == ValueType.ARRAY:
        _skip_array(window, key, metadata)
    elif kind == ValueType.STRING:
        length = window.number("Q")
        if key.startswith(("general.", "tokenizer.ggml.")) and length <= _MOST_TEXT_BYTES:
            metadata.texts[key] = window.take(length).decode("utf-8", "replace")
        else:
            window.skip(length)
    elif kind in SCALARS:
        layout = SCALARS[kind]
        if layout in "fd":
            window.skip(struct.calcsize(layout))
        else:
            metadata.numbers[key] = window.number(layout)
    else:
        raise _DamagedError(f"has a damaged header: the key {key[:80]!r} has a value of unknown type {kind}")


def _skip_array(window: _Window, key: str, metadata: _Metadata) -> None:
    kind, count = window.number("I"), window.number("Q")
    if kind == ValueType.STRING:
        metadata.strings += count
        if metadata.strings > _MOST_STRINGS:
            raise _DamagedError(f"has a damaged header: the list {key[:80]!r} claims {count} strings")
        window.skip_strings(count)
    elif kind in SCALARS:
        window.skip(count * struct.calcsize(SCALARS[kind]))
    else:
        raise _DamagedError(f"has a damaged header: the list {key[:80]!r} holds values of unknown type {kind}")


def _expected_bytes(window: _Window, tensor_count: int, alignment: int) -> int:
    if not 0 < alignment <= 1 << 20 or alignment & (alignment - 1):
        raise _DamagedError(f"has a damaged header: an alignment of {alignment}")
    data_bytes = 0
    for _ in range(tensor_count):
        name = window.text(_MOST_KEY_BYTES)
        dimensions = window.number("I")
        if dimensions > _MOST_DIMENSIONS:
            raise _DamagedError(f"has a damaged header: the tensor {name[:80]!r} has {dimensions} dimensions")
        elements = 1
        for _ in range(dimensions):
            elements *= window.number("Q")
        kind, offset = window.number("I"), window.number("Q")
        # A type that came after this table still bounds the file from below by its offset.
        block_elements, block_bytes = TENSOR_BLOCKS.get(kind, (1, 0))
        data_bytes = max(data_bytes, offset + elements // block_elements * block_bytes)
    data_start = (window.position + alignment - 1) // alignment * alignment
    return data_start + data_bytes if tensor_count else window.position
