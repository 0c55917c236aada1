"""Searches the visible files of a repository with ripgrep.

ripgrep gets the visible files by name instead of walking on its own, so that what is searched is exactly what
``Repository`` shows. How results are worded for a model is not known here.
"""

import base64
import json
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypedDict

from khepri.errors import ToolError
from khepri.repo.ignore import ripgrep
from khepri.repo.process import run_bounded
from khepri.repo.root import Repository
from khepri.repo.text import is_binary

_TIMEOUT_S: Final = 20.0
_MOST_BYTES: Final = 32_000_000
_BATCH_BYTES: Final = 400_000
_LEAST_PER_FILE: Final = 3


@dataclass(frozen=True)
class FoundLine:
    """A line that matches, or one around it."""

    number: int
    """Line number, from 1."""
    text: str
    """The line without its end; neither cut nor made printable."""
    column: int
    """Index in ``text`` where the first match begins; -1 for a line of context."""


@dataclass(frozen=True)
class FoundFile:
    """The matches in one file."""

    path: str
    """POSIX path from the root."""
    matches: int
    """Matching lines in the whole file."""
    lines: tuple[FoundLine, ...]
    """The first of them with their context; fewer than ``matches`` when the search was capped."""


@dataclass(frozen=True)
class SearchResult:
    """What a search found, sorted by path."""

    files: tuple[FoundFile, ...]
    """Every file with a match; those beyond the cap have no ``lines``."""
    matches: int
    """Matching lines in all files, capped or not."""
    shown: int
    """Matching lines that ``files`` holds."""
    searched_files: int
    """Files that were searched."""

    @property
    def is_cut(self) -> bool:
        """True if some matches are counted but not shown."""
        return self.shown < self.matches


def search(
    repository: Repository,
    pattern: str,
    *,
    literal: bool = True,
    path: str | None = None,
    glob: str | None = None,
    case_sensitive: bool | None = None,
    context: int = 0,
    max_matches: int = 50,
) -> SearchResult:
    """Find the lines that match.

    Every file gets at least a few of the matches before any gets many, so that a cap does not hide whole files.

    Args:
        repository: Whose visible files are searched.
        pattern: A text, or a regular expression in ripgrep's syntax.
        literal: True takes the pattern as a text.
        path: A file or folder to stay in.
        glob: A pattern of ``.gitignore`` that paths must match, such as ``*.py`` or ``src/**/*.{ts,tsx}``.
        case_sensitive: None ignores case if the pattern has no capital letter.
        context: Lines to show around each match.
        max_matches: Most matches to show; all are counted.

    Raises:
        ToolError: The pattern is empty or no regular expression, the path is refused, or the search took too long.
    """
    if not pattern.strip("\r\n"):
        raise ToolError("the pattern is empty", "name a word to search for")
    if "\0" in pattern:
        raise ToolError("the pattern holds a NUL byte", "leave it out")
    candidates = repository.select(path, glob)
    options = ["--no-config", "--no-messages", "--crlf", *_patterns(pattern, literal=literal)]
    options.append({None: "--smart-case", True: "--case-sensitive", False: "--ignore-case"}[case_sensitive])

    counts: dict[str, int] = {}
    for batch in batches(candidates):
        counts |= _count(repository, [*options, "--count", "--null", "--with-filename"], batch)
    found = [name for name in sorted(counts) if not is_binary(repository.root / name)]
    per_file = _share([counts[name] for name in found], max_matches)
    lines: dict[str, tuple[FoundLine, ...]] = {}
    chosen = _first(found, counts, per_file, max_matches)
    shown_options = [*options, "--json", f"--context={max(0, context)}", f"--max-count={per_file}"]
    for batch in batches(chosen):
        lines |= _read_matches(repository, shown_options, batch)
    files = tuple(FoundFile(path=name, matches=counts[name], lines=lines.get(name, ())) for name in found)
    return SearchResult(
        files=files,
        matches=sum(file.matches for file in files),
        shown=sum(1 for file in files for line in file.lines if line.column >= 0),
        searched_files=len(candidates),
    )


def _patterns(pattern: str, *, literal: bool) -> list[str]:
    """Return ripgrep's options for what is searched for, in files that are Latin-1 as well if it is a text."""
    if not literal:
        return [f"--regexp={pattern}", "--engine=default"]
    if pattern.isascii():
        return [f"--regexp={pattern}", "--fixed-strings"]
    try:
        raw = pattern.encode("latin-1")
    except UnicodeEncodeError:
        return [f"--regexp={pattern}", "--fixed-strings"]
    as_bytes = "".join(re.escape(chr(byte)) if byte < 0x80 else f"\\x{byte:02x}" for byte in raw)
    return [f"--regexp={re.escape(pattern)}", f"--regexp=(?-u:{as_bytes})", "--engine=default"]


