"""What a change is: for each file the bytes before and after, and the hunks between them.

Plain frozen values, with no file opened. A screen shows a change by ``FileChange.old_text`` and ``new_text`` (whole
files, for a side-by-side view) or by ``hunks`` (for a list to accept or reject), and gets what the user left of it from
``FileChange.keep`` or ``FileChange.with_text``.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

from khepri.edits.exact import replace_text
from khepri.edits.line_diff import changed_regions
from khepri.errors import ToolError
from khepri.repo.text import decode, printable


@dataclass(frozen=True)
class Hunk:
    """A run of lines that is replaced by another one."""

    number: int
    """Its place among the hunks of its file, from 0: what ``FileChange.keep`` takes."""
    old_start: int
    """First line that goes, from 1; where none goes, the line before which the new ones come."""
    old_lines: tuple[bytes, ...]
    """The lines that go, with their line ends."""
    new_start: int
    """First line that comes, from 1 in the new file; where none comes, the line before which the old ones stood."""
    new_lines: tuple[bytes, ...]
    """The lines that come, with their line ends."""


@dataclass(frozen=True)
class FileChange:
    """One file before and after. Either side is None where the file does not exist there."""

    path: str
    """POSIX path from the root of the repository."""
    before: bytes | None
    """The whole content that was read; None for a new file."""
    after: bytes | None
    """The whole content that is proposed; None for a file that goes."""
    mode: int | None = field(default=None, compare=False)
    """Permission bits of a file that goes, or comes back; None for those that any new file has."""

    @cached_property
    def hunks(self) -> tuple[Hunk, ...]:
        """The differences, first to last. Computed once."""
        old, new = split_lines(self.before or b""), split_lines(self.after or b"")
        return tuple(
            Hunk(
                number,
                region.old_start + 1,
                tuple(old[region.old_start : region.old_end]),
                region.new_start + 1,
                tuple(new[region.new_start : region.new_end]),
            )
            for number, region in enumerate(changed_regions(old, new))
        )

    @property
    def old_text(self) -> str:
        r"""The text before, lines ending in ``\n``, safe to show; empty for a new file."""
        return _shown(self.before)

    @property
    def new_text(self) -> str:
        r"""The text after, lines ending in ``\n``, safe to show; empty for a file that goes."""
        return _shown(self.after)

    @property
    def plain_text(self) -> str:
        """The text after as it is, for an editor; empty for a file that goes or is binary."""
        try:
            return decode(self.after).text if self.after is not None else ""
        except ToolError:
            return ""

    @property
    def added_lines(self) -> int:
        """How many lines come."""
        return sum(len(hunk.new_lines) for hunk in self.hunks)

    @property
    def removed_lines(self) -> int:
        """How many lines go."""
        return sum(len(hunk.old_lines) for hunk in self.hunks)

    def keep(self, accepted: Collection[int]) -> "FileChange | None":
        """Return this change with the hunks of these numbers only; None if nothing is left of it.

        A file that is created or goes is one decision: it stays whole if any of its hunks is accepted.
        """
        if not accepted:
            return None
        if self.before is None or self.after is None or len(accepted) == len(self.hunks):
            return self
        old = split_lines(self.before)
        kept: list[bytes] = []
        done = 0
        for hunk in self.hunks:
            if hunk.number in accepted:
                kept += [*old[done : hunk.old_start - 1], *hunk.new_lines]
                done = hunk.old_start - 1 + len(hunk.old_lines)
        after = b"".join([*kept, *old[done:]])
        return None if after == self.before else FileChange(self.path, self.before, after)

    def with_text(self, text: str) -> "FileChange | None":
        r"""Return this change with a text that the user edited in its place; None if it is the old one.

        Args:
            text: The whole new text, lines ending in ``\n``; encoding and line ends of the file are kept.

        Raises:
            EditRefusedError: The file's encoding cannot hold the text.
        """
        after = text.encode() if self.before is None else replace_text(self.before, text, self.path)
        return None if after == self.before else FileChange(self.path, self.before, after)


@dataclass(frozen=True)
class ChangeSet:
    """Changes of several files that are reviewed, applied and taken back as one."""

    title: str
    """What it does, in a few words: the user's task, or what a refactoring says of itself."""
    files: tuple[FileChange, ...]
    """One entry a path, sorted by path; none of them is without effect."""

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths that change."""
        return tuple(change.path for change in self.files)

    @property
    def added_lines(self) -> int:
        """How many lines come, in all files."""
        return sum(change.added_lines for change in self.files)

    @property
    def removed_lines(self) -> int:
        """How many lines go, in all files."""
        return sum(change.removed_lines for change in self.files)

    def merged(self, later: "ChangeSet") -> "ChangeSet":
        """Return this change and then ``later``, which was made on top of it, as one."""
        files = {change.path: change for change in self.files}
        for change in later.files:
            first = files.get(change.path)
            files[change.path] = (
                change
                if first is None
                else (
                    FileChange(
                        change.path, first.before, change.after, change.mode if first.mode is None else first.mode
                    )
                )
            )
        return change_set(self.title, files.values())


def change_set(title: str, files: Collection[FileChange]) -> ChangeSet:
    """Return a change set in its normal form: sorted, and without files that stay as they were."""
    effective = [change for change in files if change.before != change.after]
    return ChangeSet(title, tuple(sorted(effective, key=lambda change: change.path)))


def split_lines(data: bytes) -> list[bytes]:
    r"""Return the lines of ``data`` with their ends: split after ``\n`` and nothing else, as git does."""
    pieces = data.split(b"\n")
    lines = [piece + b"\n" for piece in pieces[:-1]]
    return [*lines, pieces[-1]] if pieces[-1] else lines


def _shown(data: bytes | None) -> str:
    if data is None:
        return ""
    try:
        return printable(decode(data).text)
    except ToolError as error:
        return f"[{error.message}]\n"
