"""Finds the parameters of a function that its decorators, or pytest, name: in a text that no call shows."""

import ast
import re
from collections.abc import Iterator

from khepri.edits.python.fixtures import makes_fixture
from khepri.edits.python.signature import Definition
from khepri.edits.refusal import EditRefusedError, Refusal


def places_in_cases(definition: Definition, name: str) -> list[int]:
    """Return where ``pytest.mark.parametrize`` names a parameter, in characters of the text.

    Raises:
        EditRefusedError: Another decorator names it, or pytest gives it what has this name.
    """
    found: list[int] = []
    for decorator in definition.node.decorator_list:
        if _is_table(decorator):
            for text in _named_by(decorator):
                start, end = definition.span(text)
                pattern = re.compile(rf"(?<!\w){re.escape(name)}(?!\w)")
                found += [match.start() for match in pattern.finditer(definition.text, start, end)]
        elif _names(decorator, name):
            _refuse(definition, name, f"@{ast.unparse(decorator)[:60]} names it")
    if not found and is_asked_for(definition, name):
        _refuse(definition, name, "pytest passes what has this name")
    return found


def refuse_named(definition: Definition, name: str) -> None:
    """Refuse to remove a parameter that a decorator names.

    Raises:
        EditRefusedError: One does.
    """
    for decorator in definition.node.decorator_list:
        if _is_table(decorator):
            texts = [ast.unparse(each) for each in _named_by(decorator)]
            is_named = any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", each) for each in texts)
        else:
            is_named = _names(decorator, name)
        if is_named:
            _refuse(definition, name, f"@{ast.unparse(decorator)[:60]} names it")


def is_asked_for(definition: Definition, name: str) -> bool:
    """Tell if a test or a fixture asks for something by the name of a parameter."""
    path, text = definition.target.source.path.rpartition("/")[2], definition.text
    is_test = definition.node.name.startswith("test") and (re.search(r"(^|_)test", path) or "import pytest" in text)
    is_hook = definition.node.name.startswith("pytest_")
    if not (is_test or is_hook or makes_fixture(definition.node)):
        return False
    arguments = definition.node.args
    places = [each.arg for each in (*arguments.posonlyargs, *arguments.args)]
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    asked = [
        *places[: len(places) - len(arguments.defaults)],
        *(each.arg for each, default in named if default is None),
    ]
    return name in asked and not (definition.is_method and name == places[0])


def _is_table(decorator: ast.expr) -> bool:
    return isinstance(decorator, ast.Call) and ast.unparse(decorator.func).rpartition(".")[2] == "parametrize"


def _named_by(decorator: ast.expr) -> Iterator[ast.Constant]:
    """Yield the texts in which a table of cases names parameters."""
    assert isinstance(decorator, ast.Call)
    named = [*decorator.args[:1], *(each.value for each in decorator.keywords if each.arg == "argnames")]
    for node in (each for top in named for each in ast.walk(top)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node


def _names(decorator: ast.expr, name: str) -> bool:
    for node in ast.walk(decorator):
        if isinstance(node, ast.keyword) and node.arg == name:
            return True
        # A text of several words is one for people.
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", node.value.replace("-", "_").lstrip("_")):
                return True
    return False


def _refuse(definition: Definition, name: str, why: str) -> None:
    raise EditRefusedError(
        Refusal.NOT_POSSIBLE, f"{name} of {definition.target.label} has to keep its name: {why}", "change that first"
    )
