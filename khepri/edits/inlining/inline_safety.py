"""Whether a body and its arguments can be put in the place of a call as they are written.

A refactoring library that works on text puts ``x + 1`` into ``single(y) * 2`` and makes ``y + 1 * 2`` of it; and with
``x + x`` it makes ``take() + take()`` of ``single(take())``.
"""

import ast
import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping
from copy import deepcopy
from typing import Final

from khepri.edits.inlining.inline_later import late_name
from khepri.edits.inlining.inline_order import ACTING
from khepri.edits.python.inline_calls import calls_of, passed

_CLOSED: Final = (
    ast.Name,
    ast.Constant,
    ast.Call,
    ast.Attribute,
    ast.Subscript,
    ast.List,
    ast.Dict,
    ast.Set,
    ast.ListComp,
    ast.DictComp,
    ast.SetComp,
    ast.JoinedStr,
)
"""Expressions that hold together whatever stands around them."""
_STATEMENTS: Final = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Expr)
_MAKING: Final = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp, ast.GeneratorExp, ast.Lambda)
"""Expressions that make another object each time."""
_GIVEN: Final = re.compile(r"\b__(\d+)__(\w+)\b")
_MARK: Final = "_khepri_"
_REPEATING: Final = (
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.Lambda,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ListComp,
    ast.DictComp,
    ast.SetComp,
    ast.GeneratorExp,
)
"""What may evaluate an expression inside any number of times, or later."""


def function_of(definition: str) -> ast.FunctionDef | None:
    """Return the function of a definition, which is Python text without indentation; None for anything else.

    Raises:
        SyntaxError: It is no Python.
    """
    return next((each for each in ast.parse(definition).body if isinstance(each, ast.FunctionDef)), None)


def tied(function: ast.FunctionDef) -> str:
    """Return why the body of a function means something else outside of it; empty if it does not."""
    own = {each.arg for each in ast.walk(function.args) if isinstance(each, ast.arg)}
    for decorator in function.decorator_list:
        if ast.unparse(decorator) not in ("staticmethod", "classmethod"):
            return f"@{ast.unparse(decorator)} would be lost"
    for default in (*function.args.defaults, *function.args.kw_defaults):
        if default is not None and any(isinstance(node, (*ACTING, *_MAKING)) for node in ast.walk(default)):
            return f"its default {ast.unparse(default)} is made once for all calls"
    if name := late_name(function):
        return f"a function or generator that it makes uses {name} later on"
    for node in _within(function.body):
        match node:
            case ast.Yield() | ast.YieldFrom():
                return "it is a generator"
            case ast.Return() if node is not function.body[-1]:
                return "it returns before its end"
            case ast.Global(names=[name, *_]) | ast.Nonlocal(names=[name, *_]):
                return f"it assigns {name} of another scope"
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) if name in own:
                return f"it assigns its own parameter {name}"
            case ast.Call(func=ast.Name(id="super" | "locals" | "vars" as name), args=[]):
                return f"{name}() means the function that it stands in"
    return ""


def is_called(text: str, meant: Container[tuple[int, int]]) -> bool:
    """Tell if a Python file calls what some of its names, known by their ends, stand for."""
    return any(True for _ in calls_of(text, meant))


