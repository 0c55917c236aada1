"""Finds where code asks for an attribute by a name that it puts together, such as ``getattr(self, "visit_" + kind)``.

No text holds the whole name of what is found so. The fixed part of it tells which definitions may be meant.
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from khepri.edits.change import ChangeSet
from khepri.edits.locate import Target
from khepri.edits.python.bare_names import bare_name
from khepri.edits.python.class_relations import Class, Classes, Relative
from khepri.edits.python.imports import Modules, bindings_of, parsed
from khepri.edits.python.trees import all_nodes
from khepri.edits.rename.rename_notes import shown
from khepri.edits.workspace import Workspace

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_ASKING: Final = frozenset({"getattr", "hasattr", "setattr", "delattr"})
_OF_ANYTHING: Final = frozenset({"attrgetter", "methodcaller"})
_LOOK: Final = re.compile(
    rb"\b(?:__getattribute__|getattr|hasattr|setattr|delattr|attrgetter|methodcaller|globals|vars)\(|__dict__"
)
_FIELD: Final = re.compile(r"\{[^{}]*\}|%(?:\(\w+\))?[srd]")
_READING: Final = frozenset({"getattr", "hasattr", "__getattribute__"})
_NO_LETTERS: Final = re.compile(r"\(\?i:|\)|\.\*")
"""What a pattern has beside the fixed part of a name."""
_CASES: Final = frozenset({"lower", "upper", "casefold", "capitalize", "title", "swapcase"})
_LEAST: Final = 3
"""Characters of the fixed part that tell something of a name where nobody knows whose it is."""


def notes_on_composed(
    workspace: Workspace, changes: ChangeSet, target: Target, new: str, others: Collection[Relative]
) -> tuple[str, ...]:
    """Return a note on where a definition may be asked for by a name that is put together.

    Args:
        workspace: Where, before the change.
        changes: What is proposed.
        target: What is renamed, as it was.
        new: Its new name.
        others: The members that are renamed with it.
    """
    places = composed_places(workspace, changes, target, others)
    if not places:
        return ()
    return (
        f"{target.name} may be asked for at {shown(places)} by a name that is put together or passed there, which was "
        f"left: see that {new} is found",
    )


def composed_places(
    workspace: Workspace, changes: ChangeSet, target: Target, others: Collection[Relative]
) -> list[str]:
    """Return where a definition may be asked for by a name that is put together, by file and line, as proposed."""
    after = {change.path: change.after for change in changes.files}
    owners = _Owners(workspace, target, others)
    places = []
    for path in sorted({*after, *workspace.files()}):
        data = after[path] if path in after else workspace.read(path) if path.endswith(".py") else None
        if data is None or not path.endswith(".py") or not _LOOK.search(data):
            continue
        tree = parsed(data) or ast.Module([], [])
        found = {
            node.lineno
            for node, owner, pattern in (*asked_names(tree), *_given_names(tree))
            if re.fullmatch(pattern, target.name)
            and owners.may_be(path, tree, owner, is_telling=len(_NO_LETTERS.sub("", pattern)) >= _LEAST)
        }
        places += [f"{path}:{line}" for line in sorted(found)]
    return places


def asked_names(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.expr | None, str]]:
    """Yield where an attribute is asked for by a composed name: the place, of what, and the pattern of the name."""
    for scope in (node for node in all_nodes(tree) if isinstance(node, (ast.Module, *_FUNCTIONS))):
        composed = {
            name.id: pattern
            for node in ast.walk(scope)
            if isinstance(node, ast.Assign) and (pattern := pattern_of(node.value))
            for name in node.targets
            if isinstance(name, ast.Name)
        }
        for node in ast.walk(scope):
            of: ast.expr | None = None
            match node:
                case ast.Call(func=ast.Name(id=called), args=[owner, name, *_]) if called in _ASKING:
                    asked, of = name, owner
                case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=[name, *_]) if (
                    called in _OF_ANYTHING
                ):
                    asked = name
                case ast.Subscript(value=ast.Call(func=ast.Name(id="globals")) as owner, slice=name):
                    asked, of = name, owner
                case ast.Subscript(value=ast.Call(func=ast.Name(id="vars"), args=[owner]), slice=name):
                    asked, of = name, owner
                case ast.Subscript(value=ast.Attribute(value=owner, attr="__dict__"), slice=name):
                    asked, of = name, owner
                case ast.Call(
                    func=ast.Attribute(value=ast.Call(func=ast.Name(id="globals")) as owner), args=[name, *_]
                ):
                    asked, of = name, owner
                case _:
                    continue
            if pattern := pattern_of(asked, composed):
                yield node, of, pattern


def _given_names(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.expr, str]]:
    """Yield where a function asks for an attribute whose name it is passed or looks up: as above, any name.

    What Python calls by itself (``__getattr__``, ``__repr__``) asks for what the object has, whatever it is called.
    """
    for scope in all_nodes(tree):
        if not isinstance(scope, _FUNCTIONS) or re.fullmatch(r"__\w+__", scope.name):
            continue
        passed = {each.arg for each in ast.walk(scope.args) if isinstance(each, ast.arg)}
        for node in ast.walk(scope):
            match node:
                case ast.Call(func=called, args=[owner, asked, *_]) if bare_name(called) in _READING:
                    pass
                case ast.Subscript(value=ast.Call(func=ast.Name(id="globals")) as owner, slice=asked):
                    pass
                case ast.Subscript(value=ast.Call(func=ast.Name(id="vars"), args=[owner]), slice=asked):
                    pass
                case ast.Call(
                    func=ast.Attribute(value=ast.Call(func=ast.Name(id="globals")) as owner), args=[asked, *_]
                ):
                    pass
                case _:
                    continue
            # ``name.upper()`` is made of what is passed.
            while isinstance(asked, ast.Call) and isinstance(asked.func, ast.Attribute):
                asked = asked.func.value
            if isinstance(asked, ast.Subscript | ast.Attribute) or (isinstance(asked, ast.Name) and asked.id in passed):
                yield node, owner, ".*"


def pattern_of(node: ast.expr, composed: Mapping[str, str] | None = None) -> str:
    """Return the pattern of the names that an expression may make; empty if it is a text as it is, or says nothing.

    Args:
        node: The expression.
        composed: The patterns of variables.
    """
    match node:
        case ast.Name(id=name):
            return (composed or {}).get(name, "")
        case ast.JoinedStr(values=values):
            parts = [re.escape(str(each.value)) if isinstance(each, ast.Constant) else ".*" for each in values]
        case ast.BinOp(op=ast.Add()):
            parts = list(_added(node))
        case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod()):
            parts = [".*".join(re.escape(each) for each in _FIELD.split(text))]
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format")):
            parts = [".*".join(re.escape(each) for each in _FIELD.split(text))]
        case ast.Call(func=ast.Attribute(value=made, attr=called)) if called in _CASES:
            parts = [f"(?i:{inner})"] if (inner := pattern_of(made, composed)) else []
        case ast.Call(func=ast.Attribute(value=made, attr="replace"), args=[ast.Constant(old), ast.Constant(new), *_]):
            parts = [pattern_of(made, composed).replace(re.escape(str(old)), re.escape(str(new)))]
        case _:
            return ""
    pattern = "".join(parts)
    return pattern if ".*" in pattern and pattern.replace(".*", "") else ""


def _added(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _added(left)
            yield from _added(right)
        case ast.Constant(value=str(text)):
            yield re.escape(text)
        case _:
            yield pattern_of(node) or ".*"


class _Owners:
    """What has a definition: its module, or the classes of which an object may be."""

    def __init__(self, workspace: Workspace, target: Target, others: Collection[Relative]) -> None:
        self._modules, self._classes = Modules(workspace), Classes(workspace)
        self._home = target.source.path
        self._owner = Class(target.source.path, target.symbol.rpartition(".")[0]) if target.is_member else None
        self._sharing = self._classes.sharing_members(self._owner, others) if self._owner is not None else set()

    def may_be(self, path: str, tree: ast.Module, owner: ast.expr | None, *, is_telling: bool) -> bool:
        """Tell if what is asked for an attribute has the definition, or nobody knows what it is.

        Args:
            path: The file.
            tree: What is in it.
            owner: What is asked; None for anything.
            is_telling: Whether the name tells enough where nobody knows what is asked.
        """
        if owner is None:
            return is_telling
        written = ast.unparse(owner)
        if written in ("globals()", "sys.modules[__name__]"):
            return self._owner is None and path == self._home
        if written in ("self", "cls", "type(self)", "self.__class__"):
            return self._classes.around(path, owner.lineno) in self._sharing
        root, _, rest = written.partition(".")
        dotted = f"{bindings_of(tree, self._modules.package(path)).get(root, '')}.{rest}".strip(".")
        if self._owner is None:
            return dotted == self._modules.name(self._home)
        one = self._classes.meant(path, written) if re.fullmatch(r"\w+(\.\w+)*", written) else None
        if one is not None:
            return one in self._sharing
        return is_telling and not (rest == "" and dotted)
