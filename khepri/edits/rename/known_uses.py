"""Tells whose member a use is: its object is what an annotation says, what makes it, or else what jedi infers.

What the code is said to say here is not inferred beyond the scope in which a name is bound.
"""

import ast
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from typing import Final

from khepri.edits.locate import Target
from khepri.edits.python.class_relations import Class, Classes
from khepri.edits.python.enum_texts import has_member, is_enum
from khepri.edits.python.imports import parsed
from khepri.edits.python.inference import Inference
from khepri.edits.python.known_objects import caught_objects, named_classes
from khepri.edits.python.offsets import Offsets
from khepri.edits.python.trees import all_nodes
from khepri.edits.workspace import Workspace

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


class KnownUses:
    """The uses of a member on objects of known classes. One thread; for one refactoring."""

    def __init__(
        self,
        workspace: Workspace,
        target: Target,
        sharing: Collection[tuple[str, str]],
        inference: Inference | None = None,
    ) -> None:
        """Read the Python files; each is parsed when it is asked for.

        Args:
            workspace: Where.
            target: The member.
            sharing: Path and qualified name of the classes whose members stand for it.
            inference: Who is asked where the code does not say it; None for nobody.
        """
        self._classes, self._name = Classes(workspace), target.name
        self._owners = {
            Class(target.source.path, target.symbol.rpartition(".")[0]),
            *(Class(*each) for each in sharing),
        }
        self._having: set[Class] | None = None
        self._inference = inference
        self.ends = cache(self._ends)
        self.said_ends = cache(self._said_ends)

    def _ends(self, path: str, text: str) -> Mapping[int, bool]:
        """Return where in a text uses end of which it is known whether they are of the member, each with that."""
        tree = parsed(text.encode()) or ast.Module([], [])
        offsets = Offsets(text)
        found = {}
        named = [(node, self._classes.meant(path, written)) for node, written in _typed(tree, self._name)]
        named += self._on_enum_members(path, tree)
        for node in _on_super(tree, self._name):
            around = self._classes.around(path, node.lineno)
            is_other = around is not None and self._classes.inherits(around, self._name)
            named.append((node, around if is_other and around not in self._below_owners() else None))
        for node, one in named:
            is_meant = self._has_meant(one) if one is not None else None
            if is_meant is not None:
                found[offsets.end(node)] = is_meant
        return found

    def _on_enum_members(self, path: str, tree: ast.Module) -> Iterator[tuple[ast.Attribute, Class]]:
        """Yield the uses on a member of an enum, ``Level.LOW`` or ``Level["LOW"]``, each with the enum."""
        for node in all_nodes(tree):
            match node:
                case ast.Attribute(attr=found, value=ast.Attribute(value=of) | ast.Subscript(value=of) as member):
                    one = self._classes.meant(path, ast.unparse(of)) if found == self._name else None
                    if one is None or not is_enum(self._classes, one):
                        continue
                    if isinstance(member, ast.Subscript) or has_member(self._classes, one, member.attr):
                        yield node, one

    def _said_ends(self, path: str, text: str) -> frozenset[int]:
        """Return where in a text uses end whose object is of one class, or several, as the code says around it."""
        tree = parsed(text.encode()) or ast.Module([], [])
        offsets = Offsets(text)
        said = self._said(path, tree)
        found = set()
        for node in all_nodes(tree):
            if isinstance(node, ast.Attribute) and node.attr == self._name:
                makers = _makers(tree, node.value)
                if node in said or (makers and all(self._classes.meant(path, each) is not None for each in makers)):
                    found.add(offsets.end(node))
        return frozenset(found)

    def _said(self, path: str, tree: ast.Module) -> set[ast.Attribute]:
        """Return the uses on a name or an expression of which the code says the class."""
        typed = _typed(tree, self._name)
        found = {node for node, written in typed if self._classes.meant(path, written) is not None}
        found |= set(_on_super(tree, self._name))
        found |= {node for node, _ in self._on_enum_members(path, tree)}
        for node in all_nodes(tree):
            if isinstance(node, ast.Attribute) and node.attr == self._name:
                maker = node.value.func if isinstance(node.value, ast.Call) else node.value
                is_own = isinstance(maker, ast.Name) and maker.id in ("self", "cls")
                if is_own or self._classes.meant(path, ast.unparse(maker)) is not None:
                    found.add(node)
        return found

    def inferred(self, path: str, before: str, after: str) -> list[int]:
        """Return the lines where rope has renamed uses by what it infers alone: on no object of a known class.

        Args:
            path: A Python file.
            before: Its text.
            after: What is proposed, line by line.
        """
        tree, then = (parsed(text.encode()) or ast.Module([], []) for text in (before, after))
        said, offsets = self._said(path, tree), Offsets(before)
        left = {node.lineno for node in ast.walk(then) if isinstance(node, ast.Attribute) and node.attr == self._name}
        found = set()
        for node in all_nodes(tree):
            if isinstance(node, ast.Attribute) and node.attr == self._name and node.lineno not in left:
                if node not in said and self.is_meant(path, before, offsets.end(node)) is not True:
                    found.add(node.lineno)
        return sorted(found)

    def mixed(self, path: str, after: str) -> list[int]:
        """Return the lines with uses that are left on what several classes make, one of them with the member."""
        tree = parsed(after.encode()) or ast.Module([], [])
        found = set()
        for node in all_nodes(tree):
            if isinstance(node, ast.Attribute) and node.attr == self._name:
                made = {self._classes.meant(path, each) for each in _makers(tree, node.value)}
                if len(made) > 1 and made & self._below_owners():
                    found.add(node.lineno)
        return sorted(found)

    def is_meant(self, path: str, text: str, end: int) -> bool | None:
        """Tell if a use that ends there is of the member, as the code says or jedi infers; None if neither does."""
        said = self.ends(path, text)
        if end in said:
            return said[end]
        if self._inference is None:
            return None
        return self._inference.is_member_of(self._below_owners(), path, text, end, self._name)

    def is_shared(self) -> bool:
        """Tell if another class than those of the member has one of its name."""
        others = (each for each in self._classes.naming(self._name.encode()) if each not in self._below_owners())
        return any(self._classes.member(each, self._name) is not None for each in others)

    def _has_meant(self, one: Class) -> bool | None:
        """Tell if a class has the member, or another one of that name; None if neither."""
        if one in self._below_owners():
            return True
        return False if self._classes.has(one, self._name) else None

    def _below_owners(self) -> set[Class]:
        if self._having is None:
            self._having = {each for owner in self._owners for each in self._classes.below(owner)}
        return self._having


