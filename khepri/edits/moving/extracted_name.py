"""Whether a function that is made of some lines may have its name: where it stands, nothing else is called so."""

import ast
import re

from khepri.edits.change import FileChange
from khepri.edits.moving.extracted import Made, made_of
from khepri.edits.python.class_bodies import replace_names
from khepri.edits.python.class_relations import Class, Classes
from khepri.edits.python.outside_bases import check_outside_new
from khepri.edits.python.overriding import refuse_override
from khepri.edits.python.scopes import clash, names_of
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.repo.text import decode


def check_extracted_name(workspace: Workspace, change: FileChange, name: str) -> tuple[str, ...]:
    """Make sure that the name of an extracted function means it and nothing else, and overrides nothing.

    Args:
        workspace: Where, as it was before.
        change: What the extraction makes of the file.
        name: What the new function is called.

    Returns:
        A note on base classes of which nobody can tell.

    Raises:
        EditRefusedError: It means something else as well.
    """
    made = made_of(change, name)
    if made is None or change.after is None:
        return ()
    _refuse_other_meaning(change, made, decode(change.after).text)
    if not made.is_member:
        return ()
    owner, classes = Class(change.path, ".".join(made.owner)), Classes(workspace)
    if (found := classes.member(owner, name)) is not None:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{change.path} defines {found.symbol} already, at line {found.line}",
            "choose another name",
        )
    refuse_override(classes, owner, name)
    return check_outside_new(classes, owner, name)


def _refuse_other_meaning(change: FileChange, made: Made, text: str) -> None:
    """Refuse a name that stands for something else where the function can be seen, or where it is called."""
    name = made.function.name
    unlike = name
    while unlike in text:
        unlike += "x"
    before = names_of(replace_names(text, [_name_in_head(made, text), _name_in_call(made)], unlike))
    after = names_of(text)
    found = clash(before, after, unlike, name) if before is not None and after is not None else None
    if found is not None:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"the new function cannot be called {name}: {name} stands for something else at "
            f"{change.path}:{_line_before(change, found.line)}",
            "choose another name",
        )


def _name_in_head(made: Made, text: str) -> ast.Name:
    row = text.split("\n")[made.function.lineno - 1].encode()
    start = re.compile(rb"(?:async\s+)?def\s+").match(row, made.function.col_offset)
    assert start is not None
    return _name_at(made.function.name, made.function.lineno, start.end())


def _name_in_call(made: Made) -> ast.Name:
    called, name = made.call.func, made.function.name
    assert called.end_lineno is not None
    assert called.end_col_offset is not None
    return _name_at(name, called.end_lineno, called.end_col_offset - len(name.encode()))


def _name_at(name: str, line: int, column: int) -> ast.Name:
    end = column + len(name.encode())
    return ast.Name(name, lineno=line, col_offset=column, end_lineno=line, end_col_offset=end)


def _line_before(change: FileChange, line: int) -> int:
    """Return where a line of the file as it will be stands in the file as it is."""
    moved = 0
    for hunk in change.hunks:
        if hunk.new_start + len(hunk.new_lines) <= line:
            moved += len(hunk.old_lines) - len(hunk.new_lines)
        elif hunk.new_start <= line:
            # Lines that were kept may seem to be new where those beside them went.
            row = hunk.new_lines[line - hunk.new_start]
            rows = (change.before or b"").splitlines(keepends=True)
            return rows.index(row, hunk.old_start - 1) + 1 if row in rows[hunk.old_start - 1 :] else hunk.old_start
    return line + moved
