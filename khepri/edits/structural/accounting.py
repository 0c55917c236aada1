"""Tells whether a pattern accounts for all that it matched.

The library that matches is lenient: a pattern of a call matches one with a block behind it, a class body or an argument
more. A replacement would leave out what no word of the pattern and no hole stands for, without anybody having said so.
"""

import re
from itertools import pairwise
from typing import Final

from ast_grep_py import SgNode

from khepri.edits.structural.shapes import as_calls

HOLE: Final = re.compile(r"\$\$\$([A-Z_][A-Z0-9_]*)|\$([A-Z_][A-Z0-9_]*)")
"""``$$$NAME`` for any number of nodes, in the first group, and ``$NAME`` for one, in the second."""

_NAMELESS: Final = re.compile(r"\$\$\$(?:_[A-Z0-9_]*|(?![A-Z_]))|(?<!\$)\$_[A-Z0-9_]*")
_CLOSING: Final = (")", "]", "}")
_MOST_SHOWN: Final = 40


def named(pattern: str) -> str:
    """Return a pattern in which each hole without a name has one, so that what it takes is known."""
    names: list[str] = []

    def name(hole: re.Match[str]) -> str:
        names.append(f"{'$$$' if hole[0].startswith('$$$') else '$'}NAMELESS{len(names)}")
        return names[-1]

    return _NAMELESS.sub(name, pattern)


def nameless(code: str) -> str:
    """Return the first hole of some code that keeps nothing of what it takes, or nothing."""
    found = _NAMELESS.search(code)
    return found[0] if found is not None else ""


def beyond(text: str, match: SgNode, pattern: str) -> str:
    """Return what a match holds from the first word on that the pattern does not account for, shortened; or nothing.

    A comma before a closing bracket, and a semicolon at the end, are as good as none.

    Args:
        text: The text that the match is in.
        match: A match of the pattern.
        pattern: Code whose holes all have names.
    """
    taken, fixed = _accounted(match, pattern)
    start, end = _span(match)
    cuts = {start, end}
    queue = [match]
    while queue:
        for child in queue.pop().children():
            span = _span(child)
            cuts.update(span)
            if not any(first <= span[0] and span[1] <= last for first, last in taken):
                queue.append(child)
    words = [
        (first, as_calls(_bare(text[first:last])))
        for first, last in pairwise(sorted(cuts))
        if not any(begun <= first and last <= ended for begun, ended in taken) and text[first:last].strip()
    ]
    place = 0
    for number, (first, word) in enumerate(words):
        found = fixed.find(word, place)
        if found >= 0:
            place = found + len(word)
            continue
        follower = words[number + 1][1] if number + 1 < len(words) else ""
        if not (word == "," and follower.startswith(_CLOSING)) and not (word == ";" and not follower):
            rest = " ".join(text[first:end].split())
            return rest if len(rest) <= _MOST_SHOWN else rest[:_MOST_SHOWN] + "…"
    return ""


def taken_in(match: SgNode, pattern: str) -> list[tuple[int, int]]:
    """Return where in a text the holes of a pattern took something, for a match of it."""
    return _accounted(match, pattern)[0]


def _accounted(match: SgNode, pattern: str) -> tuple[list[tuple[int, int]], str]:
    """Return where holes took something, and the words of the pattern without blanks."""
    holes = list(HOLE.finditer(pattern))
    taken = []
    fixed = []
    place = 0
    for hole in holes:
        fixed.append(_bare(pattern[place : hole.start()]))
        place = hole.end()
        one = match.get_match(hole[2]) if hole[2] else None
        nodes = match.get_multiple_matches(hole[1]) if hole[1] else [one] if one is not None else []
        if not nodes:
            continue
        if sum(other[0] == hole[0] for other in holes) > 1:
            # It stands for the same words at each of its places, and only one of them is told.
            fixed.append("".join(_bare(node.text()) for node in nodes))
        else:
            fixed.append("\0")
            taken.append((_span(nodes[0])[0], _span(nodes[-1])[1]))
    fixed.append(_bare(pattern[place:]))
    return taken, as_calls("".join(fixed))


def _bare(code: str) -> str:
    return "".join(code.split())


def _span(node: SgNode) -> tuple[int, int]:
    place = node.range()
    return place.start.index, place.end.index
