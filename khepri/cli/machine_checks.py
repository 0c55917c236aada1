"""What ``khepri doctor`` looks at apart from models: the network lock, the terminal, git, folders, settings, tools.

Every function looks at one thing and returns one line; none of them changes anything, and all of them are quick.
"""

import os
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import khepri
from khepri import egress, paths
from khepri.cli import exits
from khepri.cli.checks import Check, check, in_words, ok, problem, warning
from khepri.config import Config, Loaded, NetworkLock, Permission, Source
from khepri.errors import ToolError
from khepri.models.catalogue import DEFAULT_TARGET
from khepri.repo.git import log, status
from khepri.repo.gitcommand import run_git
from khepri.repo.root import Repository

_NARROW_COLUMNS = 40
_LEAST_CACHE_BYTES = 256 << 20
# Older ones do not read settings from the environment, by which Khepri keeps a repository's programs from running.
_LEAST_GIT = (2, 31)


def version() -> Check:
    """Look at Khepri and the Python that runs it."""
    system = f"{platform.system()} {platform.release()} on {platform.machine()}"
    return ok("khepri", f"{khepri.__version__}, Python {platform.python_version()}, {system}")


def network(config: Config) -> Check:
    """Look at the lock on the network that is in force, or that would be."""
    tier = egress.probe()
    detail = f"{tier.level} lock ({in_words(tier.mechanisms)})"
    if tier.is_strong:
        return ok("network", detail)
    detail = f"{detail}: {tier.reason}"
    if config.network_lock is NetworkLock.REQUIRED:
        advice = 'the configuration requires the strong lock; set network_lock = "on" to go on without it'
        return problem("network", detail, advice, exits.USAGE)
    advice = 'close what the reason names; network_lock = "required" makes Khepri refuse to run with less than strong'
    return warning("network", detail, advice)


def terminal(environ: Mapping[str, str]) -> Check:
    """Look at the terminal, as far as the standard output is one."""
    from rich.console import Console

    console = Console()
    encoding = getattr(sys.stdout, "encoding", None) or "unknown"
    colour = "NO_COLOR is set" if environ.get("NO_COLOR") else f"colours: {console.color_system or 'none'}"
    where = f"{console.width} columns, TERM={environ.get('TERM', '')}" if console.is_terminal else "not a terminal"
    detail = f"{where}, {colour}, encoding {encoding}"
    if not _speaks_unicode(encoding):
        return warning("terminal", f"{detail}, which cannot show all characters", "use a UTF-8 locale: LANG=C.UTF-8")
    if console.is_terminal and environ.get("TERM", "dumb") in ("dumb", "unknown"):
        return warning("terminal", f"{detail}: it cannot move its cursor", "use another terminal for the screens")
    if console.is_terminal and console.width < _NARROW_COLUMNS:
        return warning("terminal", f"{detail}: narrow", f"widen it to {_NARROW_COLUMNS} columns or more")
    return ok("terminal", detail)


def _speaks_unicode(encoding: str) -> bool:
    try:
        "é→界".encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def git(repository: Repository) -> Check:
    """Look at git and at the repository."""
    try:
        written = run_git(repository.root, ["version"]).decode("utf-8", "replace").strip()
    except ToolError as error:
        return warning("git", error.message, "install git; without it there is no history")
    number = tuple(int(part) for part in re.findall(r"\d+", written)[:2])
    detail = f"{written}; {_repository_state(repository)}"
    if number < _LEAST_GIT:
        wanted = ".".join(map(str, _LEAST_GIT))
        return warning("git", detail, f"update git to {wanted}: older ones may run programs that a repository names")
    return ok("git", detail)


def _repository_state(repository: Repository) -> str:
    if not repository.is_git:
        return f"{repository.root} is not a git repository, so there is no history; {_files(repository)}"
    try:
        history = f"at {log(repository, max_count=1)[0].sha}"
    except ToolError as error:
        history = f"without history: {error.message}"
    if repository.is_bare:
        return f"{repository.root} is a bare repository, so there is no file to read; {history}"
    branch, *changes = status(repository)
    changed = f"{len(changes)} changed" if changes else "nothing changed"
    return f"{repository.root}, {branch}, {changed}, {history}; {_files(repository)}"


