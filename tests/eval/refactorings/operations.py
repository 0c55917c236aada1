"""Refactorings of a package, drawn at random: what could be renamed, moved, inlined, extracted or get a parameter."""

import ast
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from khepri.edits.inlining.inlining import inline
from khepri.edits.moving.refactor import extract, move
from khepri.edits.parameters.new_parameter import add_parameter
from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.rename.rename import Refactoring, rename
from khepri.edits.workspace import Workspace

WEIGHTS = {
    "rename method": 22,
    "rename parameter": 22,
    "rename function": 12,
    "rename field": 12,
    "rename class": 10,
    "move": 8,
    "inline": 8,
    "extract": 8,
    "rename variable": 6,
    "add parameter": 5,
    "remove parameter": 5,
    "rename local": 4,
    "rename module": 2,
}
"""How often each kind is drawn, against the others."""
_NO_SOURCE = re.compile(r"(^|/)(tests?|docs?|examples?|bench\w*|scripts?|tools?)/|(^|/)(test_|conftest|setup|noxfile)")
_SHORT = 4
"""Statements of a function that is inlined, or lines of code that are extracted, at most."""


@dataclass(frozen=True)
class Operation:
    """One refactoring."""

    kind: str
    path: str
    symbol: str = ""
    name: str = ""
    """The parameter, or the file that a move goes to."""
    lines: tuple[int, int] = (0, 0)
    """What is extracted: its first and its last line, from 1."""

    def perform(self, workspace: Workspace) -> Refactoring:
        """Make the change.

        Raises:
            EditRefusedError: It is refused.
            ToolError: A file cannot be read.
        """
        match self.kind:
            case "move":
                return move(workspace, self.path, self.symbol, self.name)
            case "inline":
                return inline(workspace, self.path, self.symbol)
            case "extract":
                return extract(workspace, self.path, *self.lines, "fresh_part")
            case "add parameter":
                return add_parameter(workspace, self.path, self.symbol, "fresh_extra", "None")
            case "remove parameter":
                return remove_parameter(workspace, self.path, self.symbol, self.name)
            case "rename parameter":
                return rename_parameter(workspace, self.path, self.symbol, self.name, fresh(self.name))
            case _:
                name = self.symbol.rpartition(".")[2] or PurePosixPath(self.path).stem
                return rename(workspace, self.path, self.symbol, fresh(name))


def fresh(name: str) -> str:
    """Return another name of the same make: as private, and written as high."""
    bare = name.lstrip("_")
    start = "FRESH_" if bare.isupper() else "Fresh" if bare[:1].isupper() else "fresh_"
    return f"{name[: len(name) - len(bare)]}{start}{bare}"


def draw(root: Path, number: int, dice: random.Random) -> list[Operation]:
    """Draw different operations on the package in a folder; fewer if it has not as many."""
    possible = defaultdict(list)
    for operation in _possible(root):
        possible[operation.kind].append(operation)
    drawn: list[Operation] = []
    while possible and len(drawn) < number:
        kinds = sorted(possible)
        kind = dice.choices(kinds, [WEIGHTS[each] for each in kinds])[0]
        some = possible[kind]
        drawn.append(some.pop(dice.randrange(len(some))))
        if not some:
            del possible[kind]
    return drawn


def _possible(root: Path) -> Iterator[Operation]:
    paths = sorted(path.relative_to(root).as_posix() for path in root.rglob("*.py"))
    for path in paths:
        if _NO_SOURCE.search(path):
            continue
        tree = ast.parse((root / path).read_text(encoding="utf-8"))
        if not PurePosixPath(path).stem.startswith("__"):
            yield Operation("rename module", path)
        yield from _in_body(path, "", tree.body, is_class=False)
        folder = PurePosixPath(path).parent
        neighbours = [each for each in paths if PurePosixPath(each).parent == folder and each != path]
        for name in _top_names(tree.body):
            for place in (*neighbours, (folder / "fresh_place.py").as_posix()):
                if not _NO_SOURCE.search(place):
                    yield Operation("move", path, name, place)


def _top_names(body: Sequence[ast.stmt]) -> Iterator[str]:
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield statement.name
        else:
            yield from _assigned(statement)


def _assigned(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (each.id for each in targets if isinstance(each, ast.Name) and not _is_special(each.id))


def _in_body(path: str, prefix: str, body: Sequence[ast.stmt], *, is_class: bool) -> Iterator[Operation]:
    for statement in body:
        match statement:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _of_function(path, f"{prefix}{statement.name}", statement, is_method=is_class)
            case ast.ClassDef():
                symbol = f"{prefix}{statement.name}"
                yield Operation("rename class", path, symbol)
                yield from (Operation("rename field", path, f"{symbol}.{name}") for name in _fields(statement))
                yield from _in_body(path, f"{symbol}.", statement.body, is_class=True)
            case ast.If() | ast.Try():
                yield from _in_body(path, prefix, statement.body, is_class=is_class)
            case _ if not is_class:
                yield from (Operation("rename variable", path, name) for name in _assigned(statement))


def _of_function(
    path: str, symbol: str, function: ast.FunctionDef | ast.AsyncFunctionDef, *, is_method: bool
) -> Iterator[Operation]:
    is_special = _is_special(function.name)
    if not is_special:
        yield Operation("rename method" if is_method else "rename function", path, symbol)
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    every = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    for parameter in (each.arg for each in every if each.arg not in {"self", "cls"}):
        yield Operation("rename parameter", path, symbol, parameter)
        if parameter not in names:
            yield Operation("remove parameter", path, symbol, parameter)
    yield Operation("add parameter", path, symbol)
    stored = {node.id for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    yield from (Operation("rename local", path, f"{symbol}.{name}") for name in sorted(stored))
    if not is_special and len(function.body) <= _SHORT:
        yield Operation("inline", path, symbol)
    for first, statement in enumerate(function.body):
        for last in function.body[first : first + _SHORT]:
            end = last.end_lineno or last.lineno
            if end > statement.lineno and not (statement is function.body[0] and last is function.body[-1]):
                yield Operation("extract", path, symbol, lines=(statement.lineno, end))


def _fields(statement: ast.ClassDef) -> list[str]:
    own = {name for each in statement.body for name in _assigned(each)}
    set_ones = {
        node.attr
        for node in ast.walk(statement)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
        and node.value.id == "self"
    }
    return sorted(name for name in own | set_ones if not _is_special(name))


def _is_special(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")
