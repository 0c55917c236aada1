"""Lets the user write in an editor of his own, while the app stands aside."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

from khepri.errors import UsageError


def edit_in_editor(text: str) -> str:
    """Return the text after the user edited it with ``$VISUAL`` or ``$EDITOR``, or with vi.

    Raises:
        UsageError: The editor could not be started or failed; the text is unchanged.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="khepri-") as folder:
        file = Path(folder) / "message.md"
        file.write_text(text, encoding="utf-8")
        try:
            done = subprocess.run([*shlex.split(editor), str(file)], check=False)
        except (OSError, ValueError) as error:
            raise UsageError(f"the editor {editor} could not be started: {error}", "set EDITOR") from error
        if done.returncode:
            raise UsageError(f"the editor {editor} ended with exit status {done.returncode}", "set EDITOR")
        return file.read_text(encoding="utf-8", errors="replace").removesuffix("\n")
