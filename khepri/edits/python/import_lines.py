"""Adds and removes import statements of Python text, and leaves every other line as it is.

Works on valid text alone; what has to be imported is decided by whoever asks.
"""

import ast
import re
from collections.abc import Callable, Iterator
from typing import Final

from khepri.edits.python.trees import all_nodes, tree_of

_MOST_CHARS: Final = 110
"""A line that is longer takes no further name."""
_FUTURE: Final = "__future__"
_TYPING_ONLY: Final = "TYPE_CHECKING"
_OF_THE_FILE: Final = re.compile(r"#!|#.*coding[:=]")
_DEFINITION: Final = ("def ", "async def ", "class ", "@")

ImportStatement = ast.Import | ast.ImportFrom


def with_import(text: str, statement: str) -> str:
    """Return a text with an import at its top, beside those that are there; unchanged if it has it.

    Args:
        text: A Python file.
        statement: One import of one name, absolute.
    """
    body, lines = tree_of(text).body, text.split("\n")
    wanted = ast.parse(statement).body[0]
    top = _top_imports(body)
    if any(_has(node, wanted) for node in top):
        return text
    is_future = isinstance(wanted, ast.ImportFrom) and wanted.module == _FUTURE
    for node in top:
        line = lines[node.lineno - 1]
        if _may_grow(node, wanted) and line == ast.unparse(node) and len(line) + len(statement) < _MOST_CHARS:
            lines[node.lineno - 1] = f"{line}, {statement.partition(' import ')[2]}"
            return "\n".join(lines)
    place = _head_end(text, body) if is_future or not top else _end_line(top[-1])
    before, after = lines[:place], lines[place:]
    if top and not is_future:
        return "\n".join([*before, statement, *after])
    return "\n".join([*_stripped(before, [""]), statement, *_apart(after)])


def with_typing_import(text: str, statement: str) -> str:
    """Return a text with an import that only type checkers see, in their block; unchanged if it has it anywhere."""
    wanted = ast.parse(statement).body[0]
    blocks = [node for node in tree_of(text).body if isinstance(node, ast.If) and is_typing_only(node)]
    if any(_has(each, wanted) for each in (*_top_imports(tree_of(text).body), *(n for b in blocks for n in b.body))):
        return text
    if blocks:
        lines = text.split("\n")
        lines.insert(_end_line(blocks[0].body[-1]), " " * blocks[0].body[0].col_offset + statement)
        return "\n".join(lines)
    text = with_import(text, f"from typing import {_TYPING_ONLY}")
    lines, place = text.split("\n"), _end_line(_top_imports(tree_of(text).body)[-1])
    return "\n".join([*lines[:place], "", f"if {_TYPING_ONLY}:", f"    {statement}", *_apart(lines[place:])])


def is_typing_only(node: ast.If) -> bool:
    """Tell if a block is for type checkers alone."""
    return ast.unparse(node.test).rpartition(".")[2] == _TYPING_ONLY


def without_imports(text: str, is_unwanted: Callable[[ImportStatement, ast.alias], bool]) -> str:
    """Return a text without some of its imports, wherever they stand.

    Of those that are all of a block the first one stays, unless the block is for type checkers.

    Args:
        text: A Python file.
        is_unwanted: Tells of each name that a statement imports if it goes.
    """
    lines = text.split("\n")
    edits: dict[int, tuple[int, list[str]]] = {}
    for parent, block in _blocks(tree_of(text)):
        gone: list[ast.stmt] = []
        for node in block:
            if not isinstance(node, ImportStatement) or _shares_a_line(node, block):
                continue
            kept = [alias for alias in node.names if not is_unwanted(node, alias)]
            if not kept:
                gone.append(node)
            elif kept != node.names:
                edits[node.lineno - 1] = _end_line(node), _shortened(node, kept, lines)
        if len(gone) == len(block) and not isinstance(parent, ast.Module):
            if isinstance(parent, ast.If) and is_typing_only(parent) and not parent.orelse:
                gone = [parent]
            else:
                del gone[0]
        edits |= {node.lineno - 1: (_end_line(node), []) for node in gone}
    for start in sorted(edits, reverse=True):
        end, rest = edits[start]
        lines = [*lines[:start], *rest, *lines[end:]] if rest else joined(lines[:start], lines[end:])
    return "\n".join(lines)


