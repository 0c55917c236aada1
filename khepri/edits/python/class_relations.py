"""Finds the members of classes that stand for one another: an object has one of them, and its class decides which.

A method stands for that of a base class, and a mixin's for that of a class that it is mixed with, though neither knows
of the other. A field or a property may stand for a method, and the other way round.
"""

import ast
import builtins
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from khepri.edits.locate import Target
from khepri.edits.python.imports import Modules, bindings_of, parsed, star_sources
from khepri.edits.workspace import Workspace

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)
_STAR: Final = re.compile(rb"\bimport\s*\*")
_DOTTED: Final = re.compile(r"\w+(\.\w+)*")
_MADE_OF_FIELDS: Final = re.compile(r"(\w+\.)*(namedtuple|NamedTuple|TypedDict)\(")
_PRIVATE: Final = re.compile(r"__\w*(?<!__)")


@dataclass(frozen=True)
class Relative:
    """A member of a class that may stand for another one's."""

    path: str
    symbol: str
    """Its qualified name."""
    line: int
    is_method: bool

    @property
    def owner(self) -> tuple[str, str]:
        """Path and qualified name of its class."""
        return self.path, self.symbol.rpartition(".")[0]


@dataclass(frozen=True)
class Class:
    """A class of the workspace."""

    path: str
    symbol: str
    """Its qualified name."""

    @property
    def name(self) -> str:
        """Its bare name."""
        return self.symbol.rpartition(".")[2]


@dataclass(frozen=True)
class _File:
    package: str
    classes: dict[str, ast.ClassDef]
    """By their qualified names."""
    imported: dict[str, str]
    aliases: dict[str, str]
    """What a name at the top is another one for: ``Old = New``."""
    stars: frozenset[str]


def relatives(workspace: Workspace, target: Target, classes: "Classes | None" = None) -> tuple[Relative, ...]:
    """Return the members that may stand for a method or an attribute of a class or that it may stand for, sorted.

    Classes are followed through imports, and into functions. Each file that names one of the classes is read,
    unless ``classes`` of the workspace have it already.
    """
    owner, _, name = target.symbol.rpartition(".")
    if not owner or _PRIVATE.fullmatch(name):
        return ()
    # Most names have one definition, which takes no look at any class.
    defining = _binding_files(workspace, name)
    if defining == {target.source.path: 1}:
        return ()
    classes = classes or Classes(workspace)
    start = Class(target.source.path, owner)
    known, queue = {start}, [start]
    found: list[Relative] = []
    while queue:
        for each in classes.sharing_objects(queue.pop()) - known:
            member = classes.member(each, name) if each.path in defining else None
            if member is not None:
                known.add(each)
                queue.append(each)
                found.append(member)
    return tuple(sorted(found, key=lambda each: (each.path, each.line)))


def sharing_classes(target: Target, others: Collection[Relative]) -> frozenset[tuple[str, str]]:
    """Return path and qualified name of the classes of a member and of its relatives; empty if it has none."""
    own = {(target.source.path, target.symbol.rpartition(".")[0])} if others else set()
    return frozenset(own | {each.owner for each in others})


