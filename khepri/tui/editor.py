"""Lets the user write in an editor of his own, while the app stands aside. Every way of showing a change uses it."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from khepri.edits.change import FileChange
from khepri.errors import UsageError


def edit_in_editor(text: str, name: str = "message.md") -> str:
    """Return the text after the user edited it with ``$VISUAL`` or ``$EDITOR``, or with vi.

    Args:
        text: What the editor shows; it ends in a new line afterwards only if it did before.
        name: What the file is called, by which an editor knows its language.

    Raises:
        UsageError: The editor could not be started or failed; the text is unchanged.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        with tempfile.TemporaryDirectory(prefix="khepri-") as folder:
            file = Path(folder) / name
            file.write_text(text, encoding="utf-8")
            done = _run(editor, file)
            edited = file.read_text(encoding="utf-8", errors="replace") if done.returncode == 0 else ""
    except FileNotFoundError as error:
        raise UsageError(f"the editor {editor} left no file", "set VISUAL or EDITOR to another one") from error
    except OSError as error:
        place = error.filename or tempfile.gettempdir()
        raise UsageError(
            f"{place} takes no text for an editor: {error.strerror}", "free some space there, or set TMPDIR"
        ) from error
    if done.returncode:
        raise UsageError(f"the editor {editor} ended with exit status {done.returncode}", "set VISUAL or EDITOR")
    return edited if text.endswith("\n") else edited.removesuffix("\n")


def _run(editor: str, file: Path) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run([*shlex.split(editor), str(file)], check=False)
    except FileNotFoundError as error:
        raise UsageError(f"the editor {editor} is not there", "set VISUAL or EDITOR to another one") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"the editor {editor} could not be started: {error}", "set VISUAL or EDITOR") from error


def edit_change(change: FileChange) -> FileChange | None:
    """Return the change of a file after the user edited its new text; None if it is the old file again.

    Raises:
        UsageError: The editor failed, or left nothing of the text: the change is as it was.
        EditRefusedError: The file's encoding cannot hold the text.
    """
    text = change.plain_text
    edited = edit_in_editor(text, change.path.rpartition("/")[2])
    if text.strip() and not edited.strip():
        raise UsageError(f"the editor left {change.path} empty, which is taken for a mistake", "n writes nothing")
    return change.with_text(edited)