def _share(counts: Sequence[int], most: int) -> int:
    """Return the largest number of matches per file with which all files together stay within ``most``."""
    share = min(_LEAST_PER_FILE, max(1, most))
    while share < most and sum(min(count, share + 1) for count in counts) <= most:
        share += 1
    return share


def _first(found: Sequence[str], counts: dict[str, int], per_file: int, most: int) -> list[str]:
    chosen: list[str] = []
    left = most
    for name in found:
        left -= min(counts[name], per_file)
        if left < 0:
            break
        chosen.append(name)
    return chosen


def batches(names: Sequence[str]) -> Iterator[list[str]]:
    """Split names so that each batch fits on a command line."""
    batch: list[str] = []
    size = 0
    for name in names:
        # 8 bytes for the pointer that the kernel keeps for every argument.
        size += len(os.fsencode(name)) + 9
        batch.append(name)
        if size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def run_ripgrep(repository: Repository, options: Sequence[str], names: Sequence[str]) -> bytes:
    """Run ripgrep over visible files, one batch of them, and return what it prints; at most 32 MB and 20 seconds.

    Raises:
        ToolError: ripgrep is missing, refuses the options or takes too long.
    """
    # Two threads at most: the model may be using the other cores.
    command = [ripgrep(), "--threads=2", *options, "--", *names]
    try:
        done = run_bounded(command, cwd=repository.root, timeout_s=_TIMEOUT_S, most_bytes=_MOST_BYTES)
    except OSError as error:
        raise ToolError(f"ripgrep cannot be run: {error.strerror}", "reinstall khepri") from error
    if done.timed_out:
        raise ToolError(f"the search took longer than {_TIMEOUT_S:g} s", "name a path or a simpler pattern")
    # Status 2 without words is a file that vanished or may not be read.
    if done.status not in {0, 1} and done.errors.strip():
        raise _explain(done.errors)
    return done.output


def _count(repository: Repository, options: Sequence[str], names: Sequence[str]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in run_ripgrep(repository, options, names).split(b"\n"):
        # With --crlf ripgrep ends its own rows in CRLF too.
        name, separator, count = row.rstrip(b"\r").rpartition(b"\0")
        if separator and count.isdigit():
            counts[os.fsdecode(name)] = int(count)
    return counts


class _Bytes(TypedDict, total=False):
    text: str
    bytes: str


class _Submatch(TypedDict):
    start: int


class _Data(TypedDict, total=False):
    path: _Bytes
    lines: _Bytes
    line_number: int
    submatches: list[_Submatch]


class _Event(TypedDict):
    type: str
    data: _Data


def _read_matches(
    repository: Repository, options: Sequence[str], names: Sequence[str]
) -> dict[str, tuple[FoundLine, ...]]:
    lines: dict[str, list[FoundLine]] = {}
    # The last piece is empty, or a row that the limit on the output cut.
    for row in run_ripgrep(repository, options, names).split(b"\n")[:-1]:
        event: _Event = json.loads(row)
        if event["type"] in {"match", "context"}:
            data = event["data"]
            lines.setdefault(_bytes(data["path"]).decode("utf-8", "replace"), []).append(_line(data))
    return {name: tuple(found) for name, found in lines.items()}


def _line(data: _Data) -> FoundLine:
    raw = _bytes(data["lines"]).rstrip(b"\r\n")
    submatches = data.get("submatches") or []
    column = len(_decode(raw[: submatches[0]["start"]])) if submatches else -1
    return FoundLine(number=data["line_number"], text=_decode(raw), column=column)


def _bytes(value: _Bytes) -> bytes:
    return value["text"].encode() if "text" in value else base64.b64decode(value["bytes"])


def _decode(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _explain(errors: str) -> ToolError:
    reason = next((line for line in errors.splitlines() if line.startswith("error: ")), errors.strip().split("\n")[0])
    reason = reason.removeprefix("error: ").removeprefix("rg: ")
    if "not allowed in a regex" in reason:
        return ToolError("a pattern cannot hold a line end", "search for a part of one line")
    return ToolError(f"not a regular expression: {reason}", "search for it as plain text")
