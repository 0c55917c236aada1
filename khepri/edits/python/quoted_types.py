"""Types of Python that are written as texts, ``"Foo"``, where a replacement puts them beside a ``|``.

``"Foo" | None`` is no type but a fault when it runs; ``"Foo | None"`` is the type. Which of them a program means where
no annotation stands cannot be told, so that such a place is only named.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from khepri.edits.python.offsets import Offsets
from khepri.edits.python.trees import all_nodes, tree_of

_QUOTES: Final = ('"', "'")


@dataclass(frozen=True)
class QuotedUnion:
    """Something with ``|`` that has a text on one side."""

    start: int
    """Where it begins, in characters of the text that it is in."""
    end: int
    """Where it ends, exclusive."""
    quoted: str
    """The same as one text; empty where that would not mean the same, or cannot be written."""


def quoted_unions(text: str) -> Iterator[QuotedUnion]:
    """Yield every ``|`` of a Python text with a text on one side, the outermost of several; nothing if it is none."""
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    offsets = Offsets(text)
    annotated = {id(inner) for each in _annotations(tree) for inner in ast.walk(each)}
    queue: list[ast.AST] = [tree]
    while queue:
        node = queue.pop()
        operands = _operands(node)
        texts = [each for each in operands if isinstance(each, ast.Constant) and isinstance(each.value, str)]
        if not texts or not isinstance(node, ast.BinOp):
            queue += operands if len(operands) > 1 else ast.iter_child_nodes(node)
            continue
        names = [
            str(each.value) if isinstance(each, ast.Constant) and each in texts else ast.unparse(each)
            for each in operands
        ]
        yield QuotedUnion(
            offsets.start(node),
            offsets.end(node),
            _as_text(names, text[offsets.start(texts[0])]) if id(node) in annotated else "",
        )


def _operands(node: ast.AST) -> list[ast.expr]:
    """Return what stands between the ``|`` of an expression, from left to right; the expression itself if none does."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return [*_operands(node.left), *_operands(node.right)]
    return [node] if isinstance(node, ast.expr) else []


def _as_text(names: list[str], usual: str) -> str:
    whole = " | ".join(names)
    quotes = [each for each in (usual, *_QUOTES) if each in _QUOTES and each not in whole]
    return f"{quotes[0]}{whole}{quotes[0]}" if quotes and "\\" not in whole else ""


def _annotations(tree: ast.Module) -> Iterator[ast.expr]:
    for node in all_nodes(tree):
        match node:
            case ast.AnnAssign(annotation=found):
                yield found
            case ast.arg(annotation=ast.expr() as found):
                yield found
            case ast.FunctionDef(returns=ast.expr() as found) | ast.AsyncFunctionDef(returns=ast.expr() as found):
                yield found
