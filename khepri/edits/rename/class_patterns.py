"""Renames an attribute in what names it beside its uses: class patterns, ``__slots__`` and ``__match_args__``."""

import ast
import re
from collections.abc import Collection, Iterator
from typing import Final

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.locate import Target, find_target
from khepri.edits.python.class_bodies import replace_names
from khepri.edits.python.class_relations import Class, Classes
from khepri.edits.python.inline_calls import end_of
from khepri.edits.python.namesakes import Namesakes
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.refusal import EditRefusedError
from khepri.edits.workspace import Workspace
from khepri.repo.text import text_or_nothing

_LISTS: Final = ("__slots__", "__match_args__")


def with_class_patterns(workspace: Workspace, changes: ChangeSet, target: Target, new: str) -> ChangeSet:
    """Return the rename of an attribute with the patterns of its class, and the lists of names in it.

    Args:
        workspace: Where.
        changes: The rename so far.
        target: The attribute as it was.
        new: What it is called now.
    """
    try:
        owner = find_target(target.source, target.symbol.rpartition(".")[0])
    except EditRefusedError:
        return changes
    files = {change.path: change for change in changes.files}
    after = {change.path: change.after for change in changes.files}
    one = Class(target.source.path, owner.symbol)
    below = {each.name for each in Classes(workspace).below(one)} - {owner.name}
    meant = Namesakes(workspace, owner, after)
    for path in workspace.files():
        change = files.get(path)
        before = change.before if change is not None else workspace.read(path) if path.endswith(".py") else None
        data = change.after if change is not None else before
        if data is None or not path.endswith(".py") or target.name.encode() not in data:
            continue
        text = text_or_nothing(data)
        try:
            tree = tree_of(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        places = [
            place
            for pattern, place in _keywords(tree, text, target.name)
            if end_of(pattern.cls) in meant.places(path) or ast.unparse(pattern.cls).rpartition(".")[2] in below
        ]
        names = {*below, owner.name} if path == target.source.path else below
        places += _listed(tree, text, names, target.name)
        if places:
            files[path] = FileChange(path, before, replace_text(data, replace_names(text, places, new), path))
    return change_set(changes.title, files.values())


def is_pattern_keyword(text: str, place: int, name: str) -> bool:
    """Return True if a name at a place of a Python text says which attribute a class pattern looks at."""
    if not re.match(r"\s*=(?!=)", text[place + len(name) :]) or "case" not in text:
        return False
    start = text.rfind("\n", 0, place) + 1
    where = text.count("\n", 0, place) + 1, len(text[start:place].encode())
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return any((each.lineno, each.col_offset) == where for _, each in _keywords(tree, text, name))


def _keywords(tree: ast.Module, text: str, name: str) -> Iterator[tuple[ast.MatchClass, ast.Name]]:
    """Yield the class patterns that look at an attribute, each with the place of its name."""
    lines = text.split("\n")
    for node in all_nodes(tree):
        if not isinstance(node, ast.MatchClass):
            continue
        for attribute, pattern in zip(node.kwd_attrs, node.kwd_patterns, strict=True):
            if attribute == name:
                row = lines[pattern.lineno - 1].encode()[: pattern.col_offset].decode()
                found = re.search(rf"\b({re.escape(name)})\s*=[\s(]*\Z", row)
                if found is not None:
                    yield node, _place(name, pattern.lineno, len(row[: found.start(1)].encode()))


def _listed(tree: ast.Module, text: str, classes: Collection[str], name: str) -> list[ast.Name]:
    """Return where lists of names in some classes hold an attribute."""
    lines = text.split("\n")
    found = []
    for node in all_nodes(tree):
        if not isinstance(node, ast.ClassDef) or node.name not in classes:
            continue
        for statement in node.body:
            targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
            value = getattr(statement, "value", None)
            if value is None or not any(isinstance(each, ast.Name) and each.id in _LISTS for each in targets):
                continue
            for each in ast.walk(value):
                if isinstance(each, ast.Constant) and each.value == name:
                    row = lines[each.lineno - 1].encode()
                    if row[each.col_offset + 1 :].startswith(name.encode()):
                        found.append(_place(name, each.lineno, each.col_offset + 1))
    return found


def _place(name: str, line: int, column: int) -> ast.Name:
    return ast.Name(name, lineno=line, col_offset=column, end_lineno=line, end_col_offset=column + len(name.encode()))
