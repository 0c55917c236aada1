"""Puts what a call passes into the f-strings of a body, where a library that works on text breaks the quotes.

An f-string is written anew from its tree: a text becomes a part of it, anything else stands in its braces.
"""

import ast
from collections.abc import Mapping
from typing import Final

from khepri.edits.python.offsets import Offsets

_PLAIN: Final = -1
"""The conversion of a value in braces that has none."""


class UnwritableError(ValueError):
    """What is passed cannot be written into an f-string of this Python."""


def with_filled_f_strings(body: str, values: Mapping[str, ast.expr]) -> str:
    """Return the statements of a function with the values of some parameters in the place of these in f-strings.

    Args:
        body: The statements, not indented.
        values: What stands for each parameter, its names marked where they are the caller's.

    Raises:
        SyntaxError: The body is no Python.
        UnwritableError: A value has quotes, a backslash or the like that cannot stand where it would.
    """
    finder = _Finder(values)
    finder.visit(ast.parse(body))
    offsets = Offsets(body)
    for old, new in sorted(finder.found, key=lambda pair: (-pair[0].lineno, -pair[0].col_offset)):
        start = offsets.start(old)
        end = offsets.end(old)
        body = body[:start] + _written(new, body[start:end]) + body[end:]
    return body


def marked_tree(value: ast.expr, mark: str) -> ast.expr:
    """Return an expression with a mark at the end of each of its names."""
    copied = ast.parse(ast.unparse(value), mode="eval").body
    for node in ast.walk(copied):
        if isinstance(node, ast.Name):
            node.id += mark
    return copied


class _Finder(ast.NodeVisitor):
    """Finds the f-strings that use some names, and makes them without these."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values
        self.found: list[tuple[ast.JoinedStr, ast.expr]] = []

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        copied = ast.parse(ast.unparse(node), mode="eval").body
        filler = _Filler(self._values)
        filled = filler.visit(copied)
        if filler.is_changed:
            self.found.append((node, filled))

    def _visit_scope(self, node: ast.AST) -> None:
        outer, self._values = self._values, _without_own(self._values, node)
        self.generic_visit(node)
        self._values = outer

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _visit_scope


class _Filler(ast.NodeTransformer):
    """Puts expressions in the place of names, and texts in braces beside the text around them."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values
        self.is_changed = False

    def visit_Name(self, node: ast.Name) -> ast.expr:
        self.is_changed = self.is_changed or node.id in self._values
        return self._values.get(node.id, node)

    def visit_Lambda(self, node: ast.Lambda) -> ast.expr:
        outer, self._values = self._values, _without_own(self._values, node)
        self.generic_visit(node)
        self._values = outer
        return node

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.expr:
        self.generic_visit(node)
        parts: list[ast.expr] = []
        for each in node.values:
            inner = each.value if isinstance(each, ast.FormattedValue) else None
            is_plain = isinstance(each, ast.FormattedValue) and each.conversion == _PLAIN and not each.format_spec
            if is_plain and isinstance(inner, ast.JoinedStr):
                parts += inner.values
            elif is_plain and isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                parts.append(inner)
            else:
                parts.append(each)
        node.values = _joined(parts)
        return node


def _without_own(values: Mapping[str, ast.expr], scope: ast.AST) -> dict[str, ast.expr]:
    """Return the values of the names that a function inside does not bind itself."""
    own = {node.arg for node in ast.walk(scope) if isinstance(node, ast.arg)}
    own |= {node.id for node in ast.walk(scope) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    return {name: value for name, value in values.items() if name not in own}


def _joined(parts: list[ast.expr]) -> list[ast.expr]:
    """Return the parts of an f-string with neighbouring texts as one."""
    joined: list[ast.expr] = []
    for each in parts:
        last = joined[-1] if joined else None
        if isinstance(each, ast.Constant) and isinstance(last, ast.Constant):
            joined[-1] = ast.Constant(str(last.value) + str(each.value))
        else:
            joined.append(each)
    return joined


def _written(node: ast.expr, old: str) -> str:
    """Return an f-string as code with the quotes that it had, if they can be; a plain text if nothing is in braces."""
    whole: ast.expr = node
    if isinstance(node, ast.JoinedStr) and all(isinstance(each, ast.Constant) for each in node.values):
        whole = node.values[0] if node.values else ast.Constant("")
    try:
        text = ast.unparse(ast.fix_missing_locations(whole))
        if ast.dump(ast.parse(text, mode="eval").body) != ast.dump(whole):
            raise UnwritableError
    except (SyntaxError, ValueError) as error:
        raise UnwritableError from error
    body = text.removeprefix("f")
    if old.rstrip().endswith('"') and body.startswith("'") and not body.startswith("'''") and '"' not in body:
        if "\\'" not in body and "'" not in body[1:-1]:
            return text[: len(text) - len(body)] + f'"{body[1:-1]}"'
    return text
