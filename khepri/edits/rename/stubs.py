"""Renames a definition in the stubs (``.pyi``) that describe it to type checkers, beside its module and elsewhere.

Stubs are not run, and a refactoring library does not read them; one that keeps the old name describes what is gone.
"""

import ast
import re

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.locate import Target
from khepri.edits.python.class_bodies import replace_names
from khepri.edits.python.imports import Modules, bindings_of
from khepri.edits.python.mentions import rename_mentions
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.workspace import Workspace
from khepri.repo.text import text_or_nothing

_SUFFIX = ".pyi"


def with_stubs(workspace: Workspace, changes: ChangeSet, target: Target, new: str) -> ChangeSet:
    """Return a rename of a definition with the stubs that name it."""
    modules = Modules(workspace)
    home, files = modules.name(target.source.path), {change.path: change for change in changes.files}
    for path in workspace.files():
        data = workspace.read(path) if path.endswith(_SUFFIX) else None
        if data is None or target.name.encode() not in data:
            continue
        text = text_or_nothing(data)
        is_beside = path == target.source.path.removesuffix(".py") + _SUFFIX
        renamed = _renamed(
            text, modules.package(f"{path.removesuffix(_SUFFIX)}.py"), home, target, new, is_beside=is_beside
        )
        if renamed != text:
            files[path] = FileChange(path, data, replace_text(data, renamed, path))
    return change_set(changes.title, files.values())


def _renamed(text: str, package: str, home: str, target: Target, new: str, *, is_beside: bool) -> str:
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return text
    old = target.name
    if "." in target.symbol:
        return replace_names(text, _members(tree, target.symbol, text), new) if is_beside else text
    is_imported = bindings_of(tree, package).get(old) == f"{home}.{old}"
    places = []
    for node in all_nodes(tree):
        if isinstance(node, ast.Name) and node.id == old and (is_beside or is_imported):
            places.append(node)
        elif isinstance(node, ast.alias) and node.name == old and is_imported:
            places.append(_place(node.lineno, node.col_offset, old))
        elif isinstance(node, ast.Attribute) and ast.unparse(node) == f"{home}.{old}":
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            places.append(_place(node.end_lineno, node.end_col_offset - len(old.encode()), old))
    if is_beside:
        places += _members(tree, old, text)
    renamed = replace_names(text, places, new)
    modules = frozenset({home})
    return rename_mentions(renamed, old, new, modules=modules, is_bound=is_beside or is_imported)


def _members(tree: ast.Module, symbol: str, text: str) -> list[ast.Name]:
    """Return the places of the name of a definition, overloads included."""
    *around, name = symbol.split(".")
    bodies: list[list[ast.stmt]] = [tree.body]
    for each in around:
        bodies = [
            node.body for body in bodies for node in _flat(body) if isinstance(node, ast.ClassDef) and node.name == each
        ]
    lines = text.split("\n")
    places = []
    for node in (node for body in bodies for node in _flat(body)):
        match node:
            case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found) | ast.ClassDef(name=found) if (
                found == name
            ):
                line = lines[node.lineno - 1]
                said = re.compile(rf"(?:def|class)\s+({re.escape(name)})\b").search(line, node.col_offset)
                if said is not None:
                    places.append(_place(node.lineno, len(line[: said.start(1)].encode()), name))
            case ast.AnnAssign(target=ast.Name(id=found) as bound) if found == name and around:
                places.append(bound)
            case ast.Assign(targets=[ast.Name(id=found) as bound]) if found == name and around:
                places.append(bound)
            case _:
                pass
    return places


def _flat(body: list[ast.stmt]) -> list[ast.stmt]:
    """Return statements with those of their conditions, such as ``if sys.version_info >= (3, 12)``."""
    found = []
    for node in body:
        found += [node, *_flat(node.body), *_flat(node.orelse)] if isinstance(node, ast.If) else [node]
    return found


def _place(line: int, start: int, name: str) -> ast.Name:
    return ast.Name(name, lineno=line, col_offset=start, end_lineno=line, end_col_offset=start + len(name.encode()))
