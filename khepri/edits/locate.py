"""Finds the one place that a change is about: a definition of a file, or the file itself."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from khepri.edits.guard import check_place
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.errors import ToolError
from khepri.repo.definition import find_definition
from khepri.repo.symbols import Symbol, outline
from khepri.repo.text import decode, printable


@dataclass(frozen=True)
class Source:
    """A file that may be changed, as it is now."""

    path: str
    """POSIX path from the root, links resolved."""
    data: bytes
    """The whole content: what must still be there when the change is written."""
    text: str
    r"""Its text, lines ending in ``\n``."""


@dataclass(frozen=True)
class Target:
    """A definition in a file, or a whole file."""

    source: Source
    symbol: str
    """Qualified name of the definition; empty for the whole file."""
    name: str
    """Its bare name; empty for the whole file."""
    kind: str
    """``function``, ``class``, …; ``file`` for the whole file."""
    start_line: int
    """First line, from 1, decorators included."""
    end_line: int
    """Last line, inclusive."""
    offset: int | None = None
    """Where its name stands in the text of the file, in characters, if that is known."""

    @property
    def text(self) -> str:
        r"""Its lines, the last one without its end unless the target is a file."""
        if not self.symbol:
            return self.source.text
        return "\n".join(self.source.text.split("\n")[self.start_line - 1 : self.end_line])

    @property
    def is_member(self) -> bool:
        """True for what a class has: not for a definition inside a function."""
        owner = self.symbol.rpartition(".")[0]
        symbols = outline(self.source.path, self.source.text) if owner else ()
        return any(each.qualified_name == owner and each.kind == "class" for each in symbols)

    @property
    def label(self) -> str:
        """How it is named to people: path and symbol."""
        return f"{self.source.path} {self.symbol}".rstrip()


def read_source(workspace: Workspace, path: str) -> Source:
    """Return a visible file that may be changed.

    Raises:
        EditRefusedError: It does not exist, is hidden or outside the root, or is no text.
    """
    if workspace.proposed.get(path) is not None:
        return _source(path, workspace.proposed[path])
    try:
        real = workspace.repository.resolve(path)
    except ToolError as error:
        raise EditRefusedError(_reason(workspace, path), error.message, error.hint) from error
    relative = workspace.repository.relative(real)
    if real.is_dir():
        raise EditRefusedError(Refusal.NO_TARGET, f"{printable(relative)} is a folder", "name a file")
    check_place(relative)
    return _source(relative, workspace.read(relative))


def _source(relative: str, data: bytes | None) -> Source:
    if data is None:
        raise EditRefusedError(Refusal.NO_TARGET, f"{printable(relative)} does not exist any more")
    try:
        return Source(relative, data, decode(data).text)
    except ToolError as error:
        raise EditRefusedError(Refusal.UNREADABLE, f"{printable(relative)}: {error.message}", error.hint) from error


def read_python(workspace: Workspace, path: str) -> Source:
    """Return a visible Python file that may be changed.

    Raises:
        EditRefusedError: As for ``read_source``, or it is in another language.
    """
    source = read_source(workspace, path)
    if not source.path.endswith(".py"):
        raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{source.path} is not Python", "use replace for other languages")
    return source


def find_python(workspace: Workspace, path: str, symbol: str) -> Target:
    """Return the definition of that name in a Python file; see ``find_target``.

    Raises:
        EditRefusedError: As for ``read_python`` and ``find_target``.
    """
    return find_target(read_python(workspace, path), symbol)


def find_target(source: Source, symbol: str = "") -> Target:
    """Return the definition that ``symbol`` names in a file, or the whole file without one.

    Raises:
        EditRefusedError: No definition fits, or several that lie apart do.
    """
    if not symbol:
        return Target(source, "", "", "file", 1, max(1, source.text.count("\n")))
    symbols = outline(source.path, source.text)
    shown = printable(symbol)[:80]
    try:
        found = find_definition(source.path, symbols, symbol)
    except ToolError as error:
        raise EditRefusedError(Refusal.AMBIGUOUS, error.message, error.hint) from error
    if found is None:
        names = ", ".join(dict.fromkeys(each.qualified_name for each in symbols[:12])) or "nothing"
        raise EditRefusedError(Refusal.NO_TARGET, f"{source.path} does not define {shown}", f"it defines {names}")
    if found.elsewhere:
        lines = ", ".join(str(start) for start, _ in sorted([(found.start_line, found.end_line), *found.elsewhere]))
        raise EditRefusedError(
            Refusal.AMBIGUOUS,
            f"{shown} is defined more than once in {source.path}, at lines {lines}",
            "name what it lies in as well, as in Class.method",
        )
    match = _symbol_at(symbols, found.start_line, symbol)
    return Target(source, match.qualified_name, match.name, match.kind, found.start_line, found.end_line)


def name_offset(target: Target) -> int:
    """Return where in the file's text the name of a definition stands, in characters from 0.

    Raises:
        EditRefusedError: It cannot be told.
    """
    if target.offset is not None:
        return target.offset
    lines = target.source.text.split("\n")
    start = sum(len(line) + 1 for line in lines[: target.start_line - 1])
    name = re.escape(target.name)
    text = target.source.text
    declared = re.compile(rf"\b(?:def|class|function|func|fn|type)\s+({name})\b").search(text, start)
    named = declared or re.compile(rf"(?<![\w.])({name})\b").search(text, start)
    if named is None:
        raise EditRefusedError(Refusal.NO_TARGET, f"the name of {target.label} cannot be found")
    return named.start(1)


def _symbol_at(symbols: tuple[Symbol, ...], line: int, written: str) -> Symbol:
    here = [symbol for symbol in symbols if symbol.start_line == line]
    last = written.rpartition(".")[2]
    return next((symbol for symbol in here if symbol.name == last), here[0])


def _reason(workspace: Workspace, path: str) -> Refusal:
    """Return why the repository refuses a path."""
    try:
        real = Path(os.path.realpath(workspace.repository.root / path))
    except ValueError:
        return Refusal.NO_TARGET
    if not real.is_relative_to(workspace.repository.root):
        return Refusal.OUTSIDE
    return Refusal.HIDDEN if os.path.lexists(real) else Refusal.NO_TARGET
