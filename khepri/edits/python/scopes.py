"""What every name of a Python file stands for, by the compiler's own tables of names.

Attributes, strings and other files are not known here.
"""

import ast
import builtins
import re
import symtable
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from khepri.edits.python.trees import all_nodes, tree_of

_MODULE: Final = 0
_OUTSIDE: Final = -1
_GIVEN: Final = frozenset(dir(builtins)) | {"__file__", "__path__", "__annotations__", "__builtins__", "__class__"}
_STAR: Final = re.compile(r"^[ \t]*from[ \t]+\S+[ \t]+import[ \t]+\*", re.MULTILINE)
_LATER: Final = re.compile(r"^(from[ \t]+__future__[ \t]+import[ \t].*)\bannotations\b", re.MULTILINE)

_Binding = tuple[int, str]
"""The number of the scope that binds a name, and the name."""


@dataclass(frozen=True)
class Clash:
    """A place where a rename would change what a name stands for."""

    line: int
    """From 1, in the file before the rename."""
    is_taken: bool
    """True if the new name stands for something else there; False if some uses of the old one would be left."""


@dataclass(frozen=True)
class _Scope:
    kind: str
    line: int
    names: dict[str, _Binding]
    """Every name that the scope binds or uses, and what it stands for."""
    bound: frozenset[str]
    """Those that statements of the scope itself bind; a function that binds a global does not count."""


@dataclass(frozen=True)
class Names:
    """The names of one Python file. Immutable; made once a text."""

    text: str
    scopes: tuple[_Scope, ...]
    """The module, and then every scope in it, an outer one before those inside."""
    doubled: Counter[tuple[str, ...]]
    """How often each name is bound that is defined, and not only once; led by the classes that it stands in."""
    unresolved: Mapping[str, int]
    """The names that the file uses and nothing at its top level binds, each with the line where the first scope begins
    that uses it; none if the file has a star import."""
    needed: Mapping[str, int]
    """Those of them that Python needs when the code runs: not what stands in annotations that are read later."""

    def line_of_unresolved(self, name: str) -> int:
        """Return the first line, from 1, that uses an unresolved name."""
        return line_of(self.text, name, self.needed.get(name, self.unresolved[name]))


def names_of(text: str) -> Names | None:
    """Return the names of a Python file, or None if it cannot be read as one."""
    try:
        with warnings.catch_warnings():
            # Python warns of doubtful escapes and comparisons in the code that it reads.
            warnings.simplefilter("ignore")
            tree = tree_of(text)
            needed = scopes = _scopes(text)
            # With annotations that are read later, the names in them are in no table.
            if (at_once := _LATER.sub(r"\1division", text)) != text:
                scopes = _scopes(at_once)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    is_open = _STAR.search(text) is not None
    return Names(
        text,
        tuple(scopes),
        _doubled(tree),
        {} if is_open else _unresolved(scopes),
        {} if is_open else _unresolved(needed),
    )


def clash(before: Names, after: Names, old: str, new: str) -> Clash | None:
    """Return the first place where a rename is not one: a name that falls apart into two, or two that become one.

    Args:
        before: A Python file.
        after: The same with ``new`` in the place of ``old``, wherever a library found that it is meant.
        old: The name that goes.
        new: The name that comes.
    """
    if [scope.kind for scope in before.scopes] != [scope.kind for scope in after.scopes]:
        return None
    there: dict[_Binding, _Binding] = {}
    back: dict[_Binding, _Binding] = {}
    for first, then in zip(before.scopes, after.scopes, strict=True):
        is_renamed = old in first.names and old not in then.names
        if is_renamed and new in first.names:
            return Clash(line_of(before.text, new, first.line), is_taken=True)
        names = {name: new if is_renamed and name == old else name for name in first.names}
        left = set(then.names) - set(names.values())
        if left == {new} and first.kind == "class":
            # `Session = Session` in a class reads one thing and binds another.
            left.clear()
            if old in first.bound and old not in then.bound:
                del names[old]  # It is the member that has a new name, and what is read before is no member.
        if left or not set(names.values()) <= set(then.names):
            return Clash(line_of(after.text, old, first.line), is_taken=False)
        for name, renamed in names.items():
            source, goal = first.names[name], then.names[renamed]
            if there.setdefault(source, goal) != goal or back.setdefault(goal, source) != source:
                is_left = renamed == old and goal[0] == _OUTSIDE
                return Clash(line_of(before.text, renamed, first.line), is_taken=not is_left)
    return None


