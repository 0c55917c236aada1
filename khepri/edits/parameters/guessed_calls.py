"""Finds the calls that are taken for those of a function though they may be of another: ``for each in (f, g): each()``.

rope takes the first of several things, or the last, for what a variable, a list or a dictionary holds.
"""

import ast
from collections.abc import Collection, Iterator
from itertools import accumulate
from typing import Final

from khepri.edits.locate import Target
from khepri.edits.python.bare_names import base_name
from khepri.edits.python.binding import stored_in
from khepri.edits.python.trees import tree_of

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


def guessed_lines(text: str, places: Collection[int], target: Target) -> list[int]:
    """Return the lines on which something is passed to what may be a function or something else.

    Args:
        text: A valid Python file.
        places: Where names of arguments begin in it that are taken for the function's, in characters.
        target: The function.
    """
    lines = text.split("\n")
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    own = {target.name, target.symbol.rpartition(".")[0].rpartition(".")[2]}
    tree = tree_of(text)
    found = []
    for around, call in _calls(tree):
        passed = {
            starts[each.lineno - 1] + len(lines[each.lineno - 1].encode()[: each.col_offset].decode())
            for each in call.keywords
        }
        if passed & {*places} and _may_vary(call.func, around, own):
            found.append(call.lineno)
    return sorted(found)


def _calls(tree: ast.Module) -> Iterator[tuple[list[ast.stmt], ast.Call]]:
    """Yield each call with the body of the innermost function that binds what it calls, or of the module."""
    queue: list[tuple[ast.AST, tuple[list[ast.stmt], ...]]] = [(tree, (tree.body,))]
    while queue:
        node, bodies = queue.pop()
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else ""
            yield next((each for each in reversed(bodies) if name in stored_in(each)), bodies[0]), node
        inside = (*bodies, node.body) if isinstance(node, _FUNCTIONS) else bodies
        queue += [(child, inside) for child in ast.iter_child_nodes(node)]


def _may_vary(called: ast.expr, around: list[ast.stmt], own: set[str]) -> bool:
    match called:
        case ast.Subscript():
            # ``Box[int](size=1)`` is a call of Box.
            return base_name(called) not in own
        case ast.IfExp():
            return True
        case ast.Name(id=name) if name not in own:
            nodes = [*_in_scope(around)]
            stored = [node for node in nodes if isinstance(node, ast.Name) and node.id == name and _is_stored(node)]
            plain = [node for node in nodes if isinstance(node, ast.Assign | ast.AnnAssign) and _is_plain(node, name)]
            return len(stored) > len(plain) or len(plain) > 1
    return False


def _in_scope(statements: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield what is in some statements and in no function or class inside them."""
    queue: list[ast.AST] = [*statements]
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            queue += ast.iter_child_nodes(node)


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _is_plain(node: ast.Assign | ast.AnnAssign, name: str) -> bool:
    """Tell if a variable is given what has a name, and nothing that is chosen or looked up."""
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    is_named = any(isinstance(each, ast.Name) and each.id == name for each in targets)
    return is_named and isinstance(node.value, ast.Name | ast.Attribute)
