"""Turns the lines and columns of a syntax tree, whose columns count bytes, into places in a text."""

import ast
from itertools import accumulate

Placed = ast.expr | ast.stmt | ast.arg | ast.keyword | ast.alias


class Offsets:
    """The places of one text. Any thread."""

    def __init__(self, text: str) -> None:
        """Note where its lines begin."""
        self._lines = text.split("\n")
        self._starts = list(accumulate((len(line) + 1 for line in self._lines), initial=0))

    def of(self, line: int, column: int) -> int:
        """Return a place in characters of the text.

        Args:
            line: From 1.
            column: Bytes of UTF-8 before it in its line.
        """
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def start(self, node: Placed) -> int:
        """Return where a piece of code begins."""
        return self.of(node.lineno, node.col_offset)

    def end(self, node: Placed) -> int:
        """Return where a piece of code ends."""
        return self.of(node.end_lineno or node.lineno, node.end_col_offset or 0)
