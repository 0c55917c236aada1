"""Finds where a definition is reached by a text that holds its name: ``getattr``, ``setattr``, what tests patch.

Such a text means the definition for sure if it stands beside its module or class, or is the whole dotted path.
"""

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from typing import Final

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.locate import Target
from khepri.edits.python.class_bodies import replace_names
from khepri.edits.python.class_relations import Class, Classes
from khepri.edits.python.enum_texts import is_enum_member, member_texts
from khepri.edits.python.fields import is_argument, is_key
from khepri.edits.python.imports import Modules, bindings_of, parsed, passing_modules
from khepri.edits.python.keyed_texts import dictionary_keys, keyed_texts
from khepri.edits.python.known_objects import named_classes
from khepri.edits.python.trees import all_nodes
from khepri.edits.workspace import Workspace
from khepri.repo.text import decode

_BY_NAME: Final = frozenset(
    "getattr setattr hasattr delattr __getattribute__ __setattr__ __delattr__ object spy attrgetter "
    "methodcaller".split()
)
"""What takes the name of an attribute; ``object`` is that of ``mock.patch``."""
_OF_ANYTHING: Final = frozenset({"attrgetter", "methodcaller"})
"""What takes names alone; the object comes later."""
_KEYWORDS: Final = frozenset({"multiple", "configure_mock"})
"""What takes attributes as arguments of their names."""


@dataclass(frozen=True)
class NamedUse:
    """A text, or an argument of a patch, that is a name or ends in it."""

    path: str
    line: int
    place: ast.Name | None
    """Where the name stands in the text; None where it cannot be changed alone."""
    is_sure: bool
    """True if it is the definition that is meant."""
    is_path: bool = False
    """True for a text that is a whole path."""


def with_named_uses(workspace: Workspace, changes: ChangeSet, target: Target, new: str) -> ChangeSet:
    """Return a rename with the texts that surely mean what is renamed."""
    files = {change.path: change for change in changes.files}
    places: dict[str, list[ast.Name]] = {}
    for use in named_uses(workspace, target, changes):
        if use.is_sure and use.place is not None:
            places.setdefault(use.path, []).append(use.place)
    for path, found in places.items():
        change = files.get(path)
        before = change.before if change is not None else workspace.read(path)
        data = (change.after if change is not None else before) or b""
        files[path] = FileChange(path, before, replace_text(data, replace_names(decode(data).text, found, new), path))
    return change_set(changes.title, files.values())


def named_uses(workspace: Workspace, target: Target, changes: ChangeSet | None = None) -> Iterator[NamedUse]:
    """Yield the texts in calls, and the dotted paths anywhere, that may name a definition.

    Args:
        workspace: Where.
        target: The definition, as it was.
        changes: What is proposed; the texts are looked for there.
    """
    after = {change.path: change.after for change in changes.files} if changes is not None else {}
    owners = Owners(workspace, target, changes or ChangeSet("", ()))
    is_in_enum = is_enum_member(owners.classes, target)
    is_made_with = is_argument(owners.classes, target) is True
    is_in_dictionary = is_key(owners.classes, target)
    quoted = re.compile(rb"[\"'.]%s[\"']|\b(?:%s)\(" % (target.name.encode(), "|".join(_KEYWORDS).encode()))
    for path in workspace.files():
        data = after[path] if path in after else workspace.read(path) if path.endswith(".py") else None
        if data is None or not path.endswith(".py") or not quoted.search(data):
            continue
        tree = parsed(data) or ast.Module([], [])
        keys = [keyed_texts(tree, target.name, is_field=is_made_with)]
        keys += [member_texts(tree, target.name)] * is_in_enum + [dictionary_keys(tree, target.name)] * is_in_dictionary
        for owner, key in chain(*keys):
            yield NamedUse(path, key.lineno, _end_of(key, target.name), owners.has(path, tree, owner))
        for node in all_nodes(tree):
            match node:
                case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=given) if called in _BY_NAME:
                    takes_object = called not in _OF_ANYTHING
                    for each in given[:2] if takes_object else given:
                        if isinstance(each, ast.Constant) and each.value == target.name:
                            is_sure = takes_object and each is not given[0] and owners.has(path, tree, given[0])
                            yield NamedUse(path, each.lineno, _end_of(each, target.name), is_sure)
                case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), keywords=named):
                    if called in _KEYWORDS and any(each.arg == target.name for each in named):
                        yield NamedUse(path, node.lineno, None, False)
                case ast.Constant(value=str(written)) if written.endswith(f".{target.name}"):
                    before = written[: -len(target.name) - 1]
                    if re.fullmatch(r"\w+(\.\w+)*", before) and owners.is_ours(before):
                        yield NamedUse(path, node.lineno, _end_of(node, target.name), owners.has_path(before), True)


