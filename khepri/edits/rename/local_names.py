"""Renames a variable of a function, which nothing outside of the function can mean."""

import ast
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from khepri.edits.change import ChangeSet
from khepri.edits.locate import Source, Target
from khepri.edits.python.offsets import Offsets
from khepri.edits.python.rope_project import RopeProject
from khepri.edits.python.trees import tree_of
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace

if TYPE_CHECKING:
    from rope.base.change import ChangeSet as RopeChanges

_Function = ast.FunctionDef | ast.AsyncFunctionDef
_SCOPES: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_READING: Final = ("locals", "vars", "eval", "exec")


def find_local(source: Source, symbol: str) -> Target | None:
    """Return the first place that binds a variable of a function, by ``function.name``; None for none.

    A parameter is none, and neither is what a function declares to be of another scope.

    Raises:
        EditRefusedError: Several functions of that name have one.
    """
    owner, _, name = symbol.rpartition(".")
    found = [each for each in _functions(source, owner) if _binding(each, name) is not None]
    if len(found) > 1:
        lines = ", ".join(str(each.lineno) for each in found)
        raise EditRefusedError(
            Refusal.AMBIGUOUS,
            f"{source.path} has more than one {owner} with a variable {name}, at lines {lines}",
            "name what it lies in as well, as in Class.method.name",
        )
    if not found:
        return None
    place = _binding(found[0], name)
    assert place is not None
    offset = Offsets(source.text).start(place)
    return Target(source, symbol, name, "variable", place.lineno, place.end_lineno or place.lineno, offset)


def local_change(workspace: Workspace, target: Target, new_name: str) -> ChangeSet:
    """Return the change by which a variable of a function has another name; not looked at for soundness.

    Raises:
        EditRefusedError: rope refuses.
    """
    project = RopeProject(workspace, hides_async=True)

    def run() -> "RopeChanges":
        from rope.refactor.rename import Rename

        from khepri.edits.rename.rope_rename import rename_found

        file = project.file(target.source.path)
        refactoring = Rename(project.project, file, project.offset(target))
        return rename_found(
            refactoring, new_name, [file], in_hierarchy=False, is_field=False, unsure=None, left=lambda _: None
        )

    return project.change_of(f"rename {target.name} to {new_name}", run)


def notes_on_local(target: Target) -> tuple[str, ...]:
    """Return notes on what the function of a variable calls that may read it by its name."""
    owner = target.symbol.rpartition(".")[0]
    calls = (each for function in _functions(target.source, owner) for each in ast.walk(function))
    return tuple(
        f"{target.source.path}:{each.lineno} calls {each.func.id}(), which may mean {target.name} by its name"
        for each in calls
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id in _READING
    )


def _functions(source: Source, owner: str) -> list[_Function]:
    """Return the functions of a file that have a name, or one that ends in it."""
    try:
        tree = tree_of(source.text)
    except (SyntaxError, ValueError, RecursionError):
        return []
    named = [*_named(tree, "")]
    exact = [node for name, node in named if name == owner]
    return exact or [node for name, node in named if owner and name.endswith(f".{owner}")]


def _named(node: ast.AST, around: str) -> Iterator[tuple[str, _Function]]:
    for child in ast.iter_child_nodes(node):
        name = around
        if isinstance(child, _Function | ast.ClassDef):
            name = f"{around}.{child.name}" if around else child.name
            if isinstance(child, _Function):
                yield name, child
        yield from _named(child, name)


def _binding(function: _Function, name: str) -> ast.Name | None:
    """Return the first place where a function itself binds a variable; None for one of another scope."""
    arguments = function.args
    given = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg)
    if any(each is not None and each.arg == name for each in given):
        return None
    found: list[ast.Name] = []
    queue: list[ast.AST] = [*function.body]
    while queue:
        node = queue.pop()
        if isinstance(node, ast.Global | ast.Nonlocal) and name in node.names:
            return None
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name:
            found.append(node)
        if not isinstance(node, (*_SCOPES, *_COMPREHENSIONS)):
            queue.extend(ast.iter_child_nodes(node))
    return min(found, key=lambda each: (each.lineno, each.col_offset), default=None)
