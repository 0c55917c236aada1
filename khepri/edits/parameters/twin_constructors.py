"""Finds the other constructor of a class: ``__new__`` and ``__init__`` are both given what a call of it passes."""

import ast
from typing import Final

from khepri.edits.locate import Target
from khepri.edits.python.class_relations import Class, Classes
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace

_TWINS: Final = {"__new__": "__init__", "__init__": "__new__"}


def refuse_twin(workspace: Workspace, target: Target, name: str) -> None:
    """Refuse to change a parameter of a constructor that the other one of the class takes as well.

    Raises:
        EditRefusedError: It does.
    """
    twin = _TWINS.get(target.name)
    if twin is None or not target.is_member:
        return
    classes = Classes(workspace)
    owner = Class(target.source.path, target.symbol.rpartition(".")[0])
    for each in sorted(classes.above(owner) | classes.below(owner), key=lambda one: (one.path, one.symbol)):
        node = classes.node(each)
        for method in node.body if node is not None else ():
            if isinstance(method, ast.FunctionDef) and method.name == twin and name in _parameters(method):
                raise EditRefusedError(
                    Refusal.NOT_POSSIBLE,
                    f"{name} of {target.label} has to stay: {each.symbol}.{twin} at {each.path}:{method.lineno} takes "
                    "it too, and gets what the same calls pass",
                    "change both by hand",
                )


def _parameters(method: ast.FunctionDef) -> set[str]:
    return {each.arg for each in (*method.args.posonlyargs, *method.args.args, *method.args.kwonlyargs)}
