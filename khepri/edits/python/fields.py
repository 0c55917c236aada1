"""Tells which attributes of a class are arguments of the call that makes its objects, and where they are passed.

A constructor is made from the fields of a dataclass, a ``NamedTuple``, a model of pydantic and their like.
"""

import ast
import re
import sys
from collections.abc import Collection
from typing import Final

from khepri.edits.locate import Target
from khepri.edits.python.bare_names import bare_name, base_name
from khepri.edits.python.class_bodies import replace_names
from khepri.edits.python.class_relations import Class, Classes
from khepri.edits.python.inline_calls import end_of
from khepri.edits.python.passed_keys import passed_names
from khepri.edits.python.trees import all_nodes, tree_of

DECORATORS: Final = frozenset({"dataclass", "define", "frozen", "mutable", "attrs", "s", "attributes"})
"""What makes the constructor of a class of its fields."""
_DIRECT: Final = frozenset({"NamedTuple"})
"""Bases whose fields are those of the class itself alone."""
_BASES: Final = frozenset({"BaseModel", "SQLModel", "Struct", "TypedDict", "dataclass_transform"})
_MODELS: Final = frozenset({"DeclarativeBase", "Document", "Model"})
"""Bases whose fields need no annotation."""
_FIELD_MAKERS: Final = frozenset({"attrib", "field", "ib"})
CONSTRUCTORS: Final = ("__init__", "__new__")
_PARTIAL: Final = ("partial", "partialmethod")
_COPIED: Final = re.compile(r"\b(?:_?replace|evolve)\((?:[^()]|\([^()]*\))*\Z")


def is_argument(classes: Classes, target: Target) -> bool | None:
    """Tell if an attribute is an argument of its class; None if a base class from outside may make it one."""
    owner = Class(target.source.path, target.symbol.rpartition(".")[0])
    node = classes.node(owner) if target.is_member else None
    if node is None:
        return False
    is_annotated, is_assigned = _has_field(node.body, target.name)
    makers = [*node.decorator_list, *(each for each in node.bases if base_name(each) in _DIRECT)]
    if any(base_name(each) in DECORATORS | _DIRECT and not says_no(each, "init") for each in makers):
        return is_annotated and not _takes_it_itself(node.body, target.name)
    above = (found for each in classes.above(owner) if (found := classes.node(each)) is not None)
    if any(_takes_it_itself(each.body, target.name) for each in above):
        return False
    outside = classes.outside(owner)
    names = {dotted.rpartition(".")[2] for dotted in outside}
    if names & _MODELS or (names & _BASES and is_annotated):
        return is_annotated or is_assigned
    is_unknown = bool(classes.unfollowed(owner)) or any(
        dotted.partition(".")[0] not in sys.stdlib_module_names for dotted in outside
    )
    return None if is_unknown and (is_annotated or is_assigned) else False


def is_key(classes: Classes, target: Target) -> bool:
    """Tell if a field is a key of a dictionary, and no attribute: that of a ``TypedDict``."""
    owner = Class(target.source.path, target.symbol.rpartition(".")[0])
    return target.is_member and any(each.rpartition(".")[2] == "TypedDict" for each in classes.outside(owner))


def _has_field(body: Collection[ast.stmt], name: str) -> tuple[bool, bool]:
    """Tell if a class annotates an attribute as a field, and if it assigns it."""
    is_annotated = is_assigned = False
    for each in body:
        match each:
            case ast.AnnAssign(target=ast.Name(id=found), annotation=annotation, value=value) if found == name:
                is_annotated = base_name(annotation) != "ClassVar" and not says_no(value, "init")
            case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                is_assigned = True
                is_annotated |= base_name(value) in _FIELD_MAKERS and not says_no(value, "init")
    return is_annotated, is_assigned


def _takes_it_itself(body: Collection[ast.stmt], name: str) -> bool:
    """Tell if a class has a constructor that passes nothing of that name on to one made from the fields."""
    for each in body:
        if isinstance(each, ast.FunctionDef) and each.name in CONSTRUCTORS:
            taken = {one.arg for one in ast.walk(each.args) if isinstance(one, ast.arg)}
            if each.args.kwarg is None or name in taken:
                return True
    return False


def says_no(call: ast.expr | None, name: str) -> bool:
    """Tell if a call says ``name=False``."""
    given = call.keywords if isinstance(call, ast.Call) else []
    return any(
        each.arg == name and isinstance(each.value, ast.Constant) and each.value.value is False for each in given
    )


def rename_keywords(text: str, ends: set[tuple[int, int]], old: str, new: str) -> str:
    """Return a Python text with an argument of some calls renamed.

    Args:
        text: A valid Python file.
        ends: Last line and column of the names of what is called.
        old: The argument as it was.
        new: The argument as it is.
    """
    places = []
    for node in all_nodes(tree_of(text)):
        if isinstance(node, ast.Call) and _made_by(node) in ends:
            for each in passed_names(node, old):
                start, line = each.col_offset + isinstance(each, ast.Constant), each.lineno
                end = start + len(old.encode())
                places.append(ast.Name(old, lineno=line, col_offset=start, end_lineno=line, end_col_offset=end))
    return replace_names(text, places, new)


def _made_by(call: ast.Call) -> tuple[int, int]:
    """Return where the name of what a call calls ends, now or, by ``partial``, later."""
    called = call.args[0] if call.args and bare_name(call.func) in _PARTIAL else call.func
    return end_of(called.value if isinstance(called, ast.Subscript) else called)


def copies_with(text: str, place: int) -> bool:
    """Tell if the argument at a place of a text belongs to a call that copies an object with other fields."""
    return _COPIED.search(text[max(0, place - 400) : place]) is not None
