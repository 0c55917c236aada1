"""Puts brackets around what a function returns, where that would fall apart in the place of a call.

The library copies text: what ``x + 1`` makes of ``2 * f(x)`` is ``2 * x + 1``. With the brackets in the function
beforehand, which change nothing there, what it copies holds together.
"""

import ast
from collections.abc import Iterable

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.locate import Source
from khepri.edits.workspace import Workspace


def with_brackets(workspace: Workspace, source: Source, results: Iterable[ast.expr]) -> Workspace:
    """Return a workspace in which some expressions of a file have brackets.

    Args:
        workspace: Where.
        source: The file.
        results: Nodes of its tree.
    """
    lines = [line.encode() for line in source.text.split("\n")]
    places = [(each.lineno, each.col_offset, b"(") for each in results]
    places += [(each.end_lineno or 0, each.end_col_offset or 0, b")") for each in results]
    for line, column, mark in sorted(places, reverse=True):
        lines[line - 1] = lines[line - 1][:column] + mark + lines[line - 1][column:]
    forked = workspace.fork()
    after = replace_text(source.data, b"\n".join(lines).decode(), source.path)
    forked.take(change_set("", [FileChange(source.path, source.data, after)]))
    return forked


def without_brackets_before(workspace: Workspace, changes: ChangeSet) -> ChangeSet:
    """Return a change that was made on a workspace with brackets as one of the files without them."""
    files = [FileChange(each.path, workspace.read(each.path), each.after, each.mode) for each in changes.files]
    return change_set(changes.title, files)
