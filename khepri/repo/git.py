"""Answers questions about history: log, show, diff, blame and status.

Only text that git writes, with secrets and what ``.khepriignore`` hides left out. How git is kept from running
anything else is in ``khepri.repo.gitcommand``; how answers are worded for a model is not known here.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from khepri.errors import ToolError
from khepri.repo.gitcommand import run_git
from khepri.repo.root import Repository

_FORBIDDEN_IN_REF: Final = re.compile(r"[\x00-\x20\x7f:?*\[\\]|^-|^$")
_MOST_HIDDEN: Final = 1000
_UNBORN: Final = "No commits yet on "
_COMMIT_FORMAT: Final = "commit %h%nauthor %an%ndate %as%n%n%B"
_LOG_FORMAT: Final = "%h%x00%as%x00%an%x00%s"
_PATCH: Final = (
    "--patch",
    "--stat",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--ignore-submodules=dirty",
    "--submodule=short",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)


@dataclass(frozen=True)
class Commit:
    """One line of the log."""

    sha: str
    """Abbreviated name."""
    date: str
    """Author's date, ``YYYY-MM-DD``."""
    author: str
    """Author's name."""
    subject: str
    """First line of the message."""


@dataclass(frozen=True)
class BlamedLine:
    """One line of a file and the commit it comes from."""

    number: int
    """Line number, from 1."""
    sha: str
    """Abbreviated name of the commit; all zeros for a change that is not committed."""
    date: str
    """Author's date, ``YYYY-MM-DD``."""
    author: str
    """Author's name."""
    text: str
    """The line."""


@dataclass(frozen=True)
class Patch:
    """Text of git's with the paths of the files that it is about."""

    text: str
    """As git writes it."""
    paths: tuple[str, ...]
    """POSIX paths from the root, as far as they are shown."""
    hidden: int
    """Files left out as secret or hidden by ``.khepriignore``."""


def log(
    repository: Repository, *, path: str | None = None, ref: str | None = None, max_count: int = 20
) -> tuple[Commit, ...]:
    """Return the latest commits, newest first.

    Args:
        repository: Whose history it is.
        path: Only commits that touch this file or folder, which need not exist any more.
        ref: Where to begin, or a range ``a..b``; by default HEAD.
        max_count: Most commits.

    Raises:
        ToolError: There is no git or no commit, or the ref or the path is refused.
    """
    revisions = _revisions(repository, ref or "HEAD")
    arguments = ["log", f"--max-count={max_count}", f"--format={_LOG_FORMAT}", "--no-show-signature", "--no-color"]
    rows = _lines(_run(repository, [*arguments, *revisions, "--", *_paths(repository, path)]))
    return tuple(Commit(*fields) for row in rows if len(fields := row.split("\0", 3)) == 4)


def show(repository: Repository, *, ref: str | None = None, path: str | None = None) -> Patch:
    """Return a commit's message and patch; for ``commit:path``, the file as it was in that commit.

    Args:
        repository: Whose history it is.
        ref: A commit, or ``commit:path``; by default HEAD.
        path: Only the patch of this file or folder.

    Raises:
        ToolError: There is no git or no commit, or the ref or the path is refused.
    """
    commit, separator, inner = (ref or "HEAD").partition(":")
    if separator:
        name = repository.history_path(inner)
        content = _run(repository, ["cat-file", "blob", f"{_commit(repository, commit)}:{name}"])
        if b"\0" in content:
            raise ToolError(f"binary file, {len(content)} bytes", "look at a text file")
        return Patch(text=_decode(content), paths=(name,), hidden=0)
    sha = _commit(repository, commit)
    base = ["show", "--diff-merges=first-parent", "--no-show-signature"]
    return _patch(repository, [*base, f"--format={_COMMIT_FORMAT}"], [*base, "--format="], [sha], path)


def diff(repository: Repository, *, ref: str | None = None, path: str | None = None) -> Patch:
    """Return what changed between HEAD (or ``ref``) and the work tree, or within a range ``a..b`` or ``a...b``.

    Args:
        repository: Whose history it is.
        ref: A commit or a range; by default HEAD, so that staged and unstaged changes both show.
        path: Only this file or folder.

    Raises:
        ToolError: There is no git or no such ref, the path is refused, or a bare repository was asked without a range.
    """
    if ref is None and not repository.is_bare and _is_unborn(repository):
        return _patch(repository, ["diff", "--cached"], ["diff", "--cached"], [], path)
    revisions = _revisions(repository, ref or "HEAD")
    if repository.is_bare and ".." not in (ref or ""):
        raise ToolError("this is a bare repository: it has no work tree to compare with", "name a range such as a..b")
    return _patch(repository, ["diff"], ["diff"], revisions, path)


def blame(
    repository: Repository, path: str, *, first: int | None = None, last: int | None = None, ref: str | None = None
) -> tuple[BlamedLine, ...]:
    """Return the commit that each line of a file comes from.

    Args:
        repository: Whose history it is.
        path: A file that git tracks.
        first: First line, from 1; by default the file's.
        last: Last line; by default the file's.
        ref: The commit to look from; by default the work tree, or HEAD where there is none.

    Raises:
        ToolError: There is no git or no commit, git does not track the file, or an argument is refused.
    """
    name = repository.history_path(path)
    if ref is None and repository.is_bare:
        ref = "HEAD"
    revisions = [_commit(repository, ref)] if ref is not None else []
    if not revisions:
        repository.resolve(path)
        _commit(repository, "HEAD")
    span = [f"-L{first or 1},{last or ''}"] if first or last else []
    arguments = ["blame", "--line-porcelain", "--no-textconv", "--abbrev=8", *span, *revisions, "--", name]
    return tuple(_read_blame(_decode(_run(repository, arguments))))


