"""Finds the texts that are keys to an attribute: ``asdict(x)["name"]``, ``vars(x)``, ``**{"name": 1}``, ``type(…)``.

And those that are keys of a dictionary itself, which a ``TypedDict`` describes.
"""

import ast
from collections.abc import Iterator
from typing import Final

from khepri.edits.python.bare_names import bare_name
from khepri.edits.python.trees import all_nodes

_MAPPING: Final = frozenset({"asdict", "vars", "_asdict"})
_ASKING: Final = frozenset({"get", "pop", "setdefault"})
_COPYING: Final = frozenset({"replace", "evolve"})


def keyed_texts(tree: ast.Module, name: str, *, is_field: bool) -> Iterator[tuple[ast.expr, ast.Constant]]:
    """Yield the texts that are a name and a key, each with what it is an attribute of.

    That is an object, a class or a module, and for those of the module itself the call ``globals()``.

    Args:
        tree: A file.
        name: The name.
        is_field: True if it is an argument of its class as well.
    """
    for node in all_nodes(tree):
        match node:
            case (
                ast.Subscript(value=mapping, slice=ast.Constant() as key)
                | ast.Call(func=ast.Attribute(value=mapping, attr=_), args=[ast.Constant() as key, *_])
            ):
                is_asked = not isinstance(node, ast.Call) or bare_name(node.func) in _ASKING
                owner = _mapped(mapping) if is_asked and key.value == name else None
                if owner is not None:
                    yield owner, key
        match node:
            case ast.Call(func=ast.Name(id="type"), args=[_, ast.Tuple(elts=bases), ast.Dict() as given]):
                yield from ((base, key) for base in bases for key in _keys(given, name))
            case ast.Call() if is_field:
                passed = (each.value for each in node.keywords if each.arg is None)
                for each in passed:
                    yield from ((_made(node), key) for key in _keys(each, name))


def dictionary_keys(tree: ast.Module, name: str) -> Iterator[tuple[ast.expr, ast.Constant]]:
    """Yield the texts that are a name and a key of a dictionary, each with that or with what says its type."""
    for node in all_nodes(tree):
        match node:
            case ast.Subscript(value=of, slice=ast.Constant() as key):
                found = [(of, key)]
            case ast.Call(func=ast.Attribute(value=of, attr=called), args=[ast.Constant() as key, *_]):
                found = [(of, key)] if called in _ASKING else []
            case ast.Compare(left=ast.Constant() as key, ops=[ast.In() | ast.NotIn()], comparators=[of]):
                found = [(of, key)]
            case ast.AnnAssign(annotation=of, value=ast.Dict() as given):
                found = [(of, key) for key in _keys(given, name)]
            case ast.FunctionDef(returns=ast.expr() as of) | ast.AsyncFunctionDef(returns=ast.expr() as of):
                returned = (each.value for each in ast.walk(node) if isinstance(each, ast.Return))
                found = [(of, key) for each in returned if each is not None for key in _keys(each, name)]
            case _:
                continue
        yield from ((of, key) for of, key in found if key.value == name)


def _mapped(node: ast.expr) -> ast.expr | None:
    """Return the object whose attributes an expression holds by their names; None for any other expression."""
    match node:
        case ast.Attribute(value=owner, attr="__dict__"):
            return owner
        case ast.Call(func=ast.Attribute(value=owner, attr="_asdict"), args=[]):
            return owner
        case ast.Call(func=called, args=[owner]) if bare_name(called) in _MAPPING:
            return owner
        case ast.Call(func=ast.Name(id="globals"), args=[]):
            return node
    return None


def _made(call: ast.Call) -> ast.expr:
    """Return the class that a call makes an object of, or the object that it copies."""
    match call:
        case ast.Call(func=ast.Attribute(value=copied, attr="_replace")):
            return copied
        case ast.Call(func=called, args=[copied, *_]) if bare_name(called) in _COPYING:
            return copied
    return call.func


def _keys(given: ast.expr, name: str) -> Iterator[ast.Constant]:
    for key in given.keys if isinstance(given, ast.Dict) else ():
        if isinstance(key, ast.Constant) and key.value == name:
            yield key