def joined(before: list[str], after: list[str]) -> list[str]:
    """Return the lines around something that has gone, with no more empty ones between them than on one side."""
    above, below = _stripped(before), after[_blank(after) :]
    if not above or not below:
        return below or [*above, ""]
    return [*above, *[""] * max(len(before) - len(above), _blank(after)), *below]


def _blocks(tree: ast.Module) -> Iterator[tuple[ast.AST, list[ast.stmt]]]:
    for node in all_nodes(tree):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and block:
                yield node, block


def _shares_a_line(node: ast.stmt, block: list[ast.stmt]) -> bool:
    others = (each for each in block if each is not node)
    return any(each.lineno <= _end_line(node) and node.lineno <= _end_line(each) for each in others)


def _shortened(node: ImportStatement, kept: list[ast.alias], lines: list[str]) -> list[str]:
    """Return the lines of an import with some of its names only; those that had lines of their own keep them."""
    old = lines[node.lineno - 1 : _end_line(node)]
    own = {alias.lineno: alias for alias in node.names if lines[alias.lineno - 1].lstrip().startswith(alias.name)}
    if len(own) == len(node.names) and node.lineno not in own:
        gone = {line - node.lineno for line, alias in own.items() if alias not in kept}
        return [line for number, line in enumerate(old) if number not in gone]
    names = ", ".join(ast.unparse(alias) for alias in kept)
    dots = "." * (node.level if isinstance(node, ast.ImportFrom) else 0)
    lead = f"from {dots}{node.module or ''} import " if isinstance(node, ast.ImportFrom) else "import "
    return [" " * node.col_offset + lead + names]


def _top_imports(body: list[ast.stmt]) -> list[ImportStatement]:
    """Return the imports before the first definition."""
    found: list[ImportStatement] = []
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            break
        if isinstance(node, ImportStatement):
            found.append(node)
    return found


def _has(node: ast.stmt, wanted: ast.stmt) -> bool:
    match node, wanted:
        case ast.Import(), ast.Import():
            return wanted.names[0].name in [
                alias.name for alias in node.names if alias.asname == wanted.names[0].asname
            ]
        case ast.ImportFrom(), ast.ImportFrom() if (node.module, node.level) == (wanted.module, wanted.level):
            return (wanted.names[0].name, wanted.names[0].asname) in [(each.name, each.asname) for each in node.names]
    return False


def _may_grow(node: ImportStatement, wanted: ast.stmt) -> bool:
    """Tell if a name can be added to an import instead of another line."""
    if not isinstance(node, ast.ImportFrom) or not isinstance(wanted, ast.ImportFrom):
        return False
    return (node.module, node.level) == (wanted.module, 0) and "*" not in (node.names[0].name, wanted.names[0].name)


def _head_end(text: str, body: list[ast.stmt]) -> int:
    """Return how many lines stand before the place of the first import: comments at the very top, a docstring."""
    if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant):
        return _end_line(body[0])
    head = re.match(r"(?:#.*\n)*", text)
    place = head.group().count("\n") if head else 0
    lines = text.split("\n")
    if lines[place].strip():
        # A comment right above the first statement speaks of that; the marks of the file come before it.
        place = next((number for number, line in enumerate(lines) if not _OF_THE_FILE.match(line)), place)
    return place


def _end_line(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno


def _blank(lines: list[str]) -> int:
    """Return how many empty lines stand at the beginning."""
    return next((number for number, line in enumerate(lines) if line.strip()), len(lines))


def _stripped(lines: list[str], end: list[str] | None = None) -> list[str]:
    """Return lines without the empty ones at their end, and then ``end`` if there are any."""
    kept = lines[: len(lines) - _blank(lines[::-1])]
    return [*kept, *(end or [])] if kept else []


def _apart(lines: list[str]) -> list[str]:
    """Return the lines that follow imports with the empty ones between them that the style of Python asks for."""
    rest = lines[_blank(lines) :]
    if not rest:
        return [""]
    code = next((line for line in rest if not line.startswith("#")), "")
    least = 2 if code.startswith(_DEFINITION) else 0 if rest[0].startswith(("import ", "from ")) else 1
    return [*[""] * max(least, _blank(lines)), *rest]
