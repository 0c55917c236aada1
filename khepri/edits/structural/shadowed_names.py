"""Tells where a name that a replacement brings into a Python text means something else than it does elsewhere in it.

``list[int]`` in a class with a method ``list`` asks that method, and a parameter ``monotonic`` hides the function.
"""

import ast
import builtins
from collections.abc import Callable, Collection, Iterator
from itertools import accumulate
from typing import Final

from khepri.edits.python.inline_names import COMPREHENSIONS, SCOPES, bound_in, top_level_names
from khepri.edits.python.trees import tree_of

_GIVEN: Final = frozenset(dir(builtins))
_OWN: Final = frozenset({"self", "cls"})
"""What is a parameter wherever it is right."""
_Names = frozenset[str]


def shadowed_names(text: str, match_of: Callable[[int], int | None], brought: Collection[str]) -> dict[int, str]:
    """Return the matches of a pattern in whose place a new name means something else, each with such a name.

    A name is meant as Python or the module has it, if one of them does or another place of the file has nothing by it
    around it. What is a parameter wherever it comes in is meant as that, and so is ``self``.

    Args:
        text: The new text; nothing is shadowed in one that cannot be parsed.
        match_of: Returns the match whose replacement wrote what begins at a place of the text, in characters.
        brought: The words of the replacement that the pattern has not as well: those mean the same in its place.
    """
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    lines = text.replace("\r\n", " \n").replace("\r", "\n").split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    loaded: list[tuple[int, str, bool]] = []
    own: set[tuple[int, str]] = set()
    for node, is_inner in _names(tree):
        name = node.id if isinstance(node, ast.Name) else node.arg
        if name not in brought:
            continue
        line = lines[node.lineno - 1]
        match = match_of(starts[node.lineno - 1] + len(line.encode()[: node.col_offset].decode(errors="ignore")))
        if match is None:
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            loaded.append((match, name, is_inner))
        else:
            own.add((match, name))
    at_top = top_level_names(tree)
    plain = {name for _, name, is_inner in loaded if not is_inner} - _OWN
    return {
        match: name
        for match, name, is_inner in loaded
        if (match, name) not in own
        if (name in _GIVEN | at_top | plain if is_inner else name in _GIVEN & at_top)
    }


def _names(tree: ast.Module) -> Iterator[tuple[ast.Name | ast.arg, bool]]:
    """Yield every name of a text, with whether a scope below the module binds it for that place."""
    # With each node goes what such scopes bind right here, which differs in the body of a class, and what they bind
    # for a function inside.
    queue: list[tuple[ast.AST, _Names, _Names]] = [(tree, frozenset(), frozenset())]
    while queue:
        node, here, around = queue.pop()
        inside = around | bound_in(node) if isinstance(node, SCOPES) else around
        scoped: list[ast.AST] = []
        match node:
            case ast.Name() | ast.arg():
                yield node, (node.id if isinstance(node, ast.Name) else node.arg) in here
            case ast.FunctionDef(body=body) | ast.AsyncFunctionDef(body=body) | ast.ClassDef(body=body):
                scoped = [*body]
            case ast.Lambda(body=value):
                scoped = [value]
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                first = node.generators[0]
                scoped = [each for each in ast.iter_child_nodes(node) if each is not first]
                scoped += [first.target, *first.ifs]
                queue.append((first.iter, here, around))  # It is read outside.
        queue += [(each, inside, around if isinstance(node, ast.ClassDef) else inside) for each in scoped]
        if not isinstance(node, COMPREHENSIONS):
            queue += [(each, here, around) for each in ast.iter_child_nodes(node) if each not in scoped]