def _files(repository: Repository) -> str:
    count = len(repository.files())
    hidden = repository.unnameable_files
    left_out = f", {hidden} left out because their names cannot be shown" if hidden else ""
    return f"{count} file{'' if count == 1 else 's'} to read{left_out}"


@dataclass(frozen=True)
class _Folder:
    """A folder that Khepri writes to, and what hangs on it."""

    name: str
    path: Path
    variable: str
    """What moves it elsewhere."""
    loss: str
    """What is lost if it cannot be written."""
    wanted_bytes: int


def folders() -> Iterator[Check]:
    """Look at the folders of models, cache and configuration: can they be written, and is there room."""
    target = paths.models_dir() / DEFAULT_TARGET.file_name
    wanted = 0 if os.path.exists(target) else DEFAULT_TARGET.size_bytes
    for folder in (
        _Folder("models folder", paths.models_dir(), "XDG_DATA_HOME", "no model can be fetched or added", wanted),
        _Folder(
            "cache folder",
            paths.cache_dir(),
            "XDG_CACHE_HOME",
            "the probe and the repository map are made anew each time",
            _LEAST_CACHE_BYTES,
        ),
        _Folder("config folder", paths.user_config_dir(), "XDG_CONFIG_HOME", "settings cannot be saved there", 0),
    ):
        yield check(folder.name, partial(_folder, folder))


def _folder(folder: _Folder) -> Check:
    way = (folder.path, *folder.path.parents)
    existing = next(path for path in way if os.path.lexists(path))
    free = shutil.disk_usage(next(path for path in way if os.path.exists(path))).free
    absent = "" if existing == folder.path else " (will be made when needed)"
    detail = f"{folder.path}{absent}, {in_bytes(free)} free"
    refusal = _refusal(existing)
    if refusal:
        advice = f"make it writable, or set {folder.variable} to a folder that is"
        return warning(folder.name, f"{detail}; {existing} {refusal}, so {folder.loss}", advice)
    if free < folder.wanted_bytes:
        return warning(folder.name, detail, f"free some space: {in_bytes(folder.wanted_bytes)} may be needed")
    return ok(folder.name, detail)


def _refusal(existing: Path) -> str:
    """Return why nothing can be written to a path; empty if something can. Permissions alone do not tell."""
    if not existing.is_dir():
        return "is not a folder"
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(b"khepri")
    except OSError as error:
        return f"cannot be written ({error.strerror})"
    return ""


def settings_in_force(loaded: Loaded) -> Check:
    """Look at what differs from the defaults, and at who said so."""
    changed = [
        f"{name} = {origin.value} ({origin.where})"
        for name, origin in loaded.origins.items()
        if origin.source is not Source.DEFAULT
    ]
    is_ruled = any(origin.source is Source.REPOSITORY for origin in loaded.origins.values())
    note = "; the repository's own file is applied, which may only make Khepri more careful" if is_ruled else ""
    return ok("configuration", (", ".join(changed) or "all defaults") + note)


def command_tools(config: Config) -> Check:
    """Look at the tools: those of Khepri, and the programs that the user lets a model run."""
    from khepri.tools.registry import Registry

    everything = {kind: "allow" for kind in ("read", "git", "command")}
    manifests = Registry.load(everything).manifests
    own = [manifest.name for manifest in manifests if manifest.permission == "command"]
    detail = f"{len(manifests) - len(own)} of Khepri's; your own: {in_words(own)}"
    if own and config.permission_command is Permission.DENY:
        detail += ' (not permitted; permission_command = "allow" lets the model run them)'
    return ok("tools", detail)


def in_bytes(count: int) -> str:
    """Return a size in words."""
    if count < 1 << 30:
        return f"{count / (1 << 20):.0f} MiB"
    return f"{count / (1 << 30):.1f} GiB"
