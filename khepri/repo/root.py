"""The repository that Khepri works on: where it begins, which files it has, and which path leads to which file.

Every path that a model or a user names goes through ``Repository.resolve``; nothing else in Khepri opens a file of the
repository by a name it was given. What the files hold is not known here.
"""

import difflib
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from khepri.errors import ConfigError, ToolError, UsageError
from khepri.repo.ignore import Hidden, IgnoreRules, Listing, list_files, select_files, would_be_ignored
from khepri.repo.text import printable

_REFUSED_TREES: Final = (Path("/proc"), Path("/sys"), Path("/dev"))
_QUOTES: Final = ("''", '""', "``", "<>")


class Repository:
    """A folder whose visible files may be read. Any thread may ask; nothing is written.

    Attributes:
        root: Real path of the top of the work tree, of the bare repository, or of the folder without git.
        is_git: True if git knows this folder.
        is_bare: True if the repository has no work tree, so that there is history but no file.
    """

    def __init__(self, root: Path, *, is_git: bool, is_bare: bool = False) -> None:
        self.root = root
        self.is_git = is_git
        self.is_bare = is_bare
        self._rules: IgnoreRules | None = None
        self._seen: _Seen | None = None

    @classmethod
    def open(cls, cwd: Path) -> "Repository":
        """Return the repository that ``cwd`` lies in, or ``cwd`` itself where there is no git.

        The search goes by the file system alone: git's own answer can be bent by ``core.worktree`` in the
        configuration of a repository that is not to be trusted.

        Raises:
            UsageError: ``cwd`` does not exist, is not a folder, or is a tree of the kernel's such as ``/proc``.
            ConfigError: ``.khepriignore`` cannot be read or holds a line that is no pattern.
        """
        shown = printable(str(cwd))
        try:
            real = cwd.resolve(strict=True)
        except (OSError, RuntimeError, ValueError) as error:
            raise UsageError(f"there is no folder {shown}", "name an existing folder with --cwd") from error
        if not real.is_dir():
            raise UsageError(f"{shown} is not a folder", "name a folder with --cwd")
        if _is_refused(real):
            raise UsageError(f"{shown} belongs to the system and holds no project", "name another folder with --cwd")
        repository = cls._around(real)
        try:
            repository._hiding()
        except ToolError as error:
            raise ConfigError(error.message, error.hint) from error
        return repository

    @classmethod
    def _around(cls, folder: Path) -> "Repository":
        for top in (folder, *folder.parents):
            if _has_work_tree(top):
                return cls(top, is_git=True)
            if top.name != ".git" and _is_git_folder(top):
                return cls(top, is_git=True, is_bare=True)
        return cls(folder, is_git=False)

    def files(self) -> tuple[str, ...]:
        """Return the POSIX paths of all visible regular files from the root, sorted; walked once, then kept.

        Raises:
            ToolError: The folder cannot be listed.
        """
        return self._look().listing.files

    def select(self, path: str | None = None, glob: str | None = None) -> tuple[str, ...]:
        """Return the visible files in a folder (or the one file) that match a glob, sorted.

        Args:
            path: A file or folder as the model writes it; None for the whole repository.
            glob: A pattern of ``.gitignore`` such as ``*.py`` or ``src/**/*.{ts,tsx}``; ``!`` in front excludes.

        Raises:
            ToolError: The path is refused, see ``resolve``, or the glob is no pattern.
        """
        folder = self.relative(self.resolve(path)) if path else "."
        return select_files(self.files(), folder, glob)

    @property
    def unnameable_files(self) -> int:
        """How many files are left out because their names are not UTF-8 or hold control characters.

        Raises:
            ToolError: The folder cannot be listed.
        """
        return self._look().listing.unnameable

    def refresh(self) -> None:
        """Forget the list of files; the next question walks the folder again, with the ignore rules as they are then.

        Raises:
            ToolError: ``.khepriignore`` has changed and cannot be read or holds a line that is no pattern.
        """
        self._seen = None
        self._rules = self._hiding().current()

    def resolve(self, path: str) -> Path:
        """Return the real path of what ``path`` names from the root, if it may be read.

        Quotes around it, ``./``, a final ``/``, backslashes and absolute paths inside the root are understood, since
        models write all of them. A folder may be named if something in it is visible.

        Raises:
            ToolError: The path is outside the root, leads out of it, is no file or folder, is ignored or secret, or
                does not exist.
        """
        if self.is_bare:
            raise ToolError("this is a bare repository: it has no files to read", "use git to see its history")
        written = _unquote(path)
        if not _is_possible(written):
            raise ToolError(f"{printable(written)} cannot be a path", "use list to see the files")
        real = self._real(written)
        relative = self.relative(real)
        shown = printable(relative)
        self._refuse_hidden(written, relative)
        try:
            mode = os.lstat(real).st_mode
        except OSError as error:
            if isinstance(error, (FileNotFoundError, NotADirectoryError)):
                raise ToolError(f"{shown} does not exist", self._nearest(relative)) from error
            raise ToolError(f"{shown} cannot be read: {error.strerror}", "name another path") from error
        if stat.S_ISLNK(mode):
            raise ToolError(f"{shown} is a symbolic link that leads nowhere", self._nearest(relative))
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise ToolError(f"{shown} is not a regular file", "name a file or folder")
        if not self.is_visible(relative):
            # It may have been written since the list was made.
            self.refresh()
        if not self.is_visible(relative):
            if stat.S_ISDIR(mode):
                raise ToolError(f"{shown}/ holds no visible file: it is empty or ignored", "name another folder")
            raise ToolError(f"{shown} is ignored by .gitignore or has a name that cannot be shown", "name another file")
        return real

    def history_path(self, path: str) -> str:
        """Return the POSIX path from the root of something that git may know, although it need not exist now.

        Raises:
            ToolError: The path is outside the root, ignored by ``.khepriignore``, or secret.
        """
        written = _unquote(path)
        if written.startswith("/") and not Path(written).is_relative_to(self.root):
            written = written.lstrip("/") or "."
        lexical = os.path.normpath(self.root / written)
        if not _is_possible(written) or not Path(lexical).is_relative_to(self.root):
            raise ToolError(f"{printable(written)} is outside the repository", "name a path from the repository's root")
        relative = self.relative(Path(lexical))
        self._refuse_hidden(written, relative)
        return relative

    def is_hidden(self, relative: str) -> bool:
        """Return True if ``.khepriignore`` or the rule against secrets hides a path, existing or not.

        Raises:
            ToolError: ``.khepriignore`` cannot be read.
        """
        return self._hiding().reason(relative) is not None

    def would_be_ignored(self, relative: str) -> bool:
        """Return True if a new file of this path would be left out by git's rules.

        Raises:
            ToolError: A ``.gitignore`` cannot be read.
        """
        return would_be_ignored(self.root, relative, is_git=self.is_git)

    def relative(self, path: Path) -> str:
        """Return the POSIX path of a real path from the root; ``.`` for the root itself.

        Raises:
            ValueError: ``path`` is not inside the root.
        """
        return path.relative_to(self.root).as_posix()

    def is_visible(self, relative: str) -> bool:
        """Return True for a visible file, a folder that holds one, and the root (``.``).

        Raises:
            ToolError: The folder cannot be listed.
        """
        return relative == "." or relative in self._look().visible

    def _look(self) -> "_Seen":
        seen = self._seen  # another thread may let go of it at any time
        if seen is None:
            if self.is_bare:
                listing = Listing(files=(), unnameable=0)
            else:
                listing = list_files(self.root, self._hiding(), is_git=self.is_git)
            self._seen = seen = _Seen(listing, _with_folders(listing.files))
        return seen

    def _hiding(self) -> IgnoreRules:
        if self._rules is None:
            self._rules = IgnoreRules(self.root)
        return self._rules

    def _real(self, written: str) -> Path:
        candidates = [written]
        if "\\" in written:
            candidates.append(written.replace("\\", "/"))
        if written.startswith("/"):
            # Small models write /src/x.py and mean the root of the repository.
            candidates.append(written.lstrip("/"))
        reals = [Path(os.path.realpath(self.root / candidate)) for candidate in candidates]
        inside = [real for real in reals if real.is_relative_to(self.root) and not _is_refused(real)]
        existing = [real for real in inside if os.path.lexists(real)]
        if existing:
            return existing[0]
        if inside and not os.path.lexists(reals[0]):
            return inside[-1]
        shown = printable(written)
        if Path(os.path.normpath(self.root / written)).is_relative_to(self.root):
            raise ToolError(f"{shown} is a symbolic link that leads out of the repository", "name a file inside it")
        raise ToolError(f"{shown} is outside the repository", "name a path from the repository's root")

    def _refuse_hidden(self, written: str, relative: str) -> None:
        lexical = os.path.relpath(os.path.normpath(self.root / written), self.root).replace(os.sep, "/")
        for name in {relative, lexical}:
            if name == ".git" or name.startswith(".git/") or "/.git/" in f"/{name}/":
                raise ToolError("git's own folder is not read", "use git for the history")
            if name == "." or name.startswith(".."):
                continue
            # A folder pattern such as .ssh/ matches what lies in the folder, not its bare name.
            reasons = (self._hiding().reason(name), self._hiding().reason(f"{name}/x"))
            reason = next((found for found in reasons if found is not None), None)
            if reason is Hidden.SECRET:
                raise ToolError(f"{printable(name)} is never read: {reason.value}", "go on without it")
            if reason is not None:
                raise ToolError(f"{printable(name)} is not shown: {reason.value}", "go on without it")

    def _nearest(self, relative: str) -> str:
        name = relative.rpartition("/")[2]
        near = [file for file in self.files() if file.rpartition("/")[2] == name]
        close = difflib.get_close_matches(relative, self.files(), n=3, cutoff=0.6)
        near += [file for file in close if file not in near]
        if not near:
            return "use list to see the files"
        return "did you mean " + ", ".join(near[:3]) + "?"


@dataclass(frozen=True)
class _Seen:
    """What a walk through the folder has found."""

    listing: Listing
    visible: frozenset[str]
    """Its files and the folders that hold them."""


def _with_folders(files: Iterable[str]) -> frozenset[str]:
    visible: set[str] = set()
    for file in files:
        while file and file not in visible:
            visible.add(file)
            file = file.rpartition("/")[0]
    return frozenset(visible)


def _unquote(path: str) -> str:
    text = path.strip()
    while len(text) > 1 and text[0] + text[-1] in _QUOTES:
        text = text[1:-1].strip()
    return text or "."


def _is_possible(path: str) -> bool:
    try:
        return b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _is_refused(real: Path) -> bool:
    return any(real.is_relative_to(tree) for tree in _REFUSED_TREES)


def _has_work_tree(folder: Path) -> bool:
    marker = folder / ".git"
    if _is_git_folder(marker):
        return True
    try:
        if not stat.S_ISREG(os.stat(marker).st_mode):
            return False
        with marker.open("rb") as file:
            return file.read(8) == b"gitdir: "
    except OSError:
        return False


def _is_git_folder(folder: Path) -> bool:
    try:
        return (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()
    except OSError:
        return False
