"""Makes a new file out of what a model wrote for it, behind the same guards as a change of one that is there."""

import ast
import os
from pathlib import Path

from khepri.edits.change import FileChange
from khepri.edits.guard import check_complete, check_place, check_syntax, is_of_git
from khepri.edits.locate import Source, Target
from khepri.edits.python.imports import check_found
from khepri.edits.python.trees import tree_of
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.repo.text import printable

_MOST_PATH_CHARS = 200
_MOST_NAME_BYTES = 255
"""What file systems take."""


def new_target(workspace: Workspace, path: str) -> Target:
    """Return a file that is not there yet, as the target of what is to be written.

    Raises:
        EditRefusedError: There is such a file, or there must be none: the path leads out of the repository, is hidden
            or ignored, or cannot be one.
    """
    shown = printable(path)[:_MOST_PATH_CHARS]
    written = path.strip().removeprefix("./")
    is_long = len(written) > _MOST_PATH_CHARS or any(
        len(os.fsencode(part)) > _MOST_NAME_BYTES for part in written.split("/")
    )
    if not written or is_long or written.endswith("/") or not written.isprintable():
        raise EditRefusedError(Refusal.NO_TARGET, f"{shown!r} cannot be a file", "name a path such as src/new.py")
    real = Path(os.path.realpath(workspace.repository.root / written))
    if not real.is_relative_to(workspace.repository.root):
        raise EditRefusedError(
            Refusal.OUTSIDE, f"{shown} is outside the repository", "name a path from the repository's root"
        )
    relative = workspace.repository.relative(real)
    if is_of_git(relative) or workspace.repository.is_hidden(relative):
        raise EditRefusedError(Refusal.HIDDEN, f"{shown} is never written", "choose another name")
    check_place(relative)
    above = next(folder for folder in real.parents if folder.exists())
    if not above.is_dir():
        raise EditRefusedError(Refusal.NO_TARGET, f"{shown} would lie below a file", "choose another folder")
    if workspace.read(relative) is not None or real.exists():
        raise EditRefusedError(Refusal.AMBIGUOUS, f"{shown} is there already", "ask for it to be changed instead")
    if workspace.repository.would_be_ignored(relative):
        raise EditRefusedError(
            Refusal.HIDDEN, f"{shown} would be ignored by .gitignore", "choose another folder or name"
        )
    return Target(Source(relative, b"", ""), "", "", "file", 1, 1)


def created(workspace: Workspace, target: Target, written: str) -> FileChange:
    r"""Return the change that makes a new file.

    Args:
        workspace: Where.
        target: From ``new_target``.
        written: What the model wrote, lines ending in ``\n``, without the fence.

    Raises:
        EditRefusedError: There is no code in it, code is left out, it is not valid, or it imports what is not there.
    """
    path, text = target.source.path, written.strip("\n") + "\n"
    if not text.strip() or _is_empty(path, text):
        raise EditRefusedError(Refusal.MALFORMED, "no code was written", "write the whole new file")
    check_complete("", text)
    check_syntax(path, "", text)
    change = FileChange(path, None, text.encode())
    if path.endswith(".py"):
        check_found(workspace, change)
    return change


def _is_empty(path: str, text: str) -> bool:
    """Return True for Python of nothing but comments and texts."""
    if not path.endswith(".py"):
        return False
    try:
        body = tree_of(text).body
    except (SyntaxError, ValueError, RecursionError):
        return False
    return all(isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) for node in body)
