"""The syntax trees of Python files: made once, looked at again and again, and let go of when the work is over.

A refactoring asks many things of the same files, and to parse them anew for each takes most of its time.
"""

import ast
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

_KEPT = 1024
"""Trees that are kept at most; a file of 10 KB has one of about 300 KB."""
_RELAXED = (200_000, 30, 30)
"""When Python looks for garbage while trees are made: they have none, and to look through them takes a third of the
time."""


@lru_cache(maxsize=_KEPT)
def tree_of(text: str) -> ast.Module:
    """Return the tree of a Python text; it is shared, so nobody may change it.

    Raises:
        RecursionError: The text is nested too deeply.
        SyntaxError: It is no Python.
        ValueError: It holds null bytes.
    """
    return ast.parse(text)


@lru_cache(maxsize=_KEPT)
def all_nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Return all nodes of a file's tree, as ``ast.walk`` gives them."""
    return tuple(ast.walk(tree))


@contextmanager
def kept_trees() -> Iterator[None]:
    """Make it cheap to look at the same files again, and free what that took at the end."""
    thresholds = gc.get_threshold()
    gc.set_threshold(*_RELAXED)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        all_nodes.cache_clear()
        tree_of.cache_clear()
