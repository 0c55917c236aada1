"""Reads a file as text, whatever its encoding, and makes text harmless to show.

Which files may be read is decided in ``khepri.repo.root``; what a file means is not known here.
"""

import codecs
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from khepri.errors import ToolError

_SAMPLE_BYTES: Final = 8192
_CONTROL_BYTES: Final = bytes(set(range(0x20)) - set(b"\t\n\v\f\r\b\x1b")) + b"\x7f"
_MOST_CONTROL_BYTES: Final = 0.1

# UTF-32 goes first: its little-endian mark begins with the one of UTF-16.
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_CODING: Final = re.compile(rb"(?:[ \t\f]*(?:#[^\r\n]*)?\r?\n)?[ \t\f]*#[^\r\n]*?coding[:=][ \t]*([-\w.]+)")
"""A comment that says how a file is encoded, as PEP 263 has it."""
_ANSI: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor movement
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)"  # OSC and other strings
    r"|\x1b[ -/]*[0-~]"
)
# Bidirectional overrides can show code in another order than it runs in.
_HARMFUL: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


@dataclass(frozen=True)
class TextFile:
    """The content of a text file and what is needed to write it back as it was."""

    text: str
    """The content without its byte order mark; every line ends in ``\\n``. Split it at ``\\n`` and nothing else."""
    encoding: str
    """Python's name of the encoding: ``utf-8``, ``utf-16-le``, ``latin-1``, …"""
    newline: str
    """The line end that the file uses most: ``\\n``, ``\\r\\n`` or ``\\r``."""
    has_bom: bool
    """True if the file begins with a byte order mark."""
    size_bytes: int
    """Size of the whole file, also when only its beginning was read."""
    is_cut: bool
    """True if the file is larger than what was read; ``text`` then ends with the last whole line."""


def read_text(path: Path, max_bytes: int = 2_000_000) -> TextFile:
    """Read a regular file as text; never blocks on a pipe and never follows a link in the last component.

    Args:
        path: A real path, as ``Repository.resolve`` returns it.
        max_bytes: Most bytes to read; the rest of a larger file is left out.

    Raises:
        ToolError: The file is missing, may not be read, is not a regular file, or is binary.
    """
    return decode(*_read_bytes(path, max_bytes))


def decode(data: bytes, size: int | None = None) -> TextFile:
    """Read bytes as text: by their byte order mark, as UTF-16 when that is plain to see, as UTF-8, or as Latin text.

    What is not UTF-8 is read by the encoding that it declares, as Python and Emacs do, if that can be.

    Args:
        data: The bytes, or the first ones.
        size: How many there are in all, if ``data`` holds only the first ones.

    Raises:
        ToolError: The bytes are not text.
    """
    size = len(data) if size is None else size
    is_cut = len(data) < size
    mark, marked = next((pair for pair in _MARKS if data.startswith(pair[0])), (b"", None))
    for encoding in (marked,) if marked else _candidates(data, size):
        text = _decode(data[len(mark) :], encoding, is_cut)
        if text is not None:
            return _finish(text, encoding, has_bom=bool(mark), size=size, is_cut=is_cut)
    raise _binary(size)


def text_or_nothing(data: bytes) -> str:
    """Return what ``decode`` makes of a file, and an empty text for one that is none."""
    try:
        return decode(data).text
    except ToolError:
        return ""


def is_binary(path: Path) -> bool:
    """Return True if the beginning of a file is not text, or the file cannot be read."""
    try:
        decode(*_read_bytes(path, _SAMPLE_BYTES))
    except ToolError:
        return True
    return False


def printable(text: str) -> str:
    """Return ``text`` without terminal escapes, and with other control characters spelled out in hexadecimal.

    Line ends and tabs stay. Half surrogates, which file names that are not UTF-8 are read with, become U+FFFD.
    """
    return _HARMFUL.sub(_spell, _ANSI.sub("", text))


def printable_json(document: str) -> str:
    """Return a JSON document that means the same, with JSON's own escapes for what could steer a terminal."""
    return _HARMFUL.sub(lambda found: f"\\u{ord(found[0]):04x}", document)


