"""Renames a pytest fixture where tests ask for it: by the name of a parameter, or in a string.

A fixture is known in its own file, in those that import it, and, from a ``conftest.py``, everywhere below its folder.
"""

import ast
import re
from collections.abc import Iterator

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.locate import Target
from khepri.edits.python.class_bodies import replace_names
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.repo.text import text_or_nothing

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_fixture(target: Target) -> bool:
    """Tell if a definition is a fixture that is known by the name of its function."""
    tree = _parse(target.source.text)
    return any(
        node.name == target.name and node.lineno <= target.end_line and makes_fixture(node, target.name)
        for node in (all_nodes(tree) if tree is not None else ())
        if isinstance(node, _Function) and node.lineno >= target.start_line
    )


def note_on_moved_fixture(target: Target, place: str) -> tuple[str, ...]:
    """Return a note on a fixture that moves to where pytest may not find it for those that ask for it."""
    folder, _, name = place.rpartition("/")
    is_above = name == "conftest.py" and target.source.path.startswith(f"{folder}/".lstrip("/"))
    if is_above or not is_fixture(target):
        return ()
    return (
        f"pytest finds fixtures in the file of a test and in each conftest.py above it: see that {target.name} is "
        f"found in {place}",
    )


def with_fixture_uses(workspace: Workspace, changes: ChangeSet, target: Target, new: str) -> ChangeSet:
    """Return a rename of a fixture with the tests and fixtures that ask for it.

    Raises:
        EditRefusedError: Another fixture has the name where this one is known, or a test uses the new one already.
    """
    old, home = target.name, target.source.path
    known = {change.path: change for change in changes.files}
    folder = f"{home.rpartition('/')[0]}/".lstrip("/") if home.rpartition("/")[2] == "conftest.py" else None
    files = dict(known)
    for path in workspace.files():
        is_below = path == home or path in known or (folder is not None and path.startswith(folder))
        change = known.get(path)
        data = change.after if change is not None else workspace.read(path)
        if not path.endswith(".py") or not is_below or data is None or old.encode() not in data:
            continue
        text = text_or_nothing(data)
        renamed = _with_uses(text, path, old, new)
        if renamed != text:
            before = change.before if change is not None else data
            files[path] = FileChange(path, before, replace_text(data, renamed, path))
    return change_set(changes.title, files.values())


def _with_uses(text: str, path: str, old: str, new: str) -> str:
    tree = _parse(text)
    if tree is None:
        return text
    places: list[ast.Name] = []
    for node in all_nodes(tree):
        if isinstance(node, _Function):
            if makes_fixture(node, old):
                raise EditRefusedError(
                    Refusal.AMBIGUOUS, f"{path}:{node.lineno} is another fixture called {old}", "rename that one first"
                )
            if (node.name.startswith("test") or makes_fixture(node)) and not _gives(node, old):
                places += _asked(node, path, old, new)
        elif isinstance(node, ast.Call) and _is_about_fixtures(node):
            places += [_inside(each) for each in ast.walk(node) if isinstance(each, ast.Constant) and each.value == old]
    return replace_names(text, places, new)


def _asked(function: _Function, path: str, old: str, new: str) -> Iterator[ast.Name]:
    """Yield the parameter of a function by which it asks for a fixture, and its uses."""
    parameters = [each for each in ast.walk(function.args) if isinstance(each, ast.arg)]
    if old not in [each.arg for each in parameters]:
        return
    names = [each for each in ast.walk(function) if isinstance(each, ast.Name)]
    if new in {*(each.arg for each in parameters), *(each.id for each in names)}:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{path}:{function.lineno} asks for {old} and uses another {new}",
            "choose another name",
        )
    for parameter in parameters:
        if parameter.arg == old:
            yield _place(parameter.lineno, parameter.col_offset, parameter.col_offset + len(old.encode()))
    yield from (each for each in names if each.id == old)


def makes_fixture(function: _Function, name: str = "") -> bool:
    """Tell if a function is a fixture, and if it is known by ``name``."""
    for decorator in function.decorator_list:
        call = decorator if isinstance(decorator, ast.Call) else None
        if re.fullmatch(r"(\w+\.)*fixture", ast.unparse(call.func if call is not None else decorator)):
            given = [each.value for each in call.keywords if each.arg == "name"] if call is not None else []
            known_as = given[0].value if given and isinstance(given[0], ast.Constant) else function.name
            return not name or known_as == name
    return False


def _gives(function: _Function, name: str) -> bool:
    """Tell if a test is given what it calls ``name`` by a table of cases, and not by a fixture."""
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func).endswith(".parametrize"):
            is_indirect = any(each.arg == "indirect" for each in decorator.keywords)
            if decorator.args and not is_indirect and re.search(rf"\b{name}\b", ast.unparse(decorator.args[0])):
                return True
    return False


def _is_about_fixtures(call: ast.Call) -> bool:
    called = ast.unparse(call.func).rpartition(".")[2]
    is_indirect = called == "parametrize" and any(each.arg == "indirect" for each in call.keywords)
    return called in ("usefixtures", "getfixturevalue") or is_indirect


def _inside(constant: ast.Constant) -> ast.Name:
    """Return the place of what stands in the quotes of a string."""
    assert constant.end_col_offset is not None
    return _place(constant.lineno, constant.col_offset + 1, constant.end_col_offset - 1)


def _place(line: int, start: int, end: int) -> ast.Name:
    return ast.Name("", lineno=line, col_offset=start, end_lineno=line, end_col_offset=end)


def _parse(text: str) -> ast.Module | None:
    try:
        return tree_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return None
