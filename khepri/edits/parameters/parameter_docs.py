"""Renames a parameter where the docstring of its function describes it: Google, NumPy and Sphinx style, and quoted.

Prose that only has the word is left: ``data`` is one. Works on text alone.
"""

import ast
import re

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.python.leftovers import leftovers
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.repo.text import decode


def with_described(changes: ChangeSet, old: str, new: str) -> tuple[ChangeSet, tuple[str, ...]]:
    """Return the rename of a parameter with the docstrings of the functions that have it, and where it still stands.

    Args:
        changes: The rename; a function that has the new name in a changed line is one of those that had the old one.
        old: The parameter as it was.
        new: The parameter as it is.
    """
    files, left = [], []
    for change in changes.files:
        after = change.after
        if after is not None and change.path.endswith(".py"):
            rows = {hunk.new_start + row for hunk in change.hunks for row in range(len(hunk.new_lines))}
            text, lines = _described(decode(after).text, rows, old, new)
            after = replace_text(after, text, change.path)
            left += [f"{change.path}:{line}" for line in lines]
        files.append(FileChange(change.path, change.before, after))
    return change_set(changes.title, files), tuple(left)


def _described(text: str, rows: set[int], old: str, new: str) -> tuple[str, list[int]]:
    pattern = _pattern(old)
    lines = text.split("\n")
    left: set[int] = set()
    passed = re.compile(rf"(?<=[(,\s]){re.escape(old)}(?=\s*=(?!=))")
    tree = tree_of(text)
    owners = {id(each): node.name for node in all_nodes(tree) if isinstance(node, ast.ClassDef) for each in node.body}
    for node in all_nodes(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        named = [each for each in ast.walk(node.args) if isinstance(each, ast.arg) and each.arg == new]
        if not any(each.lineno in rows for each in named):
            continue
        called = owners.get(id(node), "") if node.name in ("__init__", "__new__") else node.name
        run = re.compile(rf"\s*>>> .*\b{re.escape(called)}\(")
        lines = [passed.sub(new, line) if called and run.match(line) else line for line in lines]
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            start, end = first.lineno - 1, first.end_lineno or first.lineno
            lines[start:end] = pattern.sub(rf"\g<1>{new}", "\n".join(lines[start:end])).split("\n")
        inside = range(node.lineno, (node.end_lineno or node.lineno) + 1)
        left |= {each.line for each in leftovers("\n".join(lines), old) if each.is_prose and each.line in inside}
    return "\n".join(lines), sorted(left)


def _pattern(name: str) -> re.Pattern[str]:
    """Return what a docstring says of a parameter and nothing else, with what stands before the name as a group."""
    if "_" in name.strip("_") or name != name.lower():
        return re.compile(rf"((?<!\w)){re.escape(name)}(?!\w)")
    before = r"^[ \t]*|`|:(?:param|type|arg|keyword)[ \t]+(?:[\w.\[\]]+[ \t]+)?"
    return re.compile(rf"({before}){re.escape(name)}(?=`|[ \t]*(?:\([^)\n]*\))?[ \t]*:)", re.MULTILINE)
