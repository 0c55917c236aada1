"""Finds where other files have an attribute of a module, and where they put something else in its place, as tests do.

What is put into a module is seen by the code of that module alone: code that has moved reads a name of its new one.
"""

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from khepri.edits.change import ChangeSet
from khepri.edits.python.imports import Modules, bindings_of, parsed
from khepri.edits.python.trees import all_nodes
from khepri.edits.rename.rename_notes import shown
from khepri.edits.workspace import Workspace

_PUTTING: Final = frozenset({"setattr", "delattr", "object", "spy"})
"""What puts something in the place of an attribute that it is told by name; ``object`` is that of ``mock.patch``."""
_DOTTED: Final = re.compile(r"\w+(\.\w+)*")
_ENDING: Final = re.compile(r"(?:\{\w*\}|%s)?\.(\w+)((?:\.\w+)*)")
"""What stands behind the name of a module in a text that is put together."""


@dataclass(frozen=True)
class ModuleAttribute:
    """A place where another file has an attribute of a module."""

    name: str
    path: str
    line: int
    is_put: bool
    """True if something is put in its place; False if it is only asked for, also for what is in it."""


def attributes_of(workspace: Workspace, module: str, changes: ChangeSet | None = None) -> Iterator[ModuleAttribute]:
    """Yield the places outside of a module that have an attribute of it, in code or by a text.

    Args:
        workspace: Where.
        module: The dotted name of the module.
        changes: What is proposed; the places are looked for there.
    """
    after = {change.path: change.after for change in changes.files} if changes is not None else {}
    modules = Modules(workspace, changes)
    last = module.rpartition(".")[2].encode()
    for path in sorted({*after, *workspace.files()}):
        data = after[path] if path in after else workspace.read(path) if path.endswith(".py") else None
        if data is None or last not in data or not path.endswith(".py") or modules.name(path) == module:
            continue
        tree = parsed(data) or ast.Module([], [])
        is_quoted = re.search(rb"[\"']%s[\"']" % re.escape(module.encode()), data) is not None
        known = _Known(module, bindings_of(tree, modules.package(path)), is_quoted)
        for node in all_nodes(tree):
            for name, is_put in known.attributes(node):
                yield ModuleAttribute(name, path, getattr(node, "lineno", 0), is_put)


def asked_of(workspace: Workspace, module: str) -> frozenset[str]:
    """Return the attributes of a module that other files ask for."""
    return frozenset(each.name for each in attributes_of(workspace, module) if not each.is_put)


def notes_on_put(
    workspace: Workspace, changes: ChangeSet, home: str, goal: str, name: str, read: Collection[str]
) -> tuple[str, ...]:
    """Return a note on what is put into the old module of a definition, and does not reach it any more.

    Args:
        workspace: Where, before the change.
        changes: What is proposed.
        home: The module where the definition was.
        goal: The module where it is.
        name: The definition.
        read: The names that it reads.
    """
    found = [each for each in attributes_of(workspace, home, changes) if each.is_put and each.name in read]
    if not found:
        return ()
    names = ", ".join(dict.fromkeys(f"{home}.{each.name}" for each in found))
    places = shown(list(dict.fromkeys(f"{each.path}:{each.line}" for each in found)))
    return (
        f"something else is put in the place of {names} at {places}, which does not reach {name} any more: put it into "
        f"{goal} there, where {name} reads it now",
    )


class _Known:
    """What one file calls a module."""

    def __init__(self, module: str, bound: dict[str, str], is_quoted: bool) -> None:
        self._module, self._bound, self._is_quoted = module, bound, is_quoted
        self._is_named = is_quoted or any(f"{each}.".startswith(f"{module}.") for each in bound.values())
        self._path = re.compile(rf"{re.escape(module)}\.(\w+)((?:\.\w+)*)")

    def attributes(self, node: ast.AST) -> Iterator[tuple[str, bool]]:
        """Yield the attributes of the module that a node has, each with whether something is put in its place."""
        match node:
            case ast.Attribute(value=owner, attr=name, ctx=context):
                is_put = not isinstance(context, ast.Load)
                if self._is_module(owner, may_be=is_put):
                    yield name, is_put
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=[owner, *rest], keywords=named):
                if called == "multiple" and (self._is_module(owner, may_be=True) or self._is_text(owner)):
                    yield from ((each.arg, True) for each in named if each.arg is not None)
                elif rest and isinstance(rest[0], ast.Constant) and isinstance(rest[0].value, str):
                    is_put = called in _PUTTING
                    if (is_put or called in ("getattr", "hasattr")) and self._is_module(owner, may_be=is_put):
                        yield rest[0].value, is_put
            case ast.Constant(value=str(text)):
                found = self._path.fullmatch(text) or (_ENDING.fullmatch(text) if self._is_named else None)
                if found:
                    yield found[1], not found[2]

    def _is_module(self, node: ast.expr, *, may_be: bool) -> bool:
        """Tell if an expression is the module, or may be one that the file loads by a text."""
        written = ast.unparse(node)
        root, _, rest = written.partition(".")
        if not _DOTTED.fullmatch(written) or root in ("self", "cls"):
            return False
        if root not in self._bound:
            return may_be and self._is_quoted and not rest
        return f"{self._bound[root]}.{rest}".rstrip(".") == self._module

    def _is_text(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Constant) and node.value == self._module