def loaded_uses(workspace: Workspace, changes: ChangeSet, module: str, name: str) -> list[str]:
    """Return where a file that loads a module by a text may have a name from there, as proposed.

    Args:
        workspace: Where.
        changes: What is proposed.
        module: The dotted name of the module.
        name: What may be asked for, as an attribute of anything but an import, or by a text.
    """
    after = {change.path: change.after for change in changes.files}
    quoted = re.compile(rb"[\"']%s[\"']" % re.escape(module.encode()))
    found = []
    for path in workspace.files():
        data = after[path] if path in after else workspace.read(path) if path.endswith(".py") else None
        if data is None or not path.endswith(".py") or name.encode() not in data or not quoted.search(data):
            continue
        tree = parsed(data) or ast.Module([], [])
        imported = bindings_of(tree, "")
        for node in all_nodes(tree):
            match node:
                case ast.Attribute(attr=asked, value=value) if asked == name:
                    is_known = isinstance(value, ast.Name | ast.Attribute) and _root(value) in imported
                    found += [] if is_known else [f"{path}:{node.lineno}"]
                case ast.Constant(value=str(asked)) if asked == name:
                    found.append(f"{path}:{node.lineno}")
    return found


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


class Owners:
    """The modules and classes through which a definition is reached. One thread; for one refactoring."""

    def __init__(self, workspace: Workspace, target: Target, changes: ChangeSet) -> None:
        """Note where the definition is, as it was, in files that are taken as they are proposed."""
        self._modules, self.classes = Modules(workspace), Classes(workspace)
        owner = target.symbol.rpartition(".")[0]
        self._home, self._name = target.source.path, target.name
        home = self._modules.name(self._home)
        self._owner = Class(target.source.path, owner) if owner else None
        self._reached: Collection[str] = passing_modules(self._modules, home, target.name, changes) if not owner else ()
        self._below: set[Class] | None = None
        self._named = cache(named_classes)

    def is_ours(self, dotted: str) -> bool:
        """Tell if a path begins with a module of the workspace."""
        return any(name.partition(".")[0] == dotted.partition(".")[0] for name in self._modules.paths)

    def has_path(self, dotted: str) -> bool:
        """Tell if a dotted path is one of the modules or classes that have the definition, and no module its name."""
        if self._owner is not None:
            return self._is_owner(self.classes.of_path(dotted))
        return dotted in self._reached and f"{dotted}.{self._name}" not in self._modules.paths

    def has(self, path: str, tree: ast.Module, node: ast.expr) -> bool:
        """Tell if an expression of a file is a module or class that has the definition, or an object of the class."""
        if self._owner is not None and isinstance(node, ast.Name) and (said := self._named(tree).get(node)):
            return self._is_owner(self.classes.meant(path, said))
        if ast.unparse(node) == "globals()":
            return self._owner is None and path == self._home
        # What a class is called makes an object of it.
        written = ast.unparse(node.func if self._owner is not None and isinstance(node, ast.Call) else node)
        if not re.fullmatch(r"\w+(\.\w+)*", written):
            return False
        if self._owner is not None:
            is_own = written in ("self", "cls")
            return self._is_owner(
                self.classes.around(path, node.lineno) if is_own else self.classes.meant(path, written)
            )
        root, _, rest = written.partition(".")
        imported = bindings_of(tree, self._modules.package(path))
        return root in imported and f"{imported[root]}.{rest}".rstrip(".") in self._reached

    def _is_owner(self, one: Class | None) -> bool:
        if one is None or self._owner is None:
            return False
        if self._below is None:
            self._below = self.classes.below(self._owner)
        return one in self._below


def _end_of(text: ast.Constant, name: str) -> ast.Name | None:
    """Return where a name stands at the end of a plain string."""
    if text.end_lineno != text.lineno or text.end_col_offset is None:
        return None
    end = text.end_col_offset - 1
    start = end - len(name.encode())
    if end - text.col_offset - 1 != len(str(text.value).encode()):
        return None  # It has another kind of quotes, or a prefix.
    return ast.Name(name, lineno=text.lineno, col_offset=start, end_lineno=text.lineno, end_col_offset=end)
