"""Finds the arguments in the heads of classes, ``class A(Base, tag=1)``: parameters that no call shows.

They go to ``__init_subclass__`` of the base classes, and to the metaclass.
"""

import ast

from khepri.edits.locate import Target
from khepri.edits.python.class_relations import Class, Classes
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace


def refuse_class_keyword(workspace: Workspace, target: Target, name: str) -> None:
    """Refuse to change a parameter that the head of a class passes.

    Raises:
        EditRefusedError: One does.
    """
    owner = target.symbol.rpartition(".")[0]
    if not owner or target.name not in ("__init_subclass__", "__new__", "__init__", "__prepare__"):
        return
    classes = Classes(workspace)
    below = classes.below(Class(target.source.path, owner))
    if target.name != "__init_subclass__":
        made = {each for each in classes.naming(b"metaclass") if _metaclass(classes, each) in below}
        below = {each for one in made for each in classes.below(one)}
    for each in sorted(below, key=lambda one: (one.path, one.symbol)):
        node = classes.node(each)
        if node is not None and any(keyword.arg == name for keyword in node.keywords):
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"{name} of {target.label} has to stay: class {each.symbol} at {each.path}:{node.lineno} passes it",
                "change that first",
            )


def _metaclass(classes: Classes, one: Class) -> Class | None:
    node = classes.node(one)
    named = [each.value for each in node.keywords if each.arg == "metaclass"] if node is not None else []
    return classes.meant(one.path, ast.unparse(named[0])) if named else None
