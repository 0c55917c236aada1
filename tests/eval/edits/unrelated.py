"""Counts the lines that a change touches though nothing in its plan is about them."""

import keyword
import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from khepri.edits.change import FileChange
from khepri.repo.symbols import outline
from khepri.repo.text import decode

_WORD = re.compile(r"\w+")
_IMPORT = re.compile(r"\s*(?:from\s+\S+\s+)?import\b")
_NO_NAMES = frozenset(keyword.kwlist) | {"py", "to", "of"}


def unrelated_lines(changes: Sequence[FileChange], plan: Sequence[str]) -> int:
    """Return how many added and removed lines have nothing to do with what was planned.

    A line has if it is blank or an import, holds a name of the plan, or lies in a definition of such a name.

    Args:
        changes: What was written.
        plan: The steps in words, with the names of what they are about.
    """
    names = {word for step in plan for word in _WORD.findall(step)} - _NO_NAMES
    return sum(not is_related for change in changes for is_related in _changed_lines(change, names))


def _changed_lines(change: FileChange, names: set[str]) -> Iterator[bool]:
    """Yield for each changed line whether it has to do with the names."""
    texts = [decode(data or b"").text for data in (change.before, change.after)]
    lines = [text.split("\n") for text in texts]
    owned = [_owned(change.path, text, names) for text in texts]
    for kind, *places in SequenceMatcher(None, lines[0], lines[1], autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        for version, (start, end) in enumerate((places[:2], places[2:])):
            for at in range(start, end):
                line = lines[version][at]
                is_of_no_account = not line.strip() or _IMPORT.match(line) is not None
                yield is_of_no_account or at + 1 in owned[version] or bool(names & set(_WORD.findall(line)))


def _owned(path: str, text: str, names: set[str]) -> set[int]:
    """Return the numbers of the lines that definitions of some names take."""
    named = (each for each in outline(path, text) if each.name in names)
    return {number for each in named for number in range(each.start_line, each.end_line + 1)}
