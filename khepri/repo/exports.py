"""Tells which files of a repository are conversations that Khepri exported into it: they are no source of anything.

The mark at the very beginning of the document tells, whatever the user named it, so that no file of the project is left
out for its name. Only files that are named as a document may be are opened, since the whole repository is gone through.
"""

import os
import re
import stat
from pathlib import Path, PurePath
from typing import Final

EXPORT_MARK: Final = "khepri-export"
"""Stands at the beginning of each document: in a comment of Markdown, or as the format in JSON."""
DOCUMENT_SUFFIXES: Final = frozenset(("", ".json", ".log", ".markdown", ".md", ".text", ".txt"))
"""How the name of an exported document may end; the empty one stands for a name without a dot."""
_BEGINNING: Final = re.compile(rf'(?:<!-- {EXPORT_MARK} -->|\{{\s*"format"\s*:\s*"{EXPORT_MARK}")'.encode())
_BEGINNING_BYTES: Final = 100


def may_be_export(name: str) -> bool:
    """Return True if an exported document may have this name or path."""
    return PurePath(name).suffix.lower() in DOCUMENT_SUFFIXES


def is_export(root: Path, relative: str) -> bool:
    """Return True if Khepri exported a file. Opens only what may be a document.

    Args:
        root: Where the path begins.
        relative: POSIX path of the file.
    """
    if not may_be_export(relative):
        return False
    path = f"{root}/{relative}"
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return False
        with open(path, "rb", buffering=0) as file:
            return _BEGINNING.match(file.read(_BEGINNING_BYTES)) is not None
    except OSError:
        return False
