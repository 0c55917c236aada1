"""Finds the classes of whose bases it cannot be told what they are, so that they may stand for another one's members.

Such a base is what a call makes, or what a variable, a parameter or an attribute holds.
"""

from collections.abc import Collection

from khepri.edits.locate import Target
from khepri.edits.python.class_relations import Class, Classes, Relative
from khepri.edits.rename.rename_notes import shown


def notes_on_unfollowed(classes: Classes, target: Target, others: Collection[Relative]) -> tuple[str, ...]:
    """Return a note on the classes that keep a member of that name, and of whose bases it cannot be told what they are.

    Args:
        classes: Where, before the change.
        target: The member that is changed; anything else passes.
        others: The members that are changed with it.
    """
    if not target.is_member:
        return ()
    own = Class(target.source.path, target.symbol.rpartition(".")[0])
    changed = classes.sharing_members(own, others) | {own}
    found = [
        f"{each.path} {each.symbol} ({', '.join(bases)})"
        for each in sorted({*classes.naming(target.name.encode())} - changed, key=lambda each: (each.path, each.symbol))
        if classes.member(each, target.name) is not None and (bases := classes.unfollowed(each))
    ]
    if not found:
        return ()
    has, inherits = ("has", "it inherits") if len(found) == 1 else ("have", "one of them inherits")
    return (
        f"{shown(found)} {has} {target.name} too, which was left: change it there as well if what {inherits}, "
        f"which cannot be followed, is {own.symbol}",
    )
