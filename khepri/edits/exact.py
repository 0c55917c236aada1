"""Puts a changed text back into the bytes of its file, so that whatever did not change keeps every byte.

Encoding, byte order mark, the line end of each single line and a missing last one survive; a new line ends as the line
that it replaces or follows.
"""

import codecs
import re
from dataclasses import dataclass
from typing import Final

from khepri.edits.line_diff import changed_regions
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.repo.text import TextFile, decode

_MARKS: Final = {
    "utf-8": codecs.BOM_UTF8,
    "utf-16-le": codecs.BOM_UTF16_LE,
    "utf-16-be": codecs.BOM_UTF16_BE,
    "utf-32-le": codecs.BOM_UTF32_LE,
    "utf-32-be": codecs.BOM_UTF32_BE,
}
# Python, and what reads it, take a single carriage return for the end of a line as well, be the others what they may.
_LINE_END: Final = re.compile(r"(\r\n|\r|\n)")


@dataclass(frozen=True)
class _Line:
    text: str
    end: str
    """What the file has after it; empty after a last line without an end."""


def replace_text(before: bytes, text: str, path: str = "the file") -> bytes:
    r"""Return ``before`` with its text replaced by ``text``.

    Args:
        before: The whole file.
        text: The new text as ``khepri.repo.text.decode`` would give it: without a mark, lines ending in ``\n``.
        path: What the file is called, for the refusal.

    Raises:
        ToolError: The file is not text.
        EditRefusedError: Its encoding cannot hold a character of the new lines.
    """
    file = decode(before)
    old = _lines(before, file)
    new = re.split("[\r\n]", text)
    ends_open = new[-1] != ""
    if not ends_open:
        new.pop()
    result: list[_Line] = []
    done = 0
    for region in changed_regions([line.text for line in old], new):
        result += old[done : region.old_start]
        for offset, content in enumerate(new[region.new_start : region.new_end]):
            result.append(_Line(content, _end_for(old, region.old_start + offset, region.old_end, file.newline)))
        done = region.old_end
    result += old[done:]
    whole = "".join(line.text + (line.end or file.newline) for line in result[:-1])
    if result:
        last = result[-1]
        whole += last.text + ("" if ends_open else last.end or file.newline)
    return _mark(file) + _encode(whole, file, path)


def _lines(before: bytes, file: TextFile) -> list[_Line]:
    pieces = _LINE_END.split(before[len(_mark(file)) :].decode(file.encoding))
    lines = [_Line(*pair) for pair in zip(pieces[:-1:2], pieces[1::2], strict=True)]
    if pieces[-1]:
        lines.append(_Line(pieces[-1], ""))
    return lines


def _end_for(old: list[_Line], place: int, replaced_end: int, usual: str) -> str:
    """Return the end of a new line that stands where the old line ``place`` was, or after the last replaced one."""
    at = min(place, replaced_end - 1)
    if 0 <= at < len(old) and old[at].end:
        return old[at].end
    return usual


def _mark(file: TextFile) -> bytes:
    return _MARKS[file.encoding] if file.has_bom else b""


def _encode(text: str, file: TextFile, path: str) -> bytes:
    try:
        return text.encode(file.encoding)
    except UnicodeEncodeError as error:
        raise EditRefusedError(
            Refusal.ENCODING,
            f"{path} is {file.encoding}, which cannot hold {error.object[error.start]!r}",
            "use characters of that encoding, or convert the file first",
        ) from error