def _makers(tree: ast.Module, value: ast.expr) -> set[str]:
    """Return what the calls are of that make a variable, in its function, or an attribute of ``self``, in its class."""
    match value:
        case ast.Name():
            kinds: tuple[type[ast.AST], ...] = _FUNCTIONS
        case ast.Attribute(value=ast.Name(id="self")):
            kinds = (ast.ClassDef,)
        case _:
            return set()
    around = [each for each in all_nodes(tree) if isinstance(each, kinds) and _holds(each, value)]
    found: set[str] = set()
    for node in ast.walk(around[-1] if around else tree):
        if isinstance(node, ast.Assign) and ast.unparse(value) in map(ast.unparse, node.targets):
            values = [node.value.body, node.value.orelse] if isinstance(node.value, ast.IfExp) else [node.value]
            found |= {ast.unparse(each.func) for each in values if isinstance(each, ast.Call)}
    return found


def _holds(node: ast.AST, inner: ast.expr) -> bool:
    return getattr(node, "lineno", 0) <= inner.lineno <= (getattr(node, "end_lineno", 0) or 0)


def _on_super(tree: ast.Module, name: str) -> Iterator[ast.Attribute]:
    for node in all_nodes(tree):
        match node:
            case ast.Attribute(attr=found, value=ast.Call(func=ast.Name(id="super"))) if found == name:
                yield node


def _typed(tree: ast.Module, name: str) -> Iterator[tuple[ast.Attribute, str]]:
    """Yield the uses of an attribute on a name or a caught error, each with what the class of the object is called."""
    classes = {**named_classes(tree), **caught_objects(tree)}
    for node in all_nodes(tree):
        if isinstance(node, ast.Attribute) and node.attr == name and node.value in classes:
            yield node, classes[node.value]
