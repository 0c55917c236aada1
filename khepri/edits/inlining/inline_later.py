"""Whether a body in the place of a call would see values that change after the call: those of a function it makes.

A function that is made in the body keeps the names of that one call. In the place of a call they are the caller's,
which the next pass of a loop binds anew.
"""

import ast
from collections.abc import Iterator
from typing import Final

_AT_ONCE: Final = frozenset(
    "sorted min max sort any all sum list tuple set frozenset dict join len reduce groupby".split()
)
"""What calls or runs through what it is passed before it returns."""
_NESTED: Final = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.GeneratorExp)


def late_name(function: ast.FunctionDef) -> str:
    """Return a parameter or variable of a function that a function made in it, or a generator, reads later on.

    Empty if there is none.
    """
    own = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    own |= {
        node.id
        for top in function.body
        for node in ast.walk(top)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    for node, parent in _with_parents(function):
        if isinstance(node, _NESTED) and not _is_run_at_once(parent):
            if found := _read_later(node) & own:
                return min(found)
    return ""


def _is_run_at_once(parent: ast.AST) -> bool:
    match parent:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name in _AT_ONCE
    return False


def _read_later(node: ast.AST) -> set[str]:
    """Return the names that a function or generator reads when it runs, but for its own."""
    if isinstance(node, ast.GeneratorExp):
        own = {each.id for part in node.generators for each in ast.walk(part.target) if isinstance(each, ast.Name)}
        first = {*ast.walk(node.generators[0].iter)}
        later: list[ast.AST] = [each for each in ast.walk(node) if each not in first]
    else:
        assert isinstance(node, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef)
        own = {each.arg for each in ast.walk(node.args) if isinstance(each, ast.arg)}
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        later = [each for top in body for each in ast.walk(top)]
    own |= {each.id for each in later if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
    return {each.id for each in later if isinstance(each, ast.Name)} - own


def _with_parents(function: ast.FunctionDef) -> Iterator[tuple[ast.AST, ast.AST]]:
    for top in function.body:
        yield top, function
        for parent in ast.walk(top):
            for node in ast.iter_child_nodes(parent):
                if isinstance(node, ast.keyword):
                    yield node.value, parent
                elif not isinstance(parent, ast.keyword):
                    yield node, parent
