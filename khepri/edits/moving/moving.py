"""Takes a top-level definition out of one Python file and puts it into another, each with the imports that it needs.

A name in the definition must stand for the same there as here. What cannot be is refused: a name that is taken there,
state of a module that lives in it alone. Other files are not known here.
"""

import ast
import builtins
import keyword
import re
from collections.abc import Collection
from typing import Final

from khepri.edits.python.import_lines import (
    ImportStatement,
    joined,
    with_import,
    with_typing_import,
    without_imports,
)
from khepri.edits.python.mentions import public_names, quoted_names
from khepri.edits.python.origins import (
    Module,
    Origin,
    absolute,
    bound_by,
    is_main,
    made_by,
    module_of,
    origins,
    stars_of,
)
from khepri.edits.python.scopes import names_of
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.refusal import EditRefusedError, Refusal

_ANNOTATIONS: Final = "from __future__ import annotations"
_DOTTED: Final = re.compile(r"^(import \w+)\.[\w.]+$")
_STAR: Final = re.compile(r"^from \S+ import \*", re.MULTILINE)
_TYPE_COMMENT: Final = re.compile(r"#\s*type:.*")
_WORD: Final = re.compile(r"[A-Za-z_]\w*")
_TYPING_ONLY: Final = "TYPE_CHECKING"


def moved(
    source: Module, goal: Module, name: str, lines: tuple[int, int], exported: Collection[str]
) -> tuple[str, str]:
    """Return the texts of both files once a definition has moved.

    Args:
        source: Where it is.
        goal: Where it goes; its text is empty if it is new.
        name: The definition.
        lines: Its first and last line, from 1, decorators included.
        exported: Names that other files import from the source, or ask for as its attributes.

    Raises:
        EditRefusedError: It cannot stand there as it stands here.
    """
    _refuse_unnamed(goal)
    _refuse_broken(source, goal)
    start, end = _region(source, name, lines)
    rows = source.text.split("\n")
    code = _with_absolute_imports("\n".join(rows[start:end]), source, goal)
    left = "\n".join(joined(rows[:start], rows[end:]))
    _refuse_state(source, code, left, name)
    return _left(left, code, goal, name, exported), _received(code, source, goal, name)


def _refuse_unnamed(module: Module) -> None:
    """Refuse to import from a file such as ``my-script.py``."""
    if not all(part.isidentifier() and not keyword.iskeyword(part) for part in module.name.split(".")):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE, f"{module.path} cannot be imported by its name", "choose another file"
        )


def _refuse_broken(*modules: Module) -> None:
    for module in modules:
        try:
            tree_of(module.text)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise EditRefusedError(Refusal.SYNTAX, f"{module.path} is no valid Python", "mend it first") from error


def _left(text: str, code: str, goal: Module, name: str, exported: Collection[str]) -> str:
    """Return the source without what only the definition needed, and with an import of it if it is still used."""
    used = (needed(code) | quoted_names(code)) - set(exported)
    statement = f"from {goal.name} import {name}"
    had_typing = _TYPING_ONLY in _mentioned(text)
    # Before the others go, so that it stands where they stood.
    if name in needed(text) or (_STAR.search(text) and name in _mentioned(text)):
        text = with_import(text, statement)
    elif name in quoted_names(text):
        text = with_typing_import(text, statement)
    text = _without_unused(text, used, code)
    return _without_unused(text, {_TYPING_ONLY}, code) if had_typing else text


def _without_unused(text: str, names: Collection[str], code: str) -> str:
    """Drop the imports of those names that nothing mentions; ``import a.b`` only if the code that went wrote a.b."""
    gone = set(names) - _mentioned(text) - public_names(text)

    def is_unwanted(node: ImportStatement, alias: ast.alias) -> bool:
        is_dotted = isinstance(node, ast.Import) and alias.asname is None and "." in alias.name
        return bound_by(alias) in gone and (not is_dotted or _writes(code, alias.name))

    return without_imports(text, is_unwanted)


def _received(code: str, source: Module, goal: Module, name: str) -> str:
    """Return the goal with the definition in it, and all that it needs."""
    here, there, at_run_time = origins(source), origins(goal), needed(code)
    _refuse_others(source, goal, name, code)
    own = f"from {source.name} import {name}"
    text = without_imports(goal.text, lambda node, alias: absolute(node, alias, goal) == own)
    used = at_run_time | quoted_names(code)
    plain: set[str] = set()
    for_types: set[str] = set()
    for each in used & here.keys() - {name}:
        is_quoted = each not in at_run_time and not here[each].is_type
        missing = _missing(here[each], there.get(each), code)
        (for_types if is_quoted or here[each].is_for_types else plain).update(missing)
    if any(not hasattr(builtins, each) for each in at_run_time - here.keys() - there.keys() - {name}):
        plain |= set(stars_of(source))
    if any(statement.startswith(f"from {source.name} import ") for statement in plain | for_types):
        _refuse_unnamed(source)
    for statement in sorted(plain, key=lambda each: (each.startswith("from"), each)):
        text = with_import(text, statement)
    for statement in sorted(for_types):
        text = with_typing_import(text, statement)
    if _ANNOTATIONS in source.text.split("\n") and _is_annotated(code):
        text = with_import(text, _ANNOTATIONS)
    return _placed(text, code, name, {each for each in used if each in there and there[each].is_own})


def _refuse_others(source: Module, goal: Module, name: str, code: str) -> None:
    """Refuse to put a definition where one of the names that it uses stands for something else."""
    here, there = origins(source), origins(goal)
    for each in sorted((needed(code) | quoted_names(code)) & there.keys() - {name}):
        is_same = each in here and bool(there[each].meanings & here[each].meanings)
        if not is_same and (each in here or hasattr(builtins, each)):
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"{name} uses {each}, which stands for something else in {goal.path}",
                "rename one of them first, or choose another file",
            )


