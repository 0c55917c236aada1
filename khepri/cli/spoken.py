"""Markdown of Khepri's own as lines that are read aloud well: tables become sentences, and no marks are left.

What a model or a tool wrote is not meant for this: their marks may be what matters.
"""

import re
from typing import Final

_CELL_END: Final = re.compile(r"(?<!\\)\|")
_RULE: Final = re.compile(r"\|(?:-+\|)+")
_FENCE: Final = re.compile(r"(`{3,})\w*")


def spoken(text: str) -> str:
    """Return the text without marks, a row of a table as a line that names its columns; code stays as it is."""
    lines: list[str] = []
    head: list[str] = []
    fence = ""
    written = text.split("\n")
    for before, line in zip(["", *written], written, strict=False):
        mark = _FENCE.fullmatch(line)
        if mark and (not fence or mark[0] == fence):
            fence = "" if fence else mark[1]
        elif fence:
            lines.append(line)
        elif _RULE.fullmatch(line):
            head = _cells(before)
            lines.pop()
        elif line.startswith("|"):
            lines.append(_sentence(head, _cells(line)))
        else:
            lines.append(_without_marks(line))
    return "\n".join(lines)


def _cells(row: str) -> list[str]:
    return [_without_marks(cell.strip().replace("\\|", "|")) for cell in _CELL_END.split(row)[1:-1]]


def _sentence(head: list[str], cells: list[str]) -> str:
    first, *others = cells
    if len(others) == 1:
        return f"{first}: {others[0]}"
    return f"{first}: {', '.join(f'{name} {cell}' for name, cell in zip(head[1:], others, strict=False))}"


def _without_marks(line: str) -> str:
    return re.sub(r"^#+ |`|\*\*", "", line)
