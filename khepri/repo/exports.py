"""Tells which files of a repository are conversations that Khepri exported into it: they are no source of anything.

Both the name and the mark inside must be Khepri's own, so that no file of the project is left out for its name alone.
"""

import os
import re
import stat
from pathlib import Path
from typing import Final

EXPORT_MARK: Final = "khepri-export"
"""Stands within the first bytes of each document."""
_MARKED_BYTES: Final = 100
_NAME: Final = re.compile(r"khepri-\d{8}-\d{6}-[0-9a-f]{4}(?:-\d+)?\.(?:md|json)")


def is_export(root: Path, relative: str) -> bool:
    """Return True if a file was exported by Khepri under a name of its own. Opens nothing of another name.

    Args:
        root: Where the path begins.
        relative: POSIX path of the file.
    """
    if not _NAME.fullmatch(relative.rpartition("/")[2]):
        return False
    path = root / relative
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return False
        with path.open("rb") as file:
            return EXPORT_MARK.encode() in file.read(_MARKED_BYTES)
    except OSError:
        return False