def counted(number: int, noun: str) -> str:
    """Return a number of things, such as ``1 turn`` or ``2,000 turns``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def cut_line(line: str, max_chars: int = 300) -> str:
    """Return ``line``, or its beginning and the number of characters that were left out."""
    if len(line) <= max_chars:
        return line
    return f"{line[:max_chars]} [cut: {len(line) - max_chars} more characters]"


def cut_middle(text: str, max_chars: int) -> str:
    """Return ``text``, or its beginning and its end, with a line between them that says what was left out."""
    if len(text) <= max_chars:
        return text
    head = text[: max_chars // 2]
    tail = text[len(text) - (max_chars - len(head)) :]
    # Whole lines, unless they are so long that little would be left.
    head = head[: head.rfind("\n", len(head) // 2) + 1 or None]
    tail = tail[tail.find("\n", 0, len(tail) // 2) + 1 :]
    left_out = len(text) - len(head) - len(tail)
    return f"{head.rstrip()}\n[cut: {left_out:,} characters left out here]\n{tail.lstrip()}"


def _read_bytes(path: Path, max_bytes: int) -> tuple[bytes, int]:
    # Opening a pipe without O_NONBLOCK would wait for a writer; what was opened is checked, not what was listed.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        descriptor = os.open(path, flags)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ToolError(f"{printable(path.name)} is not a regular file", "name a file")
            data = file.read(max_bytes)
            return data, max(status.st_size, len(data))
    except OSError as error:
        raise ToolError(f"{printable(path.name)} cannot be read: {error.strerror}") from error


def _candidates(data: bytes, size: int) -> tuple[str, ...]:
    sample = data[:_SAMPLE_BYTES]
    if b"\0" in data:
        # Text in a Western script has a NUL in nearly every second byte of UTF-16, and always on the same side.
        half = max(1, len(sample) // 2)
        even, odd = sample[0::2].count(0) / half, sample[1::2].count(0) / half
        if odd > 0.4 and even < 0.05:
            return ("utf-16-le",)
        if even > 0.4 and odd < 0.05:
            return ("utf-16-be",)
        raise _binary(size)
    if len(data) - len(data.translate(None, _CONTROL_BYTES)) > _MOST_CONTROL_BYTES * len(data):
        raise _binary(size)
    if len(data) == len(data.translate(None, bytes(range(0x80, 0xA0)))):
        return ("utf-8", *_declared(data), "latin-1")
    return ("utf-8", *_declared(data), "cp1252", "latin-1")


def _declared(data: bytes) -> tuple[str, ...]:
    """Return the encoding that one of the first two lines declares, if it is one that agrees with ASCII."""
    found = _CODING.match(data)
    if found is None:
        return ()
    try:
        name = codecs.lookup(found[1].decode()).name
        if name.endswith("escape"):
            return ()  # Python would warn of a backslash that means nothing.
        is_like_ascii = bytes(range(0x80)).decode(name) == bytes(range(0x80)).decode("ascii")
        is_kept = is_like_ascii and data.decode(name).encode(name) == data
    except (LookupError, UnicodeError):
        return ()
    return ("latin-1" if name == "iso8859-1" else name,) if is_kept else ()


def _decode(data: bytes, encoding: str, is_cut: bool) -> str | None:
    try:
        # A cut may fall into the middle of a character; the incremental decoder keeps such a rest back.
        return codecs.getincrementaldecoder(encoding)("strict").decode(data, final=not is_cut)
    except UnicodeDecodeError:
        return None


def _finish(text: str, encoding: str, *, has_bom: bool, size: int, is_cut: bool) -> TextFile:
    pairs = text.count("\r\n")
    singles = text.count("\n") - pairs
    newline = "\r\n" if pairs > singles else "\n"
    if pairs:
        text = text.replace("\r\n", "\n")
    elif not singles and "\r" in text:
        newline, text = "\r", text.replace("\r", "\n")
    if is_cut and "\n" in text:
        text = text[: text.rindex("\n") + 1]
    return TextFile(text=text, encoding=encoding, newline=newline, has_bom=has_bom, size_bytes=size, is_cut=is_cut)


def _binary(size: int) -> ToolError:
    return ToolError(f"binary file, {size} bytes", "read a text file")


def _spell(match: re.Match[str]) -> str:
    code = ord(match.group())
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
