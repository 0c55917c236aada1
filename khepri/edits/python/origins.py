"""What each name at the top of a module stands for, and the import that brings it to another one."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from khepri.edits.python.import_lines import ImportStatement, is_typing_only
from khepri.edits.python.trees import tree_of

_TYPES: Final = re.compile(r"from (?:typing|typing_extensions|collections|collections\.abc) import ")
"""Modules that have the same types by the same names."""
_DOTTED: Final = re.compile(r"^(import \w+)\.[\w.]+$")


@dataclass(frozen=True)
class Module:
    """A Python file that gives or takes."""

    name: str
    """Dotted."""
    package: str
    """What its relative imports begin from."""
    path: str
    text: str


@dataclass(frozen=True)
class Origin:
    """What a name at the top of a module stands for."""

    statements: tuple[str, ...]
    """The imports that bring it, absolute, one name each; several after ``import a.b`` and ``import a.c``."""
    is_own: bool = False
    """True if the module itself makes it; others import it from there."""
    is_for_types: bool = False
    """True if only type checkers have it."""

    @property
    def is_type(self) -> bool:
        """True if it comes from a module of types."""
        return any(map(_TYPES.match, self.statements))

    @property
    def meanings(self) -> set[str]:
        """What it comes from, in a form in which equal things are equal."""
        plain = (_DOTTED.sub(r"\1", statement) for statement in self.statements)
        return {_TYPES.sub("from typing import ", statement) for statement in plain}


def origins(module: Module) -> dict[str, Origin]:
    """Return what each name at the top of a module stands for."""
    found: dict[str, Origin] = {}
    for node in tree_of(module.text).body:
        if is_main(node):
            continue  # What a file has as a program alone nobody imports from it.
        is_for_types = isinstance(node, ast.If) and is_typing_only(node) and not node.orelse
        for each in node.body if isinstance(node, ast.If) and is_for_types else [node]:
            if isinstance(each, ImportStatement):
                for alias in each.names:
                    known = found.get(bound_by(alias), Origin(()))
                    statements = (*known.statements, absolute(each, alias, module))
                    found[bound_by(alias)] = Origin(statements, known.is_own, is_for_types and not known.statements)
            else:
                own = (f"from {module.name} import {name}" for name in made_by(each))
                found |= {statement.rpartition(" ")[2]: Origin((statement,), is_own=True) for statement in own}
    return {name: origin for name, origin in found.items() if name != "*"}


def is_main(node: ast.stmt) -> bool:
    """Tell if a statement runs only where the module is the program."""
    return isinstance(node, ast.If) and ast.unparse(node.test).startswith("__name__ ==")


def stars_of(module: Module) -> Iterator[str]:
    """Yield the imports of everything (``*``) at the top of a module, absolute."""
    for node in tree_of(module.text).body:
        if isinstance(node, ast.ImportFrom) and node.names[0].name == "*":
            yield absolute(node, node.names[0], module)


def absolute(node: ImportStatement, alias: ast.alias, module: Module) -> str:
    """Return the import of one name, absolute."""
    if isinstance(node, ast.Import):
        return ast.unparse(ast.Import([alias]))
    plain = ast.alias(alias.name, None if alias.asname == alias.name else alias.asname)
    return ast.unparse(ast.ImportFrom(module_of(node, module), [plain], 0))


def module_of(node: ast.ImportFrom, module: Module) -> str:
    """Return what an import of a module imports from, absolute."""
    parts = module.package.split(".")
    base = parts[: len(parts) - node.level + 1] if node.level else []
    return ".".join([*base, *([node.module] if node.module else [])])


def made_by(node: ast.stmt) -> set[str]:
    """Return the names that a statement binds at the top of its module."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    names: set[str] = set()
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Name(ctx=ast.Store()):
                names.add(child.id)
            case ast.Import() | ast.ImportFrom():
                names |= {bound_by(alias) for alias in child.names}
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                pass
            case ast.stmt() | ast.expr() | ast.ExceptHandler() | ast.withitem():
                names |= made_by(child)  # type: ignore[arg-type]
    return names


def bound_by(alias: ast.alias) -> str:
    """Return the name that an import binds."""
    return alias.asname or alias.name.partition(".")[0]
