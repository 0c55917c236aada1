"""Lets every file that has a name from one module have it from another, where the name has moved.

Who imports the name itself imports it from there, in the same place: an import inside a function stays inside. Who
reaches it through its module gets an import of the new module beside that of the old one. Who has it by an import of
everything (``*``) gets an import of its own. The two modules themselves are not looked at.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.python.binding import stored_in
from khepri.edits.python.import_lines import ImportStatement, with_import
from khepri.edits.python.imports import Modules, defined_names, imports_in, parsed, passes_on
from khepri.edits.python.mentions import computes_public_names, public_names, uses_of, without_public_name
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.repo.text import decode, text_or_nothing

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True)
class Move:
    """A name that goes from one module to another."""

    name: str
    source: str
    """Dotted."""
    goal: str
    """Dotted."""


@dataclass(frozen=True)
class _Bound:
    """What a name stands for that an import binds."""

    meaning: str
    """Dotted."""
    statement: ImportStatement
    is_dotted: bool
    """True after ``import a.b``, which binds ``a``."""


_Scope = Mapping[str, _Bound | None]
"""The names of a scope; None for what is bound by anything but an import."""


@dataclass(frozen=True)
class _Edit:
    start: tuple[int, int]
    """Line, from 1, and column in bytes."""
    end: tuple[int, int]
    text: str


def redirect_imports(workspace: Workspace, changes: ChangeSet, name: str, old: str, new: str) -> ChangeSet:
    """Return a change in which every other file has a name from the module in the file ``new`` instead of ``old``.

    Args:
        workspace: Where.
        changes: What is proposed for both files.
        name: What has moved.
        old: Path of the file that it was in.
        new: Path of the file that it is in now.

    Raises:
        EditRefusedError: A module that has everything from there would not pass it on any more.
    """
    modules = Modules(workspace, changes)
    move = Move(name, modules.name(old), modules.name(new))
    known = {change.path: change for change in changes.files}
    files = dict(known)
    shared = public_names(decode(known[old].before or b"").text) if old in known else frozenset()
    is_passed_on = passes_on(known[old].after or b"", name) if old in known else False
    for path in workspace.files():
        data = workspace.read(path) if path.endswith(".py") and path not in (old, new) else None
        if data is None or not (name.encode() in data or b"import *" in data):
            continue
        text, package = text_or_nothing(data), modules.package(path)
        redirected = _redirected(text, package, move)
        if name in shared and computes_public_names(text) and _imports_all(text, package, move):
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"{path} makes its __all__ of that of {move.source}, in which {name} would be missing",
                f"name {name} in it by itself first",
            )
        if not is_passed_on and not name.startswith("_") and _has_by_star(text, package, move):
            redirected = with_import(redirected, f"from {move.goal} import {name}")
        if redirected != text:
            files[path] = FileChange(path, data, replace_text(data, redirected, path))
    return change_set(changes.title, list(files.values()))


def without_gone_name(changes: ChangeSet, path: str, name: str) -> ChangeSet:
    """Take a name that its module does not have any more out of the ``__all__`` there."""
    files = []
    for change in changes.files:
        after = change.after
        if after is not None and change.path == path:
            text = decode(after).text
            if name in public_names(text) and name not in defined_names(after):
                after = replace_text(after, without_public_name(text, name), path)
        files.append(FileChange(change.path, change.before, after))
    return change_set(changes.title, files)


def notes_on_public_name(changes: ChangeSet, move: Move, old: str, new: str) -> tuple[str, ...]:
    """Return a note on a name that its old module offers no more, though its ``__all__`` did.

    Args:
        changes: What is proposed.
        move: What has moved.
        old: Path of the file that it was in.
        new: Path of the file that it is in now.
    """
    files = {change.path: change for change in changes.files}
    before = decode(files[old].before or b"").text if old in files else ""
    if move.name not in public_names(before) or move.name in public_names(decode(files[old].after or b"").text):
        return ()
    offered = public_names(decode(files[new].after or b"").text) if new in files else frozenset()
    is_missing = bool(offered) and move.name not in offered
    added = f"; the __all__ of {new} does not name it: add it if it is to be public there" if is_missing else ""
    return (
        f"{move.name} was in the __all__ of {old}:{_public_line(before, move.name)} and is not in that module any "
        f"more: other projects have it from {move.goal} now{added}",
    )


def _public_line(text: str, name: str) -> int:
    """Return the line where a name stands in the ``__all__`` of a module."""
    listing = (node for node in tree_of(text).body if any(_is_public(each) for each in ast.walk(node)))
    lines = [
        each.lineno
        for node in listing
        for each in ast.walk(node)
        if isinstance(each, ast.Constant) and each.value == name
    ]
    return min(lines, default=1)


def _is_public(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id == "__all__"


def named_plainly(text: str, package: str, move: Move) -> str:
    """Return the text of the module to which a name goes, in which it is not reached through the old module."""
    tree = parsed(text.encode())
    if tree is None:
        return text
    return _edited(text, [_Edit(_start(use), _end(use), move.name) for use, _ in _uses(tree, package, move)])


def _has_by_star(text: str, package: str, move: Move) -> bool:
    """Tell if a module uses or passes on a name that it has by an import of everything."""
    if not _imports_all(text, package, move):
        return False
    return bool(uses_of(text, move.name)) or move.name in (public_names(text) or {move.name})


def _imports_all(text: str, package: str, move: Move) -> bool:
    tree = parsed(text.encode()) if "import *" in text else None
    return tree is not None and any(each.module == move.source for each in imports_in(tree, package, is_star=True))


def _redirected(text: str, package: str, move: Move) -> str:
    tree = parsed(text.encode())
    if tree is None:
        return text
    lines = text.split("\n")
    edits = []
    for node in all_nodes(tree):
        if isinstance(node, ast.ImportFrom) and any(each.name == move.name for each in node.names):
            if next(imports_in(ast.Module([node], []), package)).module == move.source:
                kept = [alias for alias in node.names if alias.name != move.name]
                gone = [alias for alias in node.names if alias.name == move.name]
                statements = [ast.unparse(ast.ImportFrom(node.module, kept, node.level))] if kept else []
                statements.append(ast.unparse(ast.ImportFrom(move.goal, gone, 0)))
                edits.append(_Edit(_start(node), _end(node), _between(node, lines).join(statements)))
    brought: dict[tuple[int, str], _Edit] = {}
    for use, bound in _uses(tree, package, move):
        statement, module = _reached(bound, move, tree)
        edits.append(_Edit(_start(use), _end(use), f"{module}.{move.name}"))
        end = _end(bound.statement)
        is_there = any(ast.unparse(node) == statement for node in tree.body)
        if not is_there:
            brought[end[0], statement] = _Edit(end, end, _between(bound.statement, lines) + statement)
    return _edited(text, [*edits, *brought.values()])


def _reached(bound: _Bound, move: Move, tree: ast.Module) -> tuple[str, str]:
    """Return the import by which a file reaches the new module, and what it calls it then."""
    if bound.is_dotted:
        return f"import {move.goal}", move.goal
    package, _, last = move.goal.rpartition(".")
    taken = {node.id for node in all_nodes(tree) if isinstance(node, ast.Name)}
    taken |= {node.arg for node in all_nodes(tree) if isinstance(node, ast.arg)} | stored_in(list(all_nodes(tree)))
    alias = last
    while alias in taken:
        alias += "_module"
    renamed = f" as {alias}" if alias != last else ""
    return (f"from {package} import {last}{renamed}" if package else f"import {last}{renamed}"), alias


def _uses(tree: ast.Module, package: str, move: Move) -> Iterator[tuple[ast.Attribute, _Bound]]:
    """Yield where the old module is asked for the name, with the import by which it is known there."""
    queue: list[tuple[ast.AST, list[_Scope]]] = [(tree, [_scope(tree, package)])]
    while queue:
        node, scopes = queue.pop()
        if isinstance(node, ast.Attribute) and node.attr == move.name:
            root, _, rest = ast.unparse(node.value).partition(".")
            bound = next((scope[root] for scope in reversed(scopes) if root in scope), None)
            if bound is not None and f"{bound.meaning}.{rest}".rstrip(".") == move.source:
                yield node, bound
        inner = scopes
        if isinstance(node, (*_FUNCTIONS, *_COMPREHENSIONS, ast.ClassDef)):
            inner = [*scopes, _scope(node, package)]
        body = set(node.body) if isinstance(node, ast.ClassDef) else set()
        for child in ast.iter_child_nodes(node):
            # Functions do not see the names of the class around them.
            hidden = isinstance(child, _FUNCTIONS) and child in body
            queue.append((child, scopes if hidden else inner))


def _scope(node: ast.AST, package: str) -> _Scope:
    """Return what a scope binds itself."""
    names: dict[str, _Bound | None] = {}
    if isinstance(node, _FUNCTIONS):
        names |= {each.arg: None for each in ast.walk(node.args) if isinstance(each, ast.arg)}
    body: Sequence[ast.AST] = (
        node.body
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        else [*ast.iter_child_nodes(node)]
    )
    names |= dict.fromkeys(stored_in(body))
    queue = list(body)
    while queue:
        child = queue.pop()
        if isinstance(child, ImportStatement):
            names |= {name: bound for name, bound in _imported(child, package)}
        elif not isinstance(child, (*_FUNCTIONS, ast.ClassDef)):
            queue += ast.iter_child_nodes(child)
    return names


def _imported(node: ImportStatement, package: str) -> Iterator[tuple[str, _Bound]]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            root = alias.name.partition(".")[0]
            is_dotted = alias.asname is None
            yield alias.asname or root, _Bound(root if is_dotted else alias.name, node, is_dotted)
    else:
        for each in imports_in(ast.Module([node], []), package):
            alias = next(alias for alias in node.names if alias.name == each.name)
            yield alias.asname or alias.name, _Bound(f"{each.module}.{each.name}", node, is_dotted=False)


def _between(node: ast.stmt, lines: list[str]) -> str:
    """Return what parts a statement from one that is put behind it."""
    before = lines[node.lineno - 1].encode()[: node.col_offset].decode()
    line, column = _end(node)
    after = lines[line - 1].encode()[column:].decode()
    return f"\n{before}" if not before.strip() and not after.strip().startswith(";") else "; "


def _edited(text: str, edits: list[_Edit]) -> str:
    lines = [line.encode() for line in text.split("\n")]
    for edit in sorted(edits, key=lambda each: each.start, reverse=True):
        (first, start), (last, end) = edit.start, edit.end
        changed = lines[first - 1][:start] + edit.text.encode() + lines[last - 1][end:]
        lines[first - 1 : last] = changed.split(b"\n")
    return b"\n".join(lines).decode()


def _start(node: ast.stmt | ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.stmt | ast.expr) -> tuple[int, int]:
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return node.end_lineno, node.end_col_offset
