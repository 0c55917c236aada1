"""Makes a function that was extracted asynchronous if what it is made of waits: the library makes a plain one."""

import ast

from khepri.edits.change import FileChange
from khepri.edits.exact import replace_text
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.repo.text import decode


def with_waiting(change: FileChange, name: str) -> FileChange:
    """Return a change with its new function asynchronous, and its call waited for, if code in it waits.

    Args:
        change: A Python file from which a function was extracted.
        name: What the function is called.
    """
    if change.after is None:
        return change
    text = decode(change.after).text
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return change
    rows = {hunk.new_start + row for hunk in change.hunks for row in range(len(hunk.new_lines))}
    new = [node for node in all_nodes(tree) if isinstance(node, ast.FunctionDef | ast.Call) and node.lineno in rows]
    functions = [node for node in new if isinstance(node, ast.FunctionDef) and node.name == name and _waits(node)]
    if not functions:
        return change
    calls = [node.func for node in new if isinstance(node, ast.Call) and _is_called(node.func, name)]
    lines = text.split("\n")
    places = [(node.lineno, node.col_offset, "async ") for node in functions]
    places += [(node.lineno, node.col_offset, "await ") for node in calls]
    for line, column, word in sorted(places, reverse=True):
        row = lines[line - 1].encode()  # the columns of ast are bytes of UTF-8
        lines[line - 1] = (row[:column] + word.encode() + row[column:]).decode()
    return FileChange(change.path, change.before, replace_text(change.after, "\n".join(lines), change.path))


def _is_called(function: ast.expr, name: str) -> bool:
    match function:
        case ast.Name(id=found) | ast.Attribute(attr=found):
            return found == name
    return False


def _waits(node: ast.AST) -> bool:
    """Return True if code waits, other than in functions of its own."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Await() | ast.AsyncFor() | ast.AsyncWith() | ast.comprehension(is_async=1):
                return True
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                continue
        if _waits(child):
            return True
    return False
