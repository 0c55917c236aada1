"""Finds the folders that are packages without an ``__init__.py``: those that the repository itself imports as such.

Any folder may be one for Python; which ones are meant shows in the imports alone. ``docs`` and ``scripts``, from which
nothing is imported, are only places.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from khepri.edits.workspace import Workspace

_FROM: Final = re.compile(rb"^[ \t]*from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t(\\\n]*([\w \t,]*)", re.MULTILINE)
_IMPORT: Final = re.compile(rb"^[ \t]*import[ \t]+([\w.]+[\w., \t]*)", re.MULTILINE)


def namespace_folders(workspace: "Workspace") -> frozenset[str]:
    """Return the folders without an ``__init__.py`` that some import takes for a package, by their paths.

    Reads every Python file once.
    """
    files = [path for path in workspace.files() if path.endswith(".py")]
    packages = {path.rpartition("/")[0] for path in files if path.endswith("/__init__.py")}
    places = {path.removesuffix(".py") for path in files}
    folders = {
        "/".join(parts[:depth]) for path in files for parts in [path.split("/")] for depth in range(1, len(parts))
    }
    plain = folders - packages
    by_name: dict[str, list[str]] = {}
    for folder in plain:
        by_name.setdefault(folder.rpartition("/")[2], []).append(folder)
    found: set[str] = set()
    for path in files if plain else ():
        for level, dotted in set(_imported(workspace.read(path) or b"")):
            parts = [part for part in dotted.split(".") if part]
            if level:
                above = path.split("/")[:-1]
                own = "/".join(above[: len(above) - level + 1])
                found |= _walked(own, parts, plain, folders, places) if own in folders else set()
            else:
                for folder in by_name.get(parts[0], ()) if parts else ():
                    found |= _walked(folder, parts[1:], plain, folders, places)
    return frozenset(found)


def _walked(folder: str, parts: list[str], plain: set[str], folders: set[str], places: set[str]) -> set[str]:
    """Return the plain folders on the way of a dotted name from a folder on, if something is there."""
    way: set[str] = set()
    for part in parts:
        inner = f"{folder}/{part}"
        if inner not in folders and inner not in places:
            break
        way |= {folder} & plain
        folder = inner
    return way


def _imported(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield what a file may import: how many dots lead it, and the dotted name."""
    for dots, module, names in _FROM.findall(data):
        for name in names.split(b","):
            first = name.split()[:1]
            yield len(dots), b".".join([*([module] if module else []), *first]).decode()
    for names in _IMPORT.findall(data):
        for name in names.split(b","):
            yield 0, b"".join(name.split()[:1]).decode()