class Classes:
    """The classes of a workspace as far as they were asked for. One thread; for one refactoring."""

    def __init__(self, workspace: Workspace) -> None:
        """Look at nothing yet: files are read when a class is asked for, and each is parsed when it is needed."""
        self._workspace = workspace
        self._files: dict[str, _File] = {}
        self._above_one: dict[Class, tuple[Class, ...]] = {}

    @cached_property
    def _modules(self) -> Modules:
        return Modules(self._workspace)

    @cached_property
    def _texts(self) -> dict[str, bytes]:
        paths = (path for path in self._workspace.files() if path.endswith(".py"))
        return {path: self._workspace.read(path) or b"" for path in paths}

    def sharing_objects(self, one: Class) -> set[Class]:
        """Return the classes of which some object is one, if it is one of this class as well."""
        return {base for each in self.below(one) for base in self.above(each)}

    def sharing_members(self, one: Class, others: Collection[Relative]) -> set[Class]:
        """Return the classes that share objects with a class, or with one of those that have a member of its family."""
        owners = {one, *(Class(*each.owner) for each in others)}
        return {found for each in owners for found in self.sharing_objects(each)}

    def member(self, one: Class, name: str) -> Relative | None:
        """Return the first place where a class binds an attribute, itself or in its methods."""
        node = self.node(one)
        found = sorted(members(node, name), key=lambda each: each[0]) if node is not None else []
        if not found:
            return None
        return Relative(one.path, f"{one.symbol}.{name}", found[0][0], all(is_method for _, is_method in found))

    def meant(self, path: str, written: str) -> Class | None:
        """Return the class that a dotted name stands for at the top of a file; None if it is none of the workspace."""
        return self._found(path, written, frozenset())

    def has(self, one: Class, name: str) -> bool:
        """Tell if a class, or one that it inherits, binds an attribute."""
        return self.member(one, name) is not None or self.inherits(one, name)

    def inherits(self, one: Class, name: str) -> bool:
        """Tell if a class that another one inherits binds an attribute."""
        return any(self.member(each, name) is not None for each in self.above(one) - {one})

    def node(self, one: Class) -> ast.ClassDef | None:
        """Return the definition of a class; None if it has gone."""
        return self._file(one.path).classes.get(one.symbol)

    def naming(self, word: bytes) -> Iterator[Class]:
        """Yield the classes of the files that hold a word."""
        return (each for path, data in self._texts.items() if word in data for each in self._in(path))

    def around(self, path: str, line: int) -> Class | None:
        """Return the innermost class in whose lines a line of a file is; None if there is none."""
        classes = self._file(path).classes.items()
        inside = [(node.lineno, symbol) for symbol, node in classes if node.lineno <= line <= (node.end_lineno or 0)]
        return Class(path, max(inside)[1]) if inside else None

    def outside(self, one: Class) -> frozenset[str]:
        """Return what a class inherits from outside the workspace: dotted paths, with ``builtins`` for Python's own.

        A base that is no name, such as a call that makes one, is returned as it is written.
        """
        found = set()
        for each in self.above(one):
            imported = self._file(each.path).imported
            for written, base in self._written_bases(each):
                root, _, rest = written.partition(".")
                if not _DOTTED.fullmatch(written):
                    found.add(written)
                elif base is None:
                    found.add(f"{imported.get(root, f'builtins.{root}')}.{rest}".rstrip("."))
        return frozenset(found)

    def unfollowed(self, one: Class) -> tuple[str, ...]:
        """Return the bases of a class, as written, that may be classes of the workspace though nothing says which.

        They are what a call makes, what a variable, a parameter or an attribute holds.
        """
        file = self._file(one.path)
        return tuple(
            written
            for written, base in self._written_bases(one)
            if base is None and not _MADE_OF_FIELDS.match(written) and not self._is_outside(file, written)
        )

    def _is_outside(self, file: _File, written: str) -> bool:
        root = written.partition(".")[0] if _DOTTED.fullmatch(written) else ""
        if root in file.imported:
            parts = file.imported[root].split(".")
            return not any(".".join(parts[:length]) in self._modules.paths for length in range(1, len(parts) + 1))
        return hasattr(builtins, root)

    def of_path(self, dotted: str) -> Class | None:
        """Return the class that can be imported by a dotted path; None if it is none of the workspace."""
        return self._of_module(dotted, frozenset())

    def below(self, one: Class) -> set[Class]:
        """Return a class and all that inherit from it."""
        found, queue = {one}, [one]
        while queue:
            base = queue.pop()
            name = base.name.encode()
            word = re.compile(rb"\bclass\b[^:]*[(\s,.]%s\b|\b%s\s+as\b" % (name, name))
            for path, data in self._texts.items():
                if name in data and word.search(data):
                    new = {each for each in self._in(path) if base in self._bases(each)} - found
                    found |= new
                    queue += new
        return found

    def above(self, one: Class) -> set[Class]:
        """Return a class and all that it inherits from."""
        found, queue = {one}, [one]
        while queue:
            new = set(self._bases(queue.pop())) - found
            found |= new
            queue += new
        return found

    def _in(self, path: str) -> Iterator[Class]:
        return (Class(path, symbol) for symbol in self._file(path).classes)

    def _bases(self, one: Class) -> tuple[Class, ...]:
        """Return the classes of the workspace that a class names as its bases."""
        if one not in self._above_one:
            self._above_one[one] = tuple(self._named(one))
        return self._above_one[one]

    def _named(self, one: Class) -> Iterator[Class]:
        return (base for _, base in self._written_bases(one) if base is not None)

    def _written_bases(self, one: Class) -> Iterator[tuple[str, Class | None]]:
        """Yield the bases of a class as they are written, each with the class of the workspace that it is."""
        node = self.node(one)
        for base in node.bases if node is not None else ():
            written = ast.unparse(base.value if isinstance(base, ast.Subscript) else base)
            if not _DOTTED.fullmatch(written):
                yield written, None
            else:
                # The names around a class are known in it as well.
                around = one.symbol.split(".")[:-1]
                names = (".".join([*around[:depth], written]) for depth in range(len(around), -1, -1))
                found = (self._found(one.path, name, frozenset()) for name in names)
                yield written, next((each for each in found if each is not None and each != one), None)

    def _found(self, path: str, written: str, seen: frozenset[tuple[str, str]]) -> Class | None:
        """Return the class that a dotted name stands for at the top of a file."""
        if (path, written) in seen:
            return None
        seen |= {(path, written)}
        file = self._file(path)
        if written in file.classes:
            return Class(path, written)
        root, _, rest = written.partition(".")
        if root in file.imported:
            return self._of_module(f"{file.imported[root]}.{rest}".rstrip("."), seen)
        if root in file.aliases:
            return self._found(path, f"{file.aliases[root]}.{rest}".rstrip("."), seen)
        found = (self._of_module(f"{module}.{written}", seen) for module in sorted(file.stars))
        return next((each for each in found if each is not None), None)

    def _of_module(self, dotted: str, seen: frozenset[tuple[str, str]]) -> Class | None:
        parts = dotted.split(".")
        for length in range(len(parts) - 1, 0, -1):
            if (path := self._modules.paths.get(".".join(parts[:length]))) is not None:
                return self._found(path, ".".join(parts[length:]), seen)
        return None

    def _file(self, path: str) -> _File:
        if path not in self._files:
            data = self._texts.get(path, b"")
            tree = parsed(data) or ast.Module([], [])
            package = self._modules.package(path)
            classes = dict(_classes(tree, ()))
            stars = star_sources(tree, package) if _STAR.search(data) else frozenset()
            self._files[path] = _File(package, classes, bindings_of(tree, package), _aliases(tree), stars)
        return self._files[path]


