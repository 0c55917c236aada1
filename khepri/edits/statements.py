"""Which lines of a Python function are whole statements: what can be extracted from it."""

import ast
import re
from collections.abc import Iterator

from khepri.edits.locate import Target
from khepri.edits.refusal import EditRefusedError, Refusal


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
        functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        nodes = ast.walk(functions[0]) if functions else ()
        self._blocks = [
            [(first + before, last + before) for first, last in block] for node in nodes for block in _blocks(node)
        ]
        if not self._blocks:
            raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{target.label} has no statements", "name a function")

    def starts(self, task: str) -> list[int]:
        """Return the lines in which a statement begins; where a task quotes one of them, that one alone."""
        starts = sorted({statement[0] for block in self._blocks for statement in block})
        quoted = [match.strip() for match in re.findall(r"[`'\"]([^`'\"]{4,})[`'\"]", task)]
        named = [line for line in starts if any(self._text(line).startswith(words) for words in quoted)]
        return named[:1] or starts

    @property
    def ends(self) -> list[int]:
        """The lines in which a statement ends."""
        return sorted({statement[1] for block in self._blocks for statement in block})

    def around(self, start: int, end: int) -> tuple[int, int]:
        """Return the fewest neighbouring statements that hold two lines, by their first and last line."""
        start, end = min(start, end), max(start, end)
        found = []
        for block in self._blocks:
            inside = [(first, last) for first, last in block if first <= end and last >= start]
            if inside and inside[0][0] <= start and inside[-1][1] >= end:
                found.append((inside[0][0], inside[-1][1]))
        return min(found, key=lambda lines: lines[1] - lines[0], default=(start, end))

    def _text(self, line: int) -> str:
        return self._lines[line - self._first].strip()


def _blocks(node: ast.AST) -> Iterator[list[tuple[int, int]]]:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
            yield [(statement.lineno, statement.end_lineno or statement.lineno) for statement in block]