def line_of(text: str, name: str, start: int = 1) -> int:
    """Return the first line from ``start`` on, from 1, that has a name of Python; ``start`` if there is none."""
    lines = [
        node.lineno
        for node in all_nodes(tree_of(text))
        if isinstance(node, ast.stmt | ast.expr | ast.arg | ast.alias) and node.lineno >= start and _names(node, name)
    ]
    return min(lines, default=max(1, start))


def _names(node: ast.AST, name: str) -> bool:
    match node:
        case ast.Name(id=found) | ast.arg(arg=found):
            return found == name
        case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found) | ast.ClassDef(name=found):
            return found == name
        case ast.alias(name=found, asname=other):
            return (other or found) == name
        case ast.Global(names=found_names) | ast.Nonlocal(names=found_names):
            return name in found_names
    return False


def _statements(node: ast.AST, prefix: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], ast.AST]]:
    """Yield what runs when a module is imported, with the classes that it stands in."""
    for child in ast.iter_child_nodes(node):
        yield prefix, child
        if isinstance(child, ast.ClassDef):
            yield from _statements(child, (*prefix, child.name))
        elif not isinstance(
            child,
            ast.FunctionDef
            | ast.AsyncFunctionDef
            | ast.Lambda
            | ast.ListComp
            | ast.SetComp
            | ast.DictComp
            | ast.GeneratorExp,
        ):
            yield from _statements(child, prefix)


def _doubled(tree: ast.Module) -> Counter[tuple[str, ...]]:
    bound: Counter[tuple[str, ...]] = Counter()
    defined = set()
    imported = set()
    for prefix, node in _statements(tree, ()):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add((*prefix, node.name))
            bound[*prefix, node.name] += 1
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound[*prefix, node.id] += 1
        elif isinstance(node, ast.Import | ast.ImportFrom):
            origin = f"{'.' * node.level}{node.module or ''}" if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                # An import that stands there twice binds the same thing twice.
                if (found := (*prefix, origin, alias.name, name)) not in imported:
                    imported.add(found)
                    bound[*prefix, name] += 1
    return Counter({name: count for name, count in bound.items() if count > 1 and name in defined})


def _unresolved(scopes: list[_Scope]) -> dict[str, int]:
    lines: dict[str, int] = {}
    for scope in scopes:
        for number, name in scope.names.values():
            if number <= _MODULE and name not in scopes[_MODULE].bound and name not in _GIVEN:
                lines.setdefault(name, scope.line)
    return lines


def _scopes(text: str) -> list[_Scope]:
    top = symtable.symtable(text, "<text>", "exec")
    at_top = {
        symbol.get_name()
        for table in _tables(top)
        for symbol in table.get_symbols()
        if _is_bound(symbol) and (table is top or symbol.is_declared_global())
    }
    scopes: list[_Scope] = []
    _visit(top, at_top, [], "", scopes)
    return scopes


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)


def _visit(
    table: symtable.SymbolTable,
    at_top: set[str],
    around: list[dict[str, _Binding]],
    class_name: str,
    scopes: list[_Scope],
) -> None:
    number = len(scopes)
    kind = str(table.get_type())
    if kind == "class":
        class_name = table.get_name()
    own: dict[str, _Binding] = {}
    names: dict[str, _Binding] = {}
    for symbol in table.get_symbols():
        written = symbol.get_name()
        name = _unmangled(written, class_name)
        if number == _MODULE or symbol.is_global():
            names[name] = (_MODULE if written in at_top else _OUTSIDE, name)
        elif symbol.is_free():
            names[name] = next((scope[name] for scope in reversed(around) if name in scope), (_OUTSIDE, name))
        else:
            own[name] = names[name] = (number, name)
    bound = frozenset(symbol.get_name() for symbol in table.get_symbols() if _is_bound(symbol))
    scopes.append(_Scope(kind, table.get_lineno(), names, bound))
    inner = around if kind == "class" else [*around, own]
    for child in table.get_children():
        _visit(child, at_top, inner, class_name, scopes)


def _is_bound(symbol: symtable.Symbol) -> bool:
    return symbol.is_assigned() or symbol.is_imported()


def _unmangled(name: str, class_name: str) -> str:
    """Return a name as it is written: the tables lead private names by their class, which may be what is renamed."""
    lead = f"_{class_name.lstrip('_')}__"
    return name[len(lead) - 2 :] if class_name and name.startswith(lead) else name
