"""Runs git so that nothing but git runs, whatever the repository's own configuration asks for.

A repository is somebody else's text, and its ``.git/config`` can name programs for nearly every read: pagers, diff
drivers, text converters, content filters, file system monitors, hooks, signature checkers, transports of partial
clones. All of them are switched off here, in one place. What git's output means is not known here.
"""

import io
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Final

from khepri.errors import ToolError

_TIMEOUT_S: Final = 20
_MOST_BYTES: Final = 4_000_000

# What a user may say about git by environment and is no danger; every other GIT_ variable, such as the GIT_DIR that a
# hook inherits, would point git at another repository.
_KEPT_VARIABLES: Final = frozenset(
    {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH", "GIT_PYTHON_GIT_EXECUTABLE"}
)

_ENVIRONMENT: Final[Mapping[str, str]] = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_PAGER": "cat",
    "GIT_TERMINAL_PROMPT": "0",
}

_SETTINGS: Final[Mapping[str, str]] = {
    "color.ui": "false",
    "core.alternateRefsCommand": "",
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.quotePath": "false",
    "core.sshCommand": "false",
    "core.untrackedCache": "false",
    "diff.external": "",
    "diff.ignoreSubmodules": "dirty",
    "diff.orderFile": os.devnull,
    "diff.submodule": "short",
    "gpg.program": "false",
    "i18n.logOutputEncoding": "UTF-8",
    "log.showSignature": "false",
    "protocol.allow": "never",
    "status.submoduleSummary": "false",
    "submodule.recurse": "false",
}


def run_git(
    root: Path, arguments: Sequence[str], *, most_bytes: int = _MOST_BYTES, sound: Collection[int] = (0,)
) -> bytes:
    """Run a git command that only reads, in the work tree (or bare repository) at ``root``.

    Args:
        root: Top of the work tree, or the folder of a bare repository.
        arguments: The command and its arguments; the caller guards values that could look like options.
        most_bytes: Output beyond this is dropped.
        sound: The exit codes that are no failure.

    Returns:
        What git wrote to its standard output.

    Raises:
        ToolError: git is missing, refused, failed, or took longer than 20 s.
    """
    settings = {**_SETTINGS, **_disarmed_drivers(root)}
    status, output, errors = _execute(root, arguments, settings, most_bytes)
    if status not in sound and len(output) < most_bytes:
        raise _explain(errors)
    return output


def _disarmed_drivers(root: Path) -> dict[str, str]:
    """Return settings that empty every content filter that any configuration defines.

    ``git status`` and ``git diff`` run the ``clean`` filter of changed files, and no option of git's forbids it.
    """
    arguments = ["config", "--null", "--name-only", "--get-regexp", r"^filter\..*\.(clean|smudge|process|required)$"]
    _, output, _ = _execute(root, arguments, _SETTINGS, _MOST_BYTES)
    names = [os.fsdecode(name) for name in output.split(b"\0") if name]
    return {name: "false" if name.endswith(".required") else "" for name in names}


def _execute(
    root: Path, arguments: Sequence[str], settings: Mapping[str, str], most_bytes: int
) -> tuple[int, bytes, str]:
    try:
        from git import Git
        from git.exc import GitCommandError
    except ImportError as error:
        raise ToolError("git is not installed", "answer without the history") from error

    environment = {**_ENVIRONMENT, "GIT_CEILING_DIRECTORIES": str(root.parent)}
    if os.path.lexists(root / ".git"):
        # core.worktree in a repository's own configuration could name any folder of the machine.
        environment["GIT_WORK_TREE"] = str(root)
    environment["GIT_CONFIG_COUNT"] = str(len(settings))
    for index, (key, value) in enumerate(settings.items()):
        environment[f"GIT_CONFIG_KEY_{index}"] = key
        environment[f"GIT_CONFIG_VALUE_{index}"] = value
    stray = [name for name in os.environ if name.startswith("GIT_") and name not in _KEPT_VARIABLES]
    # GitPython adds to the environment but cannot take away from it.
    clean = ["env", *(f"--unset={name}" for name in stray if name not in environment)] if stray else []
    output = _Bounded(most_bytes)
    program = Git.GIT_PYTHON_GIT_EXECUTABLE or "git"
    try:
        status, _, errors = Git(str(root)).execute(
            [*clean, program, "--no-pager", *arguments],
            env=environment,
            with_extended_output=True,
            with_exceptions=False,
            output_stream=output,
            kill_after_timeout=_TIMEOUT_S,
        )
    except GitCommandError as error:
        raise ToolError(f"git cannot be run: {error.stderr}", "answer without the history") from error
    return status, output.getvalue(), errors


class _Bounded(io.BytesIO):
    """A buffer that drops what exceeds its size."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self._left = most_bytes

    def write(self, data: bytes) -> int:  # type: ignore[override]
        super().write(data[: self._left])
        self._left = max(0, self._left - len(data))
        return len(data)


def _explain(errors: str) -> ToolError:
    text = errors.strip()
    if "dubious ownership" in text:
        return ToolError(
            "git refuses this repository because another user owns it",
            "answer without the history; the user can allow it with git config --global --add safe.directory",
        )
    first = next((line for line in text.splitlines() if line.startswith(("fatal:", "error:"))), text[:200])
    return ToolError(
        f"git: {first.removeprefix('fatal: ').removeprefix('error: ')[:300]}", "check the ref and the path"
    )
