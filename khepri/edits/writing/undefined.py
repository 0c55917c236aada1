"""Finds what a new version of a definition uses and nothing in its file defines, in Python and in Go.

A module of the standard library that is used by its name is imported without a question: nothing else can be meant.
What else is not defined is refused. Other languages have names that no file has to define.
"""

import ast
import re
import sys
from typing import Final

from khepri.edits.python.scopes import names_of
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.repo.nodes import nodes_of, text_of
from khepri.repo.symbols import parse

_GO_PACKAGES: Final = {
    path.rpartition("/")[2]: path
    for path in (
        "bufio bytes cmp context errors fmt io log maps math os path reflect regexp slices sort strconv strings sync "
        "time unicode encoding/base64 encoding/binary encoding/csv encoding/hex encoding/json log/slog math/big "
        "math/bits net/http net/url os/exec path/filepath sync/atomic unicode/utf8"
    ).split()
}
"""What a package of Go's standard library is called, to where it is; none that shares its name with another one."""


def missing_imports(path: str, old: str, new: str) -> list[str]:
    """Return the imports of the standard library that a new text of a file needs and has not.

    Args:
        path: The file, for the language.
        old: Its text as it was; what it lacked itself is not looked at.
        new: Its text as it would be.
    """
    if path.endswith(".go"):
        names = _packages_used(path, new) - _packages_used(path, old)
        return [f'import "{_GO_PACKAGES[name]}"' for name in sorted(names)]
    modules = [name for name in _undefined(path, old, new) if name in sys.stdlib_module_names]
    return [f"import {name}" for name in modules if _is_module(new, name)]


def refuse_undefined(path: str, old: str, new: str) -> None:
    """Refuse a new text of a Python file in which a name stands that nothing defines, and stood nowhere before.

    Args:
        path: The file, for the language.
        old: Its text as it was.
        new: Its text as it would be.

    Raises:
        EditRefusedError: One does.
    """
    for name in _undefined(path, old, new):
        raise EditRefusedError(
            Refusal.MALFORMED,
            f"nothing defines {name} in {path}",
            f"write the definition of {name}, or its import, before the code in the same fence, or do without {name}",
        )


def _undefined(path: str, old: str, new: str) -> list[str]:
    if not path.endswith((".py", ".pyi")):
        return []
    before, after = names_of(old), names_of(new)
    if before is None or after is None:
        return []
    return sorted(after.needed.keys() - before.unresolved.keys())


def _is_module(text: str, name: str) -> bool:
    """Return True if a name is only used for what is in it."""
    tree = ast.parse(text)
    inside = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    uses = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    return bool(uses) and all(id(node) in inside for node in uses)


def _packages_used(path: str, text: str) -> set[str]:
    """Return the names of the standard library's packages that a Go file uses as such and does not import."""
    tree = parse(path, text)
    if tree is None:
        return set()
    used: set[str] = set()
    bound: set[str] = set()
    for node in nodes_of(tree.root_node):
        text_ = text_of(node)
        parent = node.parent
        if node.type == "package_identifier" and parent is not None and parent.type == "qualified_type":
            used.add(text_)
        elif node.type == "identifier" and parent is not None:
            is_operand = parent.type == "selector_expression" and parent.child_by_field_name("operand") == node
            (used if is_operand else bound).add(text_)
        elif node.type == "import_spec":
            alias, place = node.child_by_field_name("name"), node.child_by_field_name("path")
            named = alias.text if alias is not None else place.text if place is not None else b""
            bound.add(re.sub(r"/v\d+$", "", (named or b"").decode().strip('"`')).rpartition("/")[2])
    return (used - bound) & _GO_PACKAGES.keys()