def _missing(origin: Origin, known: Origin | None, code: str) -> list[str]:
    """Return the imports that some code needs where a name is not known, or not all of it."""
    statements = [*origin.statements]
    if len(statements) > 1:  # of ``import a.b`` and ``import a.c`` those whose path it writes
        statements = [each for each in statements if _writes(code, each.split()[1])] or statements
    if known is None or (known.is_for_types and not origin.is_for_types):
        return statements
    return [each for each in statements if not known.is_own and each not in known.statements and _DOTTED.match(each)]


def _placed(text: str, code: str, name: str, own: Collection[str]) -> str:
    """Return a text with a definition at its end, or before what uses it as the module is imported."""
    body, rows = tree_of(text).body, text.split("\n")
    is_value = isinstance(tree_of(code).body[-1], ast.Assign | ast.AnnAssign)
    place = len(rows)
    for node in body:
        is_definition = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        if is_main(node) or name in _run_at_once(node) or (is_value and is_definition and not own):
            place = _first_line(node) - 1
            while place and rows[place - 1].startswith("#"):
                place -= 1
            break
    before, after = _trimmed(rows[:place]), _trimmed(rows[place:])
    gap = [""] if is_value and before and not before[-1][:1].isspace() else ["", ""]
    return "\n".join([*before, *(gap if before else []), *code.split("\n"), *(["", "", *after] if after else []), ""])


def _region(source: Module, name: str, lines: tuple[int, int]) -> tuple[int, int]:
    """Return where the lines of a definition begin, from 0, with the comments above them, and where they end.

    Raises:
        EditRefusedError: They hold something else as well, or are a part of something.
    """
    start, end = lines[0] - 1, lines[1]
    own: set[str] = set()
    for node in tree_of(source.text).body:
        if _first_line(node) <= end and _last_line(node) > start:
            own |= made_by(node)
            if _first_line(node) <= start or _last_line(node) > end:
                own.add("")
    if own != {name}:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{source.path}:{lines[0]}-{lines[1]} holds more than {name}",
            "let it have lines of its own at the top level first",
        )
    rows = source.text.split("\n")
    above = start
    while above and rows[above - 1].startswith("#"):
        above -= 1
    # A comment at the very top is one of the file.
    return (above or start), end


def _refuse_state(source: Module, code: str, left: str, name: str) -> None:
    """Refuse to part a definition from a name of its module that functions assign, or such a name from them."""
    if name in _assigned(left):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"functions of {source.path} assign {name} as a global, and would assign another one then",
            "move the whole module, or let them keep it in an object first",
        )
    shared = (_assigned(source.text) - {name}) & (_mentioned(code))
    if shared:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{name} uses {min(shared)}, which functions of {source.path} assign as a global",
            "move the whole module, or pass the value to it first",
        )


def _assigned(text: str) -> set[str]:
    return {each for node in all_nodes(tree_of(text)) if isinstance(node, ast.Global) for each in node.names}


def _with_absolute_imports(code: str, source: Module, goal: Module) -> str:
    """Return a definition whose own relative imports mean the same in another package."""
    rows = code.split("\n")
    for node in all_nodes(tree_of(code)):
        if isinstance(node, ast.ImportFrom) and node.level and source.package != goal.package:
            statement = ast.unparse(ast.ImportFrom(module_of(node, source), node.names, 0))
            rows[node.lineno - 1 : node.end_lineno] = [
                " " * node.col_offset + statement,
                *["\0"] * (_last_line(node) - node.lineno),
            ]
    return "\n".join(row for row in rows if row != "\0")


def _run_at_once(node: ast.AST) -> set[str]:
    """Return the names that a statement uses as its module is imported: not those in the bodies of functions."""
    names = {node.id} if isinstance(node, ast.Name) else set()
    for field, value in ast.iter_fields(node):
        if field == "body" and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        for child in value if isinstance(value, list) else [value]:
            names |= _run_at_once(child) if isinstance(child, ast.AST) else set()
    return names


def needed(text: str) -> set[str]:
    """Return the names that code takes from around it as it runs; those of Python's own are among them."""
    found = names_of(text)
    if found is None:
        raise EditRefusedError(
            Refusal.SYNTAX,
            "the code here has names that Python itself cannot make out",
            "compile the file, and mend it",
        )
    names = {node.id for node in all_nodes(tree_of(text)) if isinstance(node, ast.Name)}
    return {*found.unresolved, *(name for name in names if hasattr(builtins, name))}


def _mentioned(text: str) -> set[str]:
    """Return every name that code uses, or that stands in the place of a type."""
    names = {node.id for node in all_nodes(tree_of(text)) if isinstance(node, ast.Name)}
    comments = (word for comment in _TYPE_COMMENT.findall(text) for word in _WORD.findall(comment))
    return names | quoted_names(text) | set(comments)


def _writes(code: str, path: str) -> bool:
    return re.search(rf"\b{re.escape(path)}\b", code) is not None


def _is_annotated(code: str) -> bool:
    return any(
        getattr(node, field, None) is not None
        for node in all_nodes(tree_of(code))
        for field in ("annotation", "returns")
    )


def _first_line(node: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(each.lineno for each in decorators)])


def _last_line(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno


def _trimmed(rows: list[str]) -> list[str]:
    """Return lines without the empty ones on both sides."""
    filled = [number for number, row in enumerate(rows) if row.strip()]
    return rows[filled[0] : filled[-1] + 1] if filled else []
