"""Finds the texts that name a member of an enum: ``Level["LOW"]``, ``Level.__members__``, ``lv.name == "LOW"``."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from khepri.edits.locate import Target
from khepri.edits.python.class_relations import Class, Classes
from khepri.edits.python.trees import all_nodes

_ENUM: Final = re.compile(r"(?:\w+\.)*(?:\w*Enum|\w*Flag|\w*Choices)")
MAPPINGS: Final = ("__members__", "_member_map_")
_NAMES: Final = ("name", "_name_")


def is_enum_member(classes: Classes, target: Target) -> bool:
    """Tell if a definition is a member of an enum: a value in the body of its class."""
    owner = target.symbol.rpartition(".")[0]
    one = Class(target.source.path, owner)
    return bool(owner) and has_member(classes, one, target.name)


def has_member(classes: Classes, one: Class, name: str) -> bool:
    """Tell if a class is an enum with a member of that name."""
    node = classes.node(one)
    if node is None or not is_enum(classes, one):
        return False
    values = (each for statement in node.body if isinstance(statement, ast.Assign) for each in statement.targets)
    return any(isinstance(each, ast.Name) and each.id == name for value in values for each in ast.walk(value))


def is_enum(classes: Classes, one: Class) -> bool:
    """Tell if a class is an enum."""
    return any(_ENUM.fullmatch(each) for each in classes.outside(one))


def member_texts(tree: ast.Module, name: str) -> Iterator[tuple[ast.expr, ast.Constant]]:
    """Yield the texts that are a name and mean a member, each with the class or the object of it that is asked."""
    for node in all_nodes(tree):
        match node:
            case ast.Subscript(value=asked, slice=ast.Constant() as key):
                found = [(_class(asked), key)]
            case ast.Call(func=ast.Attribute(value=ast.Attribute(attr=attr) as asked, attr="get"), args=[key, *_]):
                found = [(_class(asked), key)] if attr in MAPPINGS and isinstance(key, ast.Constant) else []
            case ast.Compare(left=ast.Constant() as key, ops=[ast.In() | ast.NotIn()], comparators=[asked]):
                is_mapping = isinstance(asked, ast.Attribute) and asked.attr in MAPPINGS
                found = [(_class(asked), key)] if is_mapping else []
            case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
                found = [
                    (one.value, key)
                    for one, key in ((left, right), (right, left))
                    if isinstance(key, ast.Constant) and isinstance(one, ast.Attribute) and is_name_read(one)
                ]
            case ast.Compare(left=ast.Attribute() as left, ops=[ast.In() | ast.NotIn()], comparators=[right]):
                elements = right.elts if isinstance(right, ast.Tuple | ast.List | ast.Set) else []
                found = [(left.value, key) for key in elements if isinstance(key, ast.Constant) and is_name_read(left)]
            case ast.Match(subject=ast.Attribute() as subject, cases=cases) if is_name_read(subject):
                patterns = (each for case in cases for each in ast.walk(case.pattern))
                values = (each.value for each in patterns if isinstance(each, ast.MatchValue))
                found = [(subject.value, key) for key in values if isinstance(key, ast.Constant)]
            case _:
                continue
        yield from ((asked, key) for asked, key in found if key.value == name)


def is_name_read(node: ast.Attribute) -> bool:
    """Tell if an expression is the name of what may be a member."""
    return node.attr in _NAMES


def _class(asked: ast.expr) -> ast.expr:
    """Return the class whose members an expression holds by their names, itself or by its mapping."""
    asked = asked.value if isinstance(asked, ast.Attribute) and asked.attr in MAPPINGS else asked
    return own_class(asked)


def own_class(node: ast.expr) -> ast.expr:
    """Return ``cls`` for another way in which a method writes its class, and any other expression as it is."""
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr="__class__"):
            return ast.copy_location(ast.Name("cls"), node)
        case ast.Call(func=ast.Name(id="type"), args=[ast.Name(id="self")]):
            return ast.copy_location(ast.Name("cls"), node)
    return node