def status(repository: Repository) -> tuple[str, ...]:
    """Return the branch and the changed files, as rows such as ``branch main``, `` M khepri/x.py`` and ``?? new.py``.

    Raises:
        ToolError: There is no git, or the repository has no work tree.
    """
    if repository.is_bare:
        raise ToolError("this is a bare repository: it has no work tree", "use log or show")
    arguments = ["status", "--porcelain=v1", "-z", "--branch", "--untracked-files=normal", "--no-renames"]
    rows = _decode(_run(repository, [*arguments, "--ignore-submodules=dirty"])).split("\0")
    shown = [_branch(row[3:]) for row in rows if row.startswith("## ")]
    return (*shown, *(row for row in rows if row and row[:2] != "##" and not _hides(repository, row[3:])))


def _branch(told: str) -> str:
    name = told.removeprefix(_UNBORN)
    return f"branch {name}" if name == told else f"branch {name} (no commits yet)"


def _patch(
    repository: Repository,
    command: Sequence[str],
    names_command: Sequence[str],
    revisions: Sequence[str],
    path: str | None,
) -> Patch:
    only = _paths(repository, path)
    # Hidden files are excluded by their exact names: pathspecs cannot say all that ignore patterns can.
    listing = [*names_command, "--name-only", "-z", "--no-renames", "--no-ext-diff", "--ignore-submodules=dirty"]
    names = sorted(
        {name for name in _decode(_run(repository, [*listing, *revisions, "--", *only])).split("\0") if name}
    )
    hidden = [name for name in names if _hides(repository, name)]
    if len(hidden) > _MOST_HIDDEN:
        raise ToolError(f"{len(hidden)} of the changed files are hidden", "name a path")
    visible = tuple(name for name in names if name not in set(hidden))
    excluded = [f":(exclude,literal){name}" for name in hidden]
    output = _run(repository, [*command, *_PATCH, *revisions, "--", *(only or ["."] * bool(excluded)), *excluded])
    return Patch(text=_decode(output).strip("\n"), paths=visible, hidden=len(hidden))


def _run(repository: Repository, arguments: Sequence[str]) -> bytes:
    if not repository.is_git:
        raise ToolError("this folder is not in a git repository", "use the other tools")
    return run_git(repository.root, arguments)


def _paths(repository: Repository, path: str | None) -> list[str]:
    name = repository.history_path(path) if path else "."
    return [] if name == "." else [f":(literal){name}"]


def _hides(repository: Repository, name: str) -> bool:
    return repository.is_hidden(name.rstrip("/")) or (name.endswith("/") and repository.is_hidden(f"{name}x"))


def _revisions(repository: Repository, ref: str) -> list[str]:
    """Return a ref or range with full object names in it, which nothing can mistake for an option or a path."""
    dots = "..." if "..." in ref else ".."
    left, separator, right = ref.partition(dots)
    if not separator:
        return [_commit(repository, ref)]
    return [_commit(repository, left or "HEAD") + dots + _commit(repository, right or "HEAD")]


def _commit(repository: Repository, ref: str) -> str:
    """Return the full name of a commit; a ref to anything else could name the content of a hidden file."""
    name = ref.strip()
    if _FORBIDDEN_IN_REF.search(name):
        raise ToolError(f"{name[:60]!r} is no commit", "name a branch, tag or commit such as HEAD~1")
    try:
        arguments = ["rev-parse", "--verify", "--end-of-options", f"{name}^{{commit}}"]
        return _decode(_run(repository, arguments)).strip()
    except ToolError as error:
        if "Needed a single revision" not in error.message and "unknown revision" not in error.message:
            raise
        if _is_unborn(repository):
            raise ToolError("the repository has no commits yet", "use status") from error
        raise ToolError(f"there is no commit {name[:60]}", "name one that log shows") from error


def _is_unborn(repository: Repository) -> bool:
    try:
        _run(repository, ["rev-parse", "--verify", "HEAD"])
    except ToolError as error:
        return "Needed a single revision" in error.message
    return False


def _read_blame(text: str) -> list[BlamedLine]:
    found: list[BlamedLine] = []
    fields: dict[str, str] = {}
    header: list[str] = []
    for row in text.split("\n"):
        if row.startswith("\t"):
            date = _date(int(fields.get("author-time", "0")))
            author = fields.get("author", "")
            found.append(BlamedLine(int(header[2]), header[0][:8], date, author, row[1:].rstrip("\r")))
            header = []
        elif not header:
            header = row.split(" ")
        else:
            key, _, value = row.partition(" ")
            fields[key] = value
    return found


def _date(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")


def _lines(output: bytes) -> list[str]:
    return _decode(output).rstrip("\n").split("\n") if output else []


def _decode(output: bytes) -> str:
    return output.decode("utf-8", errors="replace")
