"""Finds the places that look like what a pattern is about, and have another shape.

A pattern of a call names what is called. Where the same is called with something more, from a macro, or in a type that
is written as a text, nothing is replaced; whoever asked for it should know.
"""

import re
from collections.abc import Collection
from typing import Final

from ast_grep_py import SgNode

from khepri.edits.structural.shapes import read

_HEAD: Final = re.compile(r"(\$[A-Z_][A-Z0-9_]*)?((?:\.|::|->)?\w+(?:(?:\.|::|->)\w+)*!?)([(\[<])(.*)[)\]>]", re.DOTALL)
"""The hole that a pattern begins with, what follows it, the bracket behind that, and what is in the brackets."""
_HOLES: Final = re.compile(r"(?:\$+[A-Z_0-9]*|[\s,])*")
_JOINT: Final = re.compile(r"(\.|::|->)")
_KEYWORDS: Final = frozenset(
    "if elif while for switch match return catch sizeof typeof not in and or await yield".split()
)
_PROSE: Final = ("string", "comment", "content", "heredoc", "char")
_DEFINING: Final = re.compile(r"(?:function|method|constructor|class).*(?:definition|declarat|item|signature|spec)")
_CODE: Final = re.compile(r"interpolat|substitution|expansion")
"""What holds code inside a text."""


def near_lines(text: str, language: str, pattern: str, seen: Collection[tuple[int, int]]) -> tuple[int, ...]:
    """Return the lines, from 1, where the same is called or named as in a pattern, and nothing was found.

    Args:
        text: What was searched.
        language: A grammar of ast-grep's.
        pattern: Code with holes; one that does not begin with a name and a bracket is near to nothing.
        seen: Where matches stand, without what their holes took.
    """
    head = _HEAD.fullmatch(pattern.strip())
    if head is None or head[2] in _KEYWORDS or not head[2].strip("_") or (head[1] and not _HOLES.fullmatch(head[4])):
        return ()
    if (head[1] is None) != (_JOINT.match(head[2]) is None):
        return ()
    name = r"\s*".join(re.escape(part) for part in _JOINT.split(head[2]) if part)
    before = r"(?<![\w.$:])" if head[1] is None else ""
    named = re.finditer(rf"{before}{name}\s*{re.escape(head[3])}", text)
    found = [each for each in named if not any(start <= each.start() < end for start, end in seen)]
    if not found:
        return ()
    root = read(text, language)
    lines = [text.count("\n", 0, each.start()) + 1 for each in found if _is_use(root, each.start(), language)]
    return tuple(dict.fromkeys(lines))


def _is_use(root: SgNode, place: int, language: str) -> bool:
    """Return True if what stands somewhere is code, and does not define what it names."""
    node, is_type, is_prose = root, False, False
    parent = root
    while True:
        inner = next((each for each in node.children() if _holds(each, place)), None)
        if inner is None:
            break
        parent, node = node, inner
        is_type = is_type or node.kind() == "type"
        if _CODE.search(node.kind()):
            is_prose = False
        elif any(word in node.kind() for word in _PROSE):
            is_prose = True
    if is_prose:
        return language == "python" and is_type and "comment" not in node.kind()
    return _DEFINING.search(parent.kind()) is None


def _holds(node: SgNode, place: int) -> bool:
    span = node.range()
    return span.start.index <= place < span.end.index
