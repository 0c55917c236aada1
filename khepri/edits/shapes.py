"""Finds code of a shape where a grammar by itself would not: calls in Go and C, and code in the macros of Rust.

Go and C read a call that stands alone as something else (a conversion, a macro), so a pattern that is one is read
inside a function. What Rust's macros are called with is no code to its grammar, but a run of tokens; so a text is read
with ``name!(…)`` and ``name![…]`` as calls of a function, which takes no place away and adds none.
"""

import re
from typing import Final

from ast_grep_py import Pattern, SgNode, SgRoot

_CALL: Final = re.compile(r"[\w.$:>-]+\(.*\)", re.DOTALL)
_AROUND: Final = {"go": "func t() {{ {} }}", "c": "void t() {{ {}; }}"}
_BANG: Final = "\u01c3"
"""Looks like the mark of a macro and is a letter, so that it ends the name of a function."""
_ALIKE: Final = str.maketrans(f"{_BANG}[]", "!()")
_MOST_ROUNDS: Final = 3


def find_shape(text: str, language: str, pattern: str) -> list[SgNode]:
    """Return every node of a text that has a shape, an outer one before those inside."""
    nodes = SgRoot(text, language).root().find_all(pattern=pattern)
    around = _AROUND.get(language)
    if around is not None and _CALL.fullmatch(pattern.strip()):
        call = Pattern(context=around.format(pattern.strip()), selector="call_expression", strictness="smart")
        nodes += SgRoot(text, language).root().find_all(pattern=call)
    if language == "rust":
        nodes += read(text, language).find_all(pattern=_pattern_with_calls(pattern))
    found = {(node.range().start.index, node.range().end.index): node for node in nodes}
    return [found[place] for place in sorted(found, key=lambda place: (place[0], -place[1]))]


def as_calls(code: str) -> str:
    """Return code in which macros and calls look alike, for comparison."""
    return code.translate(_ALIKE)


def read(text: str, language: str) -> SgNode:
    """Return the tree of a text, with the macros of Rust as calls where they can be such."""
    root = SgRoot(text, language).root()
    macros = _macros(root) if language == "rust" else []
    for _ in range(_MOST_ROUNDS):
        if not macros:
            break
        tree = SgRoot(_with_calls(text, macros), language).root()
        faults = [_span(node) for node in tree.find_all(kind="ERROR")]
        torn = [macro for macro in macros if any(macro[0] <= start and end <= macro[2] + 1 for start, end in faults)]
        if not torn and len(faults) <= len(root.find_all(kind="ERROR")):
            return tree
        macros = [macro for macro in macros if macro not in torn] if torn else []
    return root


def _macros(root: SgNode) -> list[tuple[int, int, int]]:
    """Return the places of the mark and of both brackets of each macro that is called."""
    found = []
    queue = [root]
    while queue:
        children = queue.pop().children()
        queue += children
        for name, mark, tree in zip(children, children[1:], children[2:], strict=False):
            is_macro = name.kind().endswith("identifier") and mark.kind() == "!" and tree.kind() == "token_tree"
            if is_macro and tree.text()[0] in "([":
                start, end = _span(tree)
                found.append((_span(mark)[0], start, end - 1))
    return found


def _with_calls(text: str, macros: list[tuple[int, int, int]]) -> str:
    letters = list(text)
    for mark, opening, closing in macros:
        letters[mark], letters[opening], letters[closing] = _BANG, "(", ")"
    return "".join(letters)


def _pattern_with_calls(pattern: str) -> str:
    """Return a pattern with its macros as calls; its own brackets tell where they end."""
    letters, macros, opened = list(pattern), set(), []
    for place, letter in enumerate(pattern):
        if letter in "([{":
            opened.append(place)
            mark = re.search(r"\w(!)\s*\Z", pattern[:place])
            if mark is not None and letter != "{":
                macros.add(place)
                letters[mark.start(1)] = _BANG
        elif letter in ")]}" and opened and (start := opened.pop()) in macros:
            letters[start], letters[place] = "(", ")"
    return "".join(letters)


def _span(node: SgNode) -> tuple[int, int]:
    place = node.range()
    return place.start.index, place.end.index
