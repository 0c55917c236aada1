"""Renames a name where the body of a class reads what is around it by the name of something of its own.

Python reads a name in such a body from around the class until the class has bound it, and from the class after that;
a comprehension in it never sees the class. A library that knows one meaning of a name in each scope, and looks for
decorators outside of the class, takes one for the other.
"""

import ast
from collections.abc import Iterator
from typing import Final

from khepri.edits.python.trees import all_nodes, tree_of

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DEFINITIONS: Final = (*_FUNCTIONS, ast.ClassDef)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def with_class_reads(before: str, text: str, old: str, new: str, *, is_member: bool) -> str:
    """Return a renamed Python text in which each class reads from itself and from around it what it has read before.

    Args:
        before: The file as it was.
        text: The file with ``old`` renamed.
        old: The name as it was.
        new: The name as it is.
        is_member: True if classes have the name; False if the module has it.
    """
    own, around = (new, old) if is_member else (old, new)
    try:
        now = _classes(text)
        if not any(_binds(each, own) for each in now):
            return text
        then = _classes(before)
    except (SyntaxError, ValueError, RecursionError):
        return text
    edits: dict[str, list[ast.Name]] = {own: [], around: []}
    for was, is_now in zip(then, now, strict=False):
        reads, later = ([*_reads(each.body, {old, new}, bound)] for each, bound in ((was, old), (is_now, own)))
        if _binds(was, old) and not _binds(was, new) and _binds(is_now, own) and len(reads) == len(later):
            for (read, is_around), (found, _) in zip(reads, later, strict=True):
                meant = around if is_around else own
                if read.id == old and found.id != meant:
                    edits[meant].append(found)
    return _edited(text, edits)


def replace_names(text: str, names: list[ast.Name], new: str) -> str:
    """Return a text with ``new`` in the place of some names of its tree."""
    return _edited(text, {new: names})


def _edited(text: str, edits: dict[str, list[ast.Name]]) -> str:
    lines = text.split("\n")
    places = [(each.lineno, each.col_offset, each, new) for new, names in edits.items() for each in names]
    for number, start, node, new in sorted(places, key=lambda place: (-place[0], -place[1])):
        line = lines[number - 1].encode()  # the columns of ast are bytes
        lines[number - 1] = (line[:start] + new.encode() + line[node.end_col_offset :]).decode()
    return "\n".join(lines)


def _classes(text: str) -> list[ast.ClassDef]:
    return [node for node in all_nodes(tree_of(text)) if isinstance(node, ast.ClassDef)]


def _binds(owner: ast.ClassDef, name: str) -> bool:
    return any(_binds_at_once(step, name) for step in _steps(owner.body))


def _reads(body: list[ast.stmt], names: set[str], own: str) -> Iterator[tuple[ast.Name, bool]]:
    """Yield where a class reads one of some names as it is made, each with whether that is around the class.

    Args:
        body: The body of the class.
        names: The names.
        own: The one of them that the class binds.
    """
    is_bound = False
    for step in _steps(body):
        for node, is_hidden in _at_once(step):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
                yield node, is_hidden or not is_bound
        is_bound = is_bound or _binds_at_once(step, own)


def _binds_at_once(step: ast.AST, name: str) -> bool:
    for node, is_hidden in _at_once(step):
        match node:
            case ast.Name(id=found, ctx=ast.Store()) if not is_hidden and found == name:
                return True
            case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found) | ast.ClassDef(name=found):
                if found == name:
                    return True
    return False


def _steps(nodes: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield what runs one after the other: statements, and of those with a block what stands in front of it first."""
    queue: list[ast.AST] = [*reversed(nodes)]
    while queue:
        node = queue.pop()
        if isinstance(node, _DEFINITIONS) or not isinstance(getattr(node, "body", None), list):
            yield node
        else:
            queue += [*ast.iter_child_nodes(node)][::-1]


def _at_once(node: ast.AST, hidden: frozenset[str] | None = None) -> Iterator[tuple[ast.AST, bool]]:
    """Yield what runs as a class is made, not the bodies of its functions, with whether the class is hidden there."""
    if not (isinstance(node, ast.Name) and hidden is not None and node.id in hidden):
        yield node, hidden is not None
    if isinstance(node, _COMPREHENSIONS):
        bound = {each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        first = node.generators[0].iter
        yield from _at_once(first, hidden)
        for child in ast.iter_child_nodes(node):
            for inner in ast.iter_child_nodes(child) if isinstance(child, ast.comprehension) else [child]:
                if inner is not first:
                    yield from _at_once(inner, (hidden or frozenset()) | bound)
        return
    for field, value in ast.iter_fields(node):
        if field == "body" and isinstance(node, _DEFINITIONS):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _at_once(child, hidden)
