"""Which lines of a Python function are whole statements: what can be extracted from it."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from khepri.edits.locate import Target
from khepri.edits.python.trees import all_nodes
from khepri.edits.refusal import EditRefusedError, Refusal


@dataclass(frozen=True)
class Statement:
    """One statement of a function, with what is inside it."""

    first: int
    """Its first line, from 1 in the file."""
    last: int
    """Its last line, inclusive."""
    node: ast.stmt


class Statements:
    """The statements of a function, by their lines in its file."""

    def __init__(self, target: Target) -> None:
        """Parse the function.

        Raises:
            EditRefusedError: It is no valid Python, or has no statements.
        """
        self._lines = target.text.split("\n")
        self._first = target.start_line
        # Code that is indented is valid in a block only.
        is_indented = target.text[:1].isspace()
        before = target.start_line - 1 - is_indented
        try:
            tree = ast.parse(f"if 1:\n{target.text}" if is_indented else target.text)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{target.label} is no valid Python") from error
        functions = [node for node in all_nodes(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        nodes = ast.walk(functions[0]) if functions else ()
        self.blocks = [
            [Statement(each.lineno + before, (each.end_lineno or each.lineno) + before, each) for each in block]
            for node in nodes
            for block in _blocks(node)
        ]
        """The statements that stand side by side, those of the function itself first."""
        if not self.blocks:
            raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{target.label} has no statements", "name a function")

    @property
    def all(self) -> list[Statement]:
        """Every statement, in the order of their lines."""
        return sorted((each for block in self.blocks for each in block), key=lambda each: (each.first, -each.last))

    def starts(self, task: str) -> list[int]:
        """Return the lines in which a statement begins; where a task quotes one of them, that one alone."""
        starts = sorted({each.first for each in self.all})
        quoted = [match.strip() for match in re.findall(r"[`'\"]([^`'\"]{4,})[`'\"]", task)]
        named = [line for line in starts if any(self.line(line).startswith(words) for words in quoted)]
        return named[:1] or starts

    @property
    def ends(self) -> list[int]:
        """The lines in which a statement ends."""
        return sorted({each.last for each in self.all})

    def around(self, start: int, end: int) -> tuple[int, int]:
        """Return the fewest neighbouring statements that hold two lines, by their first and last line."""
        start, end = min(start, end), max(start, end)
        found = []
        for block in self.blocks:
            inside = [each for each in block if each.first <= end and each.last >= start]
            if inside and inside[0].first <= start and inside[-1].last >= end:
                found.append((inside[0].first, inside[-1].last))
        return min(found, key=lambda lines: lines[1] - lines[0], default=(start, end))

    def line(self, number: int) -> str:
        """Return a line of the function without the blanks around it; empty for one that is none of its lines."""
        place = number - self._first
        return self._lines[place].strip() if 0 <= place < len(self._lines) else ""


def _blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield block
