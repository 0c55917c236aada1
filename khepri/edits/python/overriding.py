"""Whether a member may have a name: one that another class of the same objects has would override it without a word."""

from collections.abc import Collection

from khepri.edits.locate import Target
from khepri.edits.python.class_relations import Class, Classes, Relative
from khepri.edits.python.private_names import is_private
from khepri.edits.refusal import EditRefusedError, Refusal


def check_no_override(classes: Classes, target: Target, new: str, others: Collection[Relative] = ()) -> None:
    """Make sure that no other class of the objects that have a member has one of its new name.

    Args:
        classes: Where.
        target: The member; anything else passes.
        new: What it would be called.
        others: The members that are renamed with it.

    Raises:
        EditRefusedError: One has.
    """
    if target.is_member:
        refuse_override(classes, Class(target.source.path, target.symbol.rpartition(".")[0]), new, others)


def refuse_override(classes: Classes, owner: Class, new: str, others: Collection[Relative] = ()) -> None:
    """Refuse a new member of a class that another class of the same objects has.

    Raises:
        EditRefusedError: One has.
    """
    if is_private(new):
        return
    shared = classes.sharing_members(owner, others) - {owner}
    for each in sorted(shared, key=lambda each: (each.path, each.symbol)):
        if (found := classes.member(each, new)) is not None:
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"{owner.symbol} cannot have another {new}: objects of it can have {found.symbol} "
                f"({found.path}:{found.line}), and one would override the other",
                "choose another name, or rename that one first",
            )
