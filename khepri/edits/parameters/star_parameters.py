"""Renames ``*args`` and ``**kwargs``, which no call names: what changes stands in the function alone."""

import ast

from khepri.edits.change import ChangeSet, change_set
from khepri.edits.python.signature import Definition, Edit, edited
from khepri.edits.refusal import EditRefusedError, Refusal


def is_starred(definition: Definition, name: str) -> bool:
    """Tell if a function takes any number of arguments by a name."""
    arguments = definition.node.args
    return any(each is not None and each.arg == name for each in (arguments.vararg, arguments.kwarg))


def rename_starred(definition: Definition, old: str, new: str, title: str) -> ChangeSet:
    """Return the change by which what takes any number of arguments is called otherwise.

    Raises:
        EditRefusedError: Something inside the function is called so as well, or like the new name.
    """
    node, label = definition.node, definition.target.label
    inner = [each for each in ast.walk(node) if isinstance(each, ast.arg) and each.arg in (old, new)]
    if len(inner) > 1 or definition.uses(new):
        taken = new if definition.uses(new) or any(each.arg == new for each in inner) else old
        raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{label} uses another {taken}", "choose another name")
    used = [each for part in node.body for each in ast.walk(part) if isinstance(each, ast.Name) and each.id == old]
    places = [definition.span(each)[0] for each in used] + [definition.start(each) for each in inner]
    if any(not definition.text.startswith(old, place) for place in places):
        raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{label} uses {old} in a text", "rename it by hand")
    edits = [Edit(place, place + len(old), new) for place in sorted(places)]
    return change_set(title, [edited(definition.target.source, edits)])
