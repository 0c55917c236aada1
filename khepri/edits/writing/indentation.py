"""Gives code that a model wrote the indentation of the code that it replaces: its depth, and tabs or spaces."""

import re
from collections.abc import Iterable
from typing import Final

_LEADING: Final = re.compile(r"^[ \t]+(?=\S)", re.MULTILINE)
_FEWEST_SPACES: Final = 2


def indented_as(old: str, code: str) -> str:
    """Return code with the depth and the style of the old one, where the model chose others."""
    return moved_to(_indent(old), in_style_of(old, code))


def moved_to(wanted: str, code: str) -> str:
    """Return code whose first line has the indentation ``wanted``; as it is if a line of it is less indented."""
    found = _indent(code)
    if wanted == found:
        return code
    moved = []
    for line in code.split("\n"):
        if not line.strip():
            moved.append("")
        elif line.startswith(found):
            moved.append(wanted + line.removeprefix(found))
        else:
            return code
    return "\n".join(moved)


def in_style_of(old: str, code: str) -> str:
    """Return code indented by tabs where the old one is, and by spaces where the old one is.

    Code that mixes them, or would not fit into whole steps, stays as it is.
    """
    before, now = _leading(old), _leading(code)
    if not before or not now:
        return code
    if _are_all("\t", before) and _are_all(" ", now):
        step = min(map(len, now))
        if step < _FEWEST_SPACES or any(len(each) % step for each in now):
            return code
        return _LEADING.sub(lambda found: "\t" * (len(found[0]) // step), code)
    if _are_all(" ", before) and _are_all("\t", now):
        step = min(map(len, before))
        return _LEADING.sub(lambda found: " " * (len(found[0]) * step), code)
    return code


def _leading(code: str) -> list[str]:
    """Return what stands before each line that is indented."""
    return [found[0] for found in _LEADING.finditer(code)]


def _are_all(character: str, leading: Iterable[str]) -> bool:
    return all(not each.strip(character) for each in leading)


def _indent(text: str) -> str:
    first = next((line for line in text.split("\n") if line.strip()), "")
    return first[: len(first) - len(first.lstrip())]