def _binding_files(workspace: Workspace, name: str) -> dict[str, int]:
    """Return the Python files that seem to bind a name, each with how often."""
    word = re.escape(name.encode())
    binding = re.compile(rb"\b(?:def|class)\s+%s\b|(?<!\w)%s\s*(?::[^=\n]+)?(?:=(?!=)|:|,)" % (word, word))
    found = {}
    for path in workspace.files():
        data = workspace.read(path) if path.endswith(".py") else None
        if data is not None and (count := len(binding.findall(data))):
            found[path] = count
    return found


def _aliases(tree: ast.Module) -> dict[str, str]:
    """Return the names that are bound once at the top, each to another dotted name."""
    bound: dict[str, list[str]] = {}
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=value)
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
            ):
                bound.setdefault(name, []).append(ast.unparse(value))
    return {name: written[0] for name, written in bound.items() if len(written) == 1 and _DOTTED.fullmatch(written[0])}


def _classes(node: ast.AST, around: tuple[str, ...]) -> Iterator[tuple[str, ast.ClassDef]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield ".".join([*around, child.name]), child
            yield from _classes(child, (*around, child.name))
        elif isinstance(child, _FUNCTIONS):
            yield from _classes(child, (*around, child.name))
        elif not isinstance(child, ast.expr):
            yield from _classes(child, around)


def members(owner: ast.ClassDef, name: str) -> Iterator[tuple[int, bool]]:
    """Yield the lines where a class binds an attribute, each with whether a method is what it binds."""
    queue: list[ast.AST] = [*owner.body]
    while queue:
        match node := queue.pop():
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if node.name == name:
                    yield node.lineno, not _is_read_only(node.decorator_list)
                yield from ((line, False) for line in _set_on_object(node, name))
            case ast.ClassDef(name=found):
                if found == name:
                    yield node.lineno, False
            case ast.Name(id=found, ctx=ast.Store()):
                if found == name:
                    yield node.lineno, False
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                pass
            case _:
                queue += ast.iter_child_nodes(node)


def _set_on_object(method: ast.FunctionDef | ast.AsyncFunctionDef, name: str) -> Iterator[int]:
    first = next(iter((*method.args.posonlyargs, *method.args.args)), None)
    for node in ast.walk(method) if first is not None else ():
        match node:
            case ast.Attribute(value=ast.Name(id=own), attr=found, ctx=ast.Store()):
                if first is not None and own == first.arg and found == name:
                    yield node.lineno


def _is_read_only(decorators: Collection[ast.expr]) -> bool:
    return any(ast.unparse(each).rpartition(".")[2] in ("property", "cached_property") for each in decorators)
