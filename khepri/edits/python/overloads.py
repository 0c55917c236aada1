"""Finds the definitions that are one function: its overloads, or one for each platform, with the implementation."""

import ast
from dataclasses import replace
from typing import Final

from khepri.edits.locate import Target
from khepri.edits.python.signature import Definition
from khepri.repo.symbols import outline

_OF_PROPERTIES: Final = frozenset({"property", "cached_property", "getter", "setter", "deleter", "register"})


def definitions_of_one(target: Target) -> tuple[Definition, ...]:
    """Return the definitions of a function that follow one another, the implementation first.

    The accessors of a property are functions of their own; there it is the first alone.

    Raises:
        EditRefusedError: It is no function, or its file cannot be parsed.
    """
    found = [
        Definition(replace(target, start_line=symbol.start_line, end_line=symbol.end_line))
        for symbol in outline(target.source.path, target.source.text)
        if symbol.qualified_name == target.symbol and target.start_line <= symbol.start_line <= target.end_line
    ]
    if len(found) < 2 or any(_OF_PROPERTIES & set(_decorators(each)) for each in found):
        return (Definition(target),)
    # What is defined last is what runs.
    return tuple(sorted(found, key=lambda each: -each.target.start_line))


def _decorators(definition: Definition) -> list[str]:
    whole = (each.func if isinstance(each, ast.Call) else each for each in definition.node.decorator_list)
    return [ast.unparse(each).rpartition(".")[2] for each in whole]
