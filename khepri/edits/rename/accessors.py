"""Renames a property where its setter and deleter name it: ``@size.setter``, which rope leaves as it was."""

import ast
import re
from typing import Final

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.repo.text import decode

_ACCESSORS: Final = frozenset({"getter", "setter", "deleter"})
_BEFORE: Final = re.compile(r"^[ \t]*@[ \t]*\Z", re.MULTILINE)
_BEHIND: Final = re.compile(rf"[ \t]*\.[ \t]*(?:{'|'.join(sorted(_ACCESSORS))})\b")


def with_accessors(changes: ChangeSet, old: str, new: str) -> ChangeSet:
    """Return a rename with the accessors of a property that it renamed."""
    files = []
    for change in changes.files:
        after = change.after
        if after is not None and change.path.endswith(".py"):
            text = decode(after).text
            renamed = rename_accessors(text, old, new)
            if renamed != text:
                after = replace_text(after, renamed, change.path)
        files.append(FileChange(change.path, change.before, after))
    return change_set(changes.title, files)


def is_accessor(text: str, start: int, end: int) -> bool:
    """Return True if the name at a place makes a method a property's accessor: it means the property of its class."""
    line_start = text.rfind("\n", 0, start) + 1
    return _BEFORE.match(text[line_start:start]) is not None and _BEHIND.match(text, end) is not None


def rename_accessors(text: str, old: str, new: str) -> str:
    """Return a Python text in which methods called ``new`` are no longer made from a property ``old``."""
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError):
        return text
    lines = text.split("\n")
    for node in all_nodes(tree):
        if not (isinstance(node, ast.FunctionDef) and node.name == new):
            continue
        for decorator in node.decorator_list:
            match decorator:
                case ast.Attribute(value=ast.Name(id=name) as place, attr=accessor) if (
                    name == old and accessor in _ACCESSORS
                ):
                    line = lines[place.lineno - 1]
                    # Nothing but spaces and an @ stands before it, so bytes and characters are counted alike.
                    lines[place.lineno - 1] = line[: place.col_offset] + new + line[place.end_col_offset :]
    return "\n".join(lines)
