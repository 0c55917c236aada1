"""Whether the names of a default or an annotation are there when the function that has it is defined.

Python reads both as it comes to the ``def``, which at the top of a module is as the module is imported. What stands
further down, what a class that has not ended yet is called, and what only type checkers import, is not there then.
Names that nothing in the file binds are not known here.
"""

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from typing import Final

from khepri.edits.python.calls import Function
from khepri.edits.python.import_lines import is_typing_only
from khepri.edits.python.inline_names import SCOPES, bound_in, names_bound_by
from khepri.edits.python.origins import is_main
from khepri.edits.python.signature import Definition
from khepri.edits.python.trees import tree_of

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_LATER: Final = (ast.Lambda, ast.GeneratorExp)
"""Expressions whose names are looked up when they are called or gone through."""
_ANNOTATIONS: Final = re.compile(r"^from[ \t]+__future__[ \t]+import[ \t].*\bannotations\b", re.MULTILINE)

Scope = ast.Module | ast.ClassDef | Function


def missing_at_definition(function: Definition, parameter: str) -> tuple[str, str] | None:
    """Return the first name of a new parameter that is not there when its function is defined, and why.

    Args:
        function: The function as it is.
        parameter: The new parameter with its annotation and default, as it would be written.
    """
    if function.target.source.path.endswith(".pyi"):
        return None
    around = _around(tree_of(function.text), function)
    first = min(each.lineno for each in (function.node, *function.node.decorator_list))
    # One of Python's own names is there, also where the file gives it to something else further down.
    read = _read(parameter, is_later=_ANNOTATIONS.search(function.text) is not None)
    for name in sorted(each for each in read if not hasattr(builtins, each)):
        if why := _missing(name, around, first):
            return name, why
    return None


def _read(parameter: str, *, is_later: bool) -> set[str]:
    """Return the names that Python looks up for a parameter as it defines the function."""
    arguments = next(
        node for node in ast.walk(ast.parse(f"def f({parameter}): ...")) if isinstance(node, ast.arguments)
    )
    queue: list[ast.AST] = [*arguments.defaults]
    queue += [each.annotation for each in arguments.args if each.annotation is not None and not is_later]
    found: set[str] = set()
    own: set[str] = set()
    while queue:
        node = queue.pop()
        if isinstance(node, ast.Name):
            (found if isinstance(node.ctx, ast.Load) else own).add(node.id)
        if not isinstance(node, _LATER):
            queue += ast.iter_child_nodes(node)
    return found - own


def _around(tree: ast.Module, function: Definition) -> list[Scope]:
    """Return the scopes that a function stands in, the outermost first."""
    around: list[Scope] = [tree]
    while True:
        inside = (node for node in _statements(around[-1]) if isinstance(node, (ast.ClassDef, *_FUNCTIONS)))
        line = function.node.lineno
        found = next((node for node in inside if node.lineno < line <= (node.end_lineno or 0)), None)
        if found is None:
            return around
        around.append(found)


def _missing(name: str, around: Sequence[Scope], line: int) -> str:
    """Return why a name is not there at a line with some scopes around it, the outermost first; nothing if it is."""
    for depth in range(len(around) - 1, -1, -1):
        scope, inside = around[depth], around[depth + 1 :]
        if name not in bound_in(scope) or (isinstance(scope, ast.ClassDef) and inside):
            continue
        if isinstance(scope, _FUNCTIONS) and any(
            each.arg == name for each in ast.walk(scope.args) if isinstance(each, ast.arg)
        ):
            return ""
        places = sorted(_bound_at(scope, name))
        # What an outer function does when it is called finds all that was made meanwhile.
        if any(each < line or any(isinstance(one, _FUNCTIONS) for one in inside) for each in places):
            return ""
        return f"is made at line {places[0]} only" if places else "is not made when the module is imported"
    is_global = any(isinstance(node, ast.Global) and name in node.names for node in ast.walk(around[0]))
    return "is made by a function only" if is_global else ""


def _bound_at(scope: Scope, name: str) -> Iterator[int]:
    """Yield the lines at which a scope has bound a name."""
    for node in _statements(scope):
        if name in names_bound_by(node):
            is_definition = isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            yield getattr(node, "end_lineno" if is_definition else "lineno", 0)


def _statements(scope: Scope) -> Iterator[ast.AST]:
    """Yield what stands in a scope itself and runs with it, also where the module is imported."""
    queue: list[ast.AST] = [*scope.body]
    while queue:
        node = queue.pop()
        if isinstance(node, ast.If) and (is_typing_only(node) or is_main(node)):
            queue += node.orelse
            continue
        yield node
        if not isinstance(node, SCOPES):
            queue += ast.iter_child_nodes(node)
