"""Writes a change set as a patch that ``git apply`` takes.

References:
    https://git-scm.com/docs/diff-format; the base85 of binary patches is the one of Python's ``base64.b85encode``.
"""

import base64
import hashlib
import stat
import zlib
from collections.abc import Iterator
from typing import Final

from khepri.edits.change import ChangeSet, FileChange, split_lines
from khepri.edits.line_diff import Region, changed_regions

CONTEXT_LINES: Final = 3
_NO_END: Final = b"\n\\ No newline at end of file\n"
_BINARY_LINE_BYTES: Final = 52
_ESCAPES: Final = {ord("\t"): b"\\t", ord("\n"): b"\\n", ord("\r"): b"\\r", ord('"'): b'\\"', ord("\\"): b"\\\\"}


def patch_of(changes: ChangeSet) -> bytes:
    """Return the change as one patch in git's format, with three lines of context."""
    return b"".join(file_patch(change) for change in changes.files)


def patch_text(changes: ChangeSet) -> str:
    """Return the change as a patch that is valid UTF-8, for JSON: files in other encodings become binary patches."""
    return b"".join(file_patch(change, is_text=True) for change in changes.files).decode()


def file_patch(change: FileChange, *, is_text: bool = False) -> bytes:
    """Return the patch of one file; content with NUL bytes, such as UTF-16, becomes a binary patch.

    Args:
        change: What is done to the file.
        is_text: True makes a binary patch of all that is no UTF-8.
    """
    path = change.path.encode("utf-8", "surrogateescape")
    old_name, new_name = (_quoted(side + path, is_text=is_text) for side in (b"a/", b"b/"))
    header = b"diff --git %s %s\n" % (old_name, new_name)
    if change.before is None:
        header += b"new file mode %s\n" % _mode(change)
    elif change.after is None:
        header += b"deleted file mode %s\n" % _mode(change)
    before, after = change.before or b"", change.after or b""
    if b"\0" in before + after or (is_text and not (_is_utf8(before) and _is_utf8(after))):
        return header + _binary(change.before, change.after)
    if before == after:
        return header
    names = b"--- %s\n+++ %s\n" % (
        b"/dev/null" if change.before is None else old_name,
        b"/dev/null" if change.after is None else new_name,
    )
    return header + names + b"".join(_hunks(split_lines(before), split_lines(after)))


def _mode(change: FileChange) -> bytes:
    """Return the mode that git knows a file by: it may be run by its owner, or not."""
    return b"100755" if change.mode is not None and change.mode & stat.S_IXUSR else b"100644"


def _hunks(old: list[bytes], new: list[bytes]) -> Iterator[bytes]:
    for group in _groups(list(changed_regions(old, new))):
        first, last = group[0], group[-1]
        lead = min(CONTEXT_LINES, first.old_start)
        trail = min(CONTEXT_LINES, len(old) - last.old_end)
        old_span = (first.old_start - lead, last.old_end + trail)
        new_span = (first.new_start - lead, last.new_end + trail)
        yield b"@@ -%s +%s @@\n" % (_span(old_span), _span(new_span))
        place = old_span[0]
        for region in group:
            yield from (_row(b" ", line) for line in old[place : region.old_start])
            yield from (_row(b"-", line) for line in old[region.old_start : region.old_end])
            yield from (_row(b"+", line) for line in new[region.new_start : region.new_end])
            place = region.old_end
        yield from (_row(b" ", line) for line in old[place : old_span[1]])


def _groups(regions: list[Region]) -> Iterator[list[Region]]:
    """Yield runs of regions whose contexts touch."""
    group: list[Region] = []
    for region in regions:
        if group and region.old_start - group[-1].old_end > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(region)
    if group:
        yield group


def _span(span: tuple[int, int]) -> bytes:
    start, count = span[0], span[1] - span[0]
    # An empty range is named by the line before it.
    first = start + 1 if count else start
    return b"%d" % first if count == 1 else b"%d,%d" % (first, count)


def _row(sign: bytes, line: bytes) -> bytes:
    return sign + line if line.endswith(b"\n") else sign + line + _NO_END


def _binary(before: bytes | None, after: bytes | None) -> bytes:
    # Without a mode behind the ids git takes the file with the mode that it has.
    ids = b"index %s..%s" % (_blob_id(before), _blob_id(after))
    return ids + b"\nGIT binary patch\n" + _literal(after or b"") + _literal(before or b"")


def _blob_id(data: bytes | None) -> bytes:
    if data is None:
        return b"0" * 40
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest().encode()


def _literal(data: bytes) -> bytes:
    packed = zlib.compress(data)
    rows = [b"literal %d\n" % len(data)]
    for start in range(0, len(packed), _BINARY_LINE_BYTES):
        piece = packed[start : start + _BINARY_LINE_BYTES]
        length = len(piece)
        mark = chr(ord("A") + length - 1) if length <= 26 else chr(ord("a") + length - 27)
        rows.append(mark.encode() + base64.b85encode(piece, pad=True) + b"\n")
    return b"".join(rows) + b"\n"


def _quoted(name: bytes, *, is_text: bool) -> bytes:
    """Return a path as git writes it: quoted where it holds what could end it, or must be text and is none."""
    top = 0x7F if is_text and not _is_utf8(name) else 0x100
    if not any(byte < 0x20 or byte in b'"\\' or byte == 0x7F or byte > top for byte in name):
        return name
    escaped = {byte for byte in range(256) if byte < 0x20 or byte == 0x7F or byte > top}
    shown = b"".join(_ESCAPES.get(byte, b"\\%03o" % byte if byte in escaped else bytes([byte])) for byte in name)
    return b'"' + shown + b'"'


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
