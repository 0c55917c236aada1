"""Tells where the name of a class is read as the program runs, by what it inherits or by what looks a method up by it.

That is ``Base.formats[cls.__name__]`` of a base class, what a metaclass is told, and a method that is asked for by
``"visit_" + type(x).__name__``. What only shows the name, as an error or ``__repr__`` does, is no matter.
"""

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Final

from khepri.edits.locate import Target
from khepri.edits.python.class_relations import Class, Classes
from khepri.edits.python.imports import parsed
from khepri.edits.python.trees import all_nodes
from khepri.edits.rename.composed_names import asked_names, pattern_of
from khepri.edits.rename.rename_notes import shown
from khepri.edits.workspace import Workspace

NAMES: Final = ("__name__", "__qualname__")
_READ: Final = re.compile(rb"(?:\)|__class__)\s*\.\s*__(?:qual)?name__")
_DEFINED: Final = re.compile(rb"\bdef\s+(\w+)")
_LINE: Final = b"\n"
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_TOLD: Final = ("__new__", "__init__", "__prepare__")
_SHOWING: Final = frozenset({"__repr__", "__str__", "__rich_repr__", "__format__"})
_WRITING: Final = frozenset("debug info warning error exception critical log warn print".split())


def notes_on_class_name(workspace: Workspace, target: Target, new: str) -> tuple[str, ...]:
    """Return notes on what reads the name of a class that gets another one.

    Args:
        workspace: Where, before the change.
        target: What is renamed, as it was.
        new: Its new name.
    """
    if target.kind != "class":
        return ()
    classes = Classes(workspace)
    places = sorted({f"{path}:{line}" for path, line in _read_above(classes, Class(target.source.path, target.symbol))})
    notes = []
    if places:
        reads = "reads" if len(places) == 1 else "read"
        notes.append(
            f"{shown(places)} {reads} the name of a class, which is {new} now for what was {target.name}: "
            "see what is done with it"
        )
    found = sorted({*_found_by_name(workspace, target.name)})
    if found:
        notes.append(
            f"{shown(found)} may be looked up by the name of a class, and was left: {target.name} is {new} now"
        )
    return tuple(notes)


def is_shown(node: ast.AST, parent_of: Mapping[ast.AST, ast.AST]) -> bool:
    """Tell if what an expression makes is only shown to people."""
    while node in parent_of:
        node = parent_of[node]
        match node:
            case ast.Raise() | ast.Assert():
                return True
            case ast.FunctionDef(name=name) if name in _SHOWING:
                return True
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called)) if called in _WRITING:
                return True
    return False


def parents_in(tree: ast.AST) -> dict[ast.AST, ast.AST]:
    """Return what each node of a tree stands in."""
    return {child: parent for parent in all_nodes(tree) for child in ast.iter_child_nodes(parent)}


def _read_above(classes: Classes, one: Class) -> Iterator[tuple[str, int]]:
    """Yield where a class, what it inherits or their metaclasses read the name of the class of an object."""
    above = classes.above(one)
    metas = {meta for each in above if (meta := _metaclass(classes, each)) is not None}
    for each in (*above, *(base for meta in metas for base in classes.above(meta))):
        node = classes.node(each)
        if node is None:
            continue
        parent_of = parents_in(node)
        for inner in ast.walk(node):
            if isinstance(inner, ast.Attribute) and inner.attr in NAMES and _is_own_class(inner.value):
                if not is_shown(inner, parent_of):
                    yield each.path, inner.lineno
    for meta in metas:
        for each in classes.above(meta):
            node = classes.node(each)
            for method in node.body if node is not None else ():
                yield from ((each.path, line) for line in _told(method))


def _metaclass(classes: Classes, one: Class) -> Class | None:
    node = classes.node(one)
    named = (each.value for each in node.keywords if each.arg == "metaclass") if node is not None else ()
    return next((meant for each in named if (meant := classes.meant(one.path, ast.unparse(each))) is not None), None)


def _told(method: ast.stmt) -> Iterator[int]:
    """Yield where a method of a metaclass uses the name that it is told, other than to hand it on."""
    if not isinstance(method, _FUNCTIONS) or method.name not in _TOLD:
        return
    given = [*method.args.posonlyargs, *method.args.args]
    if len(given) < 2:
        return
    parent_of = parents_in(method)
    for node in ast.walk(method):
        if isinstance(node, ast.Name) and node.id == given[1].arg and not is_shown(node, parent_of):
            match parent_of[node]:
                case ast.Call(func=ast.Attribute(attr=called)) if called in _TOLD:
                    continue
            yield node.lineno


def _is_own_class(node: ast.expr) -> bool:
    match node:
        case ast.Name(id="cls") | ast.Attribute(value=ast.Name(id="self"), attr="__class__"):
            return True
        case ast.Call(func=ast.Name(id="type"), args=[ast.Name(id="self")]):
            return True
    return False


def _found_by_name(workspace: Workspace, name: str) -> Iterator[str]:
    """Yield the functions whose name some code puts together of the name of a class: ``visit_Num``, ``on_num``."""
    patterns = [re.compile(each.replace(".*", "(.*)")) for each in _patterns(workspace)]
    for path in workspace.files() if patterns else ():
        data = workspace.read(path) if path.endswith(".py") else None
        for defined in _DEFINED.finditer(data or b""):
            found = defined[1].decode()
            for pattern in patterns:
                match = pattern.fullmatch(found)
                if match is not None and _plain(name) in map(_plain, match.groups()):
                    yield f"{found} ({path}:{(data or b'').count(_LINE, 0, defined.start(1)) + 1})"


def _patterns(workspace: Workspace) -> set[str]:
    """Return the patterns of what is put together of the name of a class."""
    patterns: set[str] = set()
    for path in workspace.files():
        data = workspace.read(path) if path.endswith(".py") else None
        tree = parsed(data) if data is not None and _READ.search(data) else None
        for each in all_nodes(tree) if tree is not None else ():
            if isinstance(each, _FUNCTIONS) and any(_is_class_name(node) for node in ast.walk(each)):
                patterns |= {pattern for _, _, pattern in asked_names(ast.Module([each], []))}
                made = (node for node in ast.walk(each) if isinstance(node, ast.BinOp | ast.JoinedStr | ast.Call))
                patterns |= {
                    pattern_of(node) for node in made if any(_is_class_name(inner) for inner in ast.walk(node))
                }
    return {each for each in patterns if re.fullmatch(r"\w*(\.\*\w*)+", each)}


def _is_class_name(node: ast.AST) -> bool:
    match node:
        case ast.Attribute(value=ast.Call(func=ast.Name(id="type")) | ast.Attribute(attr="__class__"), attr=attr):
            return attr in NAMES
    return False


def _plain(name: str) -> str:
    """Return a name as it is in any way of writing: ``BinOp``, ``binop`` and ``bin_op`` are the same."""
    return name.replace("_", "").lower()
