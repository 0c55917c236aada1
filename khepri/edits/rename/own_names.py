"""Tells where a definition's own name is read as the program runs, by what is given it: a decorator, for one."""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from khepri.edits.locate import Target
from khepri.edits.python.bare_names import called_name
from khepri.edits.python.imports import parsed
from khepri.edits.python.inline_calls import end_of
from khepri.edits.python.namesakes import Namesakes
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.rename.class_names import NAMES, is_shown, parents_in
from khepri.edits.rename.rename_notes import shown
from khepri.edits.workspace import Workspace

_NAMING: Final = frozenset(
    "asset command event flow group hook job listener op shared_task subcommand task tool".split()
)
"""Decorators of many libraries that call what they are given by its own name."""
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


def notes_on_own_name(workspace: Workspace, target: Target, new: str) -> tuple[str, ...]:
    """Return notes on what is given what is renamed and reads its name: a decorator, a descriptor, a call, a loop."""
    handed, read = _handed_to(workspace, target) if not target.is_member else (set[str](), list[str]())
    called = {*_given_to(target), *handed}
    notes = [
        f"@{ast.unparse(each)} may give it the name that it has: see who asks for {target.name}, which is {new} now"
        for each in _naming(target)
    ]
    if read:
        notes.append(
            f"the name of {target.name} is read at {shown(read)}, which is {new} now: see what is done with it"
        )
    words = b"|".join(each.encode() for each in sorted(called))
    reading = re.compile(rb"\b(?:def|class)\s+(?:%s)\b" % words)
    for path in workspace.files() if called else ():
        data = workspace.read(path) if path.endswith(".py") else None
        tree = parsed(data) if data is not None and reading.search(data) else None
        for node in all_nodes(tree) if tree is not None else ():
            if isinstance(node, (*_FUNCTIONS, ast.ClassDef)) and node.name in called:
                if (line := _reads_name(node)) is not None:
                    notes.append(
                        f"{node.name} reads the name of what it is given ({path}:{line}), which is {new} now: see what "
                        "it does with it"
                    )
    return tuple(dict.fromkeys(notes))


def _handed_to(workspace: Workspace, target: Target) -> tuple[set[str], list[str]]:
    """Return what is called with a definition, and where its name is read right there or in a loop over it."""
    called: set[str] = set()
    read: set[str] = set()
    named = Namesakes(workspace, target)
    for path in named.paths:
        tree, ends = parsed(workspace.read(path) or b"") or ast.Module([], []), named.places(path)
        parent_of = parents_in(tree)
        listed: set[str] = set()
        """The variables that list it."""
        lists: set[ast.AST] = set()
        for node in all_nodes(tree):
            if not isinstance(node, ast.Name | ast.Attribute) or end_of(node) not in ends:
                continue
            match parent := parent_of[node]:
                case ast.Attribute(attr=attr) if attr in NAMES and not is_shown(parent, parent_of):
                    read.add(f"{path}:{node.lineno}")
                case ast.Call(args=args) if node in args:
                    called.add(called_name(parent))
                case ast.List() | ast.Tuple() | ast.Set():
                    lists.add(parent)
                    if isinstance(made := parent_of[parent], ast.Assign):
                        listed |= {each.id for each in made.targets if isinstance(each, ast.Name)}
        for loop in all_nodes(tree):
            if isinstance(loop, ast.For | ast.comprehension) and isinstance(loop.target, ast.Name):
                if loop.iter in lists or (isinstance(loop.iter, ast.Name) and loop.iter.id in listed):
                    inside = loop if isinstance(loop, ast.For) else parent_of[loop]
                    read |= {f"{path}:{line}" for line in _read_of({loop.target.id}, inside, parent_of)}
    return called - {""}, sorted(read)


def _read_of(names: Collection[str], inside: ast.AST, parent_of: Mapping[ast.AST, ast.AST]) -> Iterator[int]:
    """Yield where the name of something is read, other than to show it."""
    for node in ast.walk(inside):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attr) if name in names and attr in NAMES:
                if not is_shown(node, parent_of):
                    yield node.lineno


def _given_to(target: Target) -> Iterator[str]:
    """Yield what decorates a definition, or makes the value of an attribute of a class."""
    try:
        tree = tree_of(target.source.text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in all_nodes(tree):
        if not target.start_line <= getattr(node, "lineno", 0) <= target.end_line:
            continue
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if node.name == target.name:
                yield from filter(None, map(called_name, node.decorator_list))
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=maker))
                | ast.AnnAssign(target=ast.Name(id=name), value=ast.Call(func=maker))
            ) if name == target.name and target.is_member:
                yield called_name(maker)


def _naming(target: Target) -> Iterator[ast.expr]:
    """Yield the decorators of a definition that make it known by its name, as a command for one, if told no other."""
    for node in all_nodes(parsed(target.source.data) or ast.Module([], [])):
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)) and (node.name, node.end_lineno) == (
            target.name,
            target.end_line,
        ):
            for each in node.decorator_list:
                call = each if isinstance(each, ast.Call) else None
                is_named = call is not None and (call.args or any(word.arg == "name" for word in call.keywords))
                if called_name(each) in _NAMING and not is_named:
                    yield each


def _reads_name(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> int | None:
    """Return the line where a function reads the name of what it is given, or a class is told it."""
    if isinstance(node, ast.ClassDef):
        told = (each for each in node.body if isinstance(each, _FUNCTIONS) and each.name == "__set_name__")
        return next((each.lineno for each in told), None)
    given = {each.arg for each in ast.walk(node) if isinstance(each, ast.arg)}
    return next(_read_of(given, node, parents_in(node)), None)
