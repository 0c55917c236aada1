"""A JSON object in a file that only saves time: whatever is wrong with it, it counts as empty."""

import json
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path


def read(path: Path) -> dict[str, object]:
    """Return what the file holds; nothing if it is missing, damaged or holds no object."""
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return entries if isinstance(entries, dict) else {}


def write(path: Path, entries: Mapping[str, object]) -> None:
    """Write atomically, for the user alone; what cannot be written is left out."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The library makes it with mode 0600.
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.stem}", delete=False
        ) as file:
            json.dump(entries, file, indent=1)
    except OSError:
        return
    try:
        os.replace(file.name, path)
    except OSError:
        with suppress(OSError):  # the folder itself may be gone
            os.unlink(file.name)