def _within(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield what runs as a part of a function, not later."""
    queue: list[ast.AST] = [*body]
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            queue.extend(ast.iter_child_nodes(node))


def with_plain_names(before: str, after: str) -> str:
    """Return a text in which the library has given names such as ``__0__total`` with ones that people would give."""
    text = after
    for number, name in dict.fromkeys(_GIVEN.findall(after)):
        if f"__{number}__{name}" not in before:
            taken = (count for count in range(2, len(text)) if not re.search(rf"\b{name}_{count}\b", text))
            text = re.sub(rf"\b__{number}__{name}\b", f"{name}_{next(taken)}", text)
    return text


def repeated_call(function: ast.FunctionDef, text: str, meant: Container[tuple[int, int]]) -> int | None:
    """Return the line of the first call that passes what must be evaluated once for a parameter that is not used once.

    Args:
        function: What is to be inlined.
        text: A Python file with calls.
        meant: The ends, as line and column, of the names in it that may mean the function.

    Raises:
        SyntaxError: The file is no Python.
    """
    uses = _uses(function)
    for call, _ in calls_of(text, meant):
        for parameter, value in passed(function, call).items():
            once = ACTING if uses[parameter] == 0 else (*ACTING, *_MAKING)
            if uses[parameter] != 1 and any(isinstance(node, once) for node in ast.walk(value)):
                return call.lineno
    return None


def torn_results(function: ast.FunctionDef, text: str, meant: Container[tuple[int, int]]) -> tuple[ast.expr, ...]:
    """Return what a function returns that would fall apart in the place of one of its calls, but for brackets.

    Args:
        function: What is to be inlined.
        text: A Python file with calls.
        meant: The ends, as line and column, of the names in it that may mean the function.

    Raises:
        SyntaxError: The file is no Python.
    """
    if not any(_tears(call, parents[0]) for call, parents in calls_of(text, meant)):
        return ()
    returned = (each.value for each in ast.walk(function) if isinstance(each, ast.Return))
    return tuple(value for value in returned if value is not None and not isinstance(value, _CLOSED))


def torn_values(function: ast.FunctionDef, values: Mapping[str, ast.expr]) -> frozenset[str]:
    """Return the parameters of a function in whose place what is passed would fall apart, but for brackets."""
    torn = {node.id for node, parent in _with_parents(function) if isinstance(node, ast.Name) and _tears(node, parent)}
    opened = {name: value for name, value in values.items() if name in torn and not isinstance(value, _CLOSED)}
    return frozenset(name for name, value in opened.items() if not _means_the_same(function, {name: value}))


def _means_the_same(function: ast.FunctionDef, values: Mapping[str, ast.expr]) -> bool:
    """True if values in the place of parameters mean as text what they mean in the tree."""
    meant = ast.Module(deepcopy(function.body), [])
    _InPlace(values).visit(meant)
    marks = {name: f"{_MARK}{name}" for name in values}
    written = ast.Module(deepcopy(function.body), [])
    _InPlace({name: ast.Name(mark) for name, mark in marks.items()}).visit(written)
    text = ast.unparse(ast.fix_missing_locations(written))
    for name, mark in marks.items():
        text = re.sub(rf"\b{mark}\b", ast.unparse(values[name]).replace("\\", r"\\"), text)
    try:
        return ast.dump(ast.parse(text)) == ast.dump(ast.parse(ast.unparse(ast.fix_missing_locations(meant))))
    except SyntaxError:
        return False


class _InPlace(ast.NodeTransformer):
    """Puts expressions in the place of names."""

    def __init__(self, values: Mapping[str, ast.expr]) -> None:
        self._values = values

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self._values.get(node.id, node)


def _uses(function: ast.FunctionDef) -> Counter[str]:
    """Count the uses of each name in a body; one inside a loop counts as many."""
    uses: Counter[str] = Counter()
    for statement in function.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name):
                uses[node.id] += 1
            elif isinstance(node, _REPEATING):
                uses.update(each.id for each in ast.walk(node) if isinstance(each, ast.Name))
    return uses


def _tears(node: ast.expr, parent: ast.AST) -> bool:
    """True if what stands in the place of ``node`` needs brackets unless it holds together by itself."""
    if isinstance(parent, _STATEMENTS):
        return False
    if isinstance(parent, ast.Call):
        return node is parent.func
    if isinstance(parent, ast.Subscript):
        return node is parent.value
    return not isinstance(parent, ast.keyword | ast.List | ast.Set | ast.FormattedValue)


def _with_parents(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    for parent in ast.walk(tree):
        for node in ast.iter_child_nodes(parent):
            yield node, parent
