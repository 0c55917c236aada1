"""Tells where a name of a Python file stands for a parameter of a function, whatever else is called like it.

A parameter is a binding of its own. rope takes one that is keyword-only and annotated for the namesake outside of its
function, so what it finds is held against the scopes here.
"""

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from khepri.edits.python.offsets import Offsets
from khepri.edits.python.trees import all_nodes, tree_of

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SCOPES: Final = (*_FUNCTIONS, *_COMPREHENSIONS, ast.ClassDef)


class ParameterScopes:
    """The places of one name in one text. Immutable."""

    def __init__(self, text: str, name: str) -> None:
        """Find them; nothing is a parameter in a text that cannot be parsed.

        Args:
            text: A Python file.
            name: What is looked for.
        """
        self._text, self._name = text, name
        self._offsets = Offsets(text)
        self._ranges: list[tuple[int, int, bool]] = []
        self._keywords: set[int] = set()
        self._lambdas: list[tuple[int, int]] = []
        self._modules: list[tuple[int, int]] = []
        try:
            tree = tree_of(text)
        except (SyntaxError, ValueError, RecursionError):
            return
        self._keywords = {
            self._offsets.start(node) for node in all_nodes(tree) if isinstance(node, ast.keyword) and node.arg == name
        }
        self._modules = [
            (start := self._offsets.start(each), start + len(each.name))
            for node in all_nodes(tree)
            if isinstance(node, ast.Import)
            for each in node.names
            if "." in each.name or each.asname
        ]
        self._visit(tree, around=False, here=False)

    def __contains__(self, place: int) -> bool:
        """Return True if the name that begins at a place of the text, in characters, means a parameter."""
        if place in self._keywords or self._text[:place].rstrip().endswith("."):
            return False
        # The innermost scope comes last.
        return next((is_one for start, end, is_one in reversed(self._ranges) if start <= place < end), False)

    def is_keyword(self, place: int) -> bool:
        """Return True if the name that begins at a place is the one by which an argument is passed."""
        return place in self._keywords

    def is_of_lambda(self, place: int) -> bool:
        """Return True if the name that begins at a place is a parameter of a lambda."""
        return place not in self._keywords and any(start <= place < end for start, end in self._lambdas)

    def is_loaded_module(self, place: int) -> bool:
        """Return True if the name that begins at a place is a part of ``a.b`` in ``import a.b``, which is a module."""
        return any(start <= place < end for start, end in self._modules)

    def _visit(self, node: ast.AST, *, around: bool, here: bool) -> None:
        """Note what the name means in a node.

        Args:
            node: Any node.
            around: Whether it means a parameter in a function inside.
            here: Whether it does right here, which differs in the body of a class.
        """
        below = list(ast.iter_child_nodes(node))
        if isinstance(node, ast.arg) and node.arg == self._name:
            start = self._offsets.start(node)
            self._ranges.append((start, start + len(self._name), True))
        elif isinstance(node, _FUNCTIONS):
            body = [node.body] if isinstance(node, ast.Lambda) else node.body
            is_own = any(each.arg == self._name for each in _own_arguments(node.args))
            inside = is_own or (around and not _binds(body, self._name))
            self._note(body, inside)
            if isinstance(node, ast.Lambda):
                self._lambdas += self._owned(node)
            for child in body:
                below.remove(child)
                self._visit(child, around=inside, here=inside)
        elif isinstance(node, ast.ClassDef):
            inside = here and not _binds(node.body, self._name)
            self._note(node.body, inside)
            for child in node.body:
                below.remove(child)
                self._visit(child, around=around, here=inside)
        elif isinstance(node, _COMPREHENSIONS):
            inside = around and not _binds([each.target for each in node.generators], self._name)
            self._note([node], inside)
            # What comes first is read outside.
            self._note([node.generators[0].iter], here)
            around = here = inside
        for each in below:
            self._visit(each, around=around, here=here)

    def _owned(self, node: ast.Lambda) -> Iterator[tuple[int, int]]:
        for each in _own_arguments(node.args):
            if each.arg == self._name:
                yield self._offsets.start(each), self._offsets.start(each) + len(self._name)
                yield self._offsets.start(node.body), self._offsets.end(node.body)

    def _note(self, body: Sequence[ast.expr | ast.stmt], is_one: bool) -> None:
        self._ranges.append((self._offsets.start(body[0]), self._offsets.end(body[-1]), is_one))


def _own_arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (each for each in (arguments.vararg, arguments.kwarg) if each is not None)


def _binds(body: Sequence[ast.expr | ast.stmt], name: str) -> bool:
    """Return True if a scope gives a name a meaning of its own, or says that it is one of the module."""
    is_bound = False
    queue: list[ast.AST] = [*body]
    while queue:
        node = queue.pop()
        match node:
            case ast.Nonlocal(names=names) if name in names:
                return False
            case ast.Global(names=names):
                is_bound = is_bound or name in names
            case ast.Name(id=found, ctx=ast.Store() | ast.Del()):
                is_bound = is_bound or found == name
            case ast.FunctionDef(name=found) | ast.AsyncFunctionDef(name=found) | ast.ClassDef(name=found):
                is_bound = is_bound or found == name
            case ast.ExceptHandler(name=str(found)) | ast.MatchAs(name=str(found)) | ast.MatchStar(name=str(found)):
                is_bound = is_bound or found == name
            case ast.alias(name=path, asname=other):
                is_bound = is_bound or (other or path.partition(".")[0]) == name
        if not isinstance(node, _SCOPES):
            queue += ast.iter_child_nodes(node)
    return is_bound
