"""Follows a parameter into the methods of its family that take it among ``**`` and look for it there by a text."""

from collections.abc import Iterator

from khepri.edits.change import ChangeSet, change_set
from khepri.edits.locate import Target, find_python
from khepri.edits.python.families import family_of
from khepri.edits.python.overloads import definitions_of_one
from khepri.edits.python.signature import Definition, Edit, edited
from khepri.edits.python.starred_keys import starred_keys
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace


def with_starred(changes: ChangeSet, workspace: Workspace, target: Target, old: str, new: str) -> ChangeSet:
    """Return the rename of a parameter with the texts by which others of its family look for it among ``**``.

    Args:
        changes: The rename so far.
        workspace: Where, with what is proposed; it is given the rest.
        target: The method, as it was.
        old: The parameter as it was.
        new: The parameter as it is.

    Raises:
        EditRefusedError: Such a text is not the name between two quotes.
    """
    for each in _lacking(workspace, target, new):
        edits = []
        for key in starred_keys(each.node, old):
            start, end = each.span(key)
            if each.text[start + 1 : end - 1] != old:
                _refuse(each, old, key.lineno, "rename it by hand")
            edits.append(Edit(start + 1, end - 1, new))
        if edits:
            one = change_set(changes.title, [edited(each.target.source, edits)])
            workspace.take(one)
            changes = changes.merged(one)
    return changes


def refuse_starred(workspace: Workspace, target: Target, name: str) -> None:
    """Refuse to remove a parameter that others of its family look for among ``**``.

    Raises:
        EditRefusedError: One does.
    """
    for each in _lacking(workspace, target, name):
        for key in starred_keys(each.node, name):
            _refuse(each, name, key.lineno, "rewrite the function without it first")


def _lacking(workspace: Workspace, target: Target, name: str) -> Iterator[Definition]:
    for member in family_of(workspace, target):
        # The overloads of a function have no bodies.
        first, *_ = definitions_of_one(find_python(workspace, member.path, member.symbol))
        if name not in first.parameter_names:
            yield first


def _refuse(definition: Definition, name: str, line: int, advice: str) -> None:
    raise EditRefusedError(
        Refusal.NOT_POSSIBLE, f"{definition.target.label} looks for {name} among its ** at line {line}", advice
    )
