"""Finds the one definition in a file that a model means, however it spells the name.

Files and tokens are not known here.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from khepri.errors import ToolError
from khepri.repo.symbols import Symbol

_PARAMETERS: Final = re.compile(r"\(.*", re.DOTALL)
_RECEIVERS: Final = ("self.", "cls.", "this.")
_MOST_NAMES: Final = 8
_MOST_LINES_BETWEEN: Final = 8
"""Of blank lines and comments, say, between definitions that follow one another."""


@dataclass(frozen=True)
class Definition:
    """The lines of a definition."""

    start_line: int
    """First line, from 1."""
    end_line: int
    """Last line, inclusive."""
    elsewhere: tuple[tuple[int, int], ...]
    """First and last lines of further definitions of the same name that do not follow at once."""


def find_definition(path: str, symbols: Sequence[Symbol], written: str) -> Definition | None:
    """Return the definition that ``written`` names: the full name, its last part, or a call or a head of it.

    Definitions of one name that follow one another, such as overloads and a property with its setter, are one; of
    those that lie apart the longest is taken.

    Args:
        path: The file, for words only.
        symbols: All definitions in it.
        written: What the model wrote, such as ``App.run``, ``run()``, ``def run(self)`` or ``App::run``.

    Raises:
        ToolError: Several definitions fit equally well.
    """
    names = (written, _bare(written))
    found = next((found for name in names for fits in _fits(name) if (found := list(filter(fits, symbols)))), [])
    if not found:
        found = _with_module(symbols, names[1])
    if not found:
        return None
    if len({symbol.qualified_name for symbol in found}) > 1:
        listing = ", ".join(f"{s.qualified_name} (line {s.start_line})" for s in found[:_MOST_NAMES])
        raise ToolError(f"{written[:80]} is defined more than once in {path}", f"name one of: {listing}")
    runs = _runs(found, symbols)
    longest = max(runs, key=lambda run: (run[1] - run[0], -run[0]))
    return Definition(*longest, elsewhere=tuple(run for run in runs if run != longest))


def _fits(name: str) -> tuple[Callable[[Symbol], bool], ...]:
    """Return the ways in which a definition can have a name, best first."""
    return (
        lambda symbol: symbol.qualified_name == name,
        lambda symbol: symbol.name == name,
        lambda symbol: symbol.qualified_name.endswith(f".{name}"),
        lambda symbol: symbol.name.lower() == name.lower(),
    )


def _with_module(symbols: Sequence[Symbol], name: str) -> list[Symbol]:
    """Return the definitions whose full name ends ``name``, which begins with a module's name then."""
    inside = [symbol for symbol in symbols if name.endswith(f".{symbol.qualified_name}")]
    longest = max((len(symbol.qualified_name) for symbol in inside), default=0)
    return [symbol for symbol in inside if len(symbol.qualified_name) == longest]


def _bare(written: str) -> str:
    words = _PARAMETERS.sub("", written).replace("::", ".").replace("#", ".").split()
    name = words[-1].strip("`'\".:") if words else written
    return next((name.removeprefix(receiver) for receiver in _RECEIVERS if name.startswith(receiver)), name)


def _runs(found: Sequence[Symbol], symbols: Sequence[Symbol]) -> list[tuple[int, int]]:
    """Return the lines of the definitions that follow one another, with no other of the file's ``symbols`` between."""
    runs: list[tuple[int, int]] = []
    for start, end in sorted((symbol.start_line, symbol.end_line) for symbol in found):
        last = runs[-1][1] if runs else 0
        is_next = start <= last + 1 + _MOST_LINES_BETWEEN
        if runs and is_next and not any(last < other.start_line < start for other in symbols):
            runs[-1] = (runs[-1][0], max(end, last))
        else:
            runs.append((start, end))
    return runs
