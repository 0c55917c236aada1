"""Finds the uses of a function through which a changed parameter may still be passed, and no call of it shows that.

It may be handed to something that calls it, such as ``partial`` or ``map``, and a call may pass on ``**`` whatever it
was given.
"""

import ast
import re
from collections.abc import Iterator
from typing import Final

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.locate import Target, find_python
from khepri.edits.python.bare_names import called_name
from khepri.edits.python.class_relations import relatives
from khepri.edits.python.found_calls import is_builder
from khepri.edits.python.imports import parsed
from khepri.edits.python.inline_calls import end_of
from khepri.edits.python.namesakes import Namesakes
from khepri.edits.python.overloads import definitions_of_one
from khepri.edits.python.passed_keys import may_pass
from khepri.edits.python.reflection import named_uses
from khepri.edits.python.starred_keys import starred_keys
from khepri.edits.python.super_uses import CONSTRUCTORS
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.refusal import EditRefusedError
from khepri.edits.rename.composed_names import composed_places
from khepri.edits.rename.own_calls import OwnCalls
from khepri.edits.rename.rename_notes import shown
from khepri.edits.workspace import Workspace
from khepri.repo.text import text_or_nothing

_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_HARMLESS: Final = frozenset(
    "property cached_property setter deleter getter staticmethod classmethod abstractmethod overload override final "
    "cache lru_cache wraps contextmanager asynccontextmanager deprecated fixture parametrize usefixtures skip skipif "
    "xfail".split()
)
"""Decorators whose functions are called as they are written, or by pytest."""
_PARTIAL: Final = ("partial", "partialmethod")


def notes_on_loose_uses(
    workspace: Workspace, changes: ChangeSet, target: Target, name: str, *, is_removed: bool
) -> tuple[str, ...]:
    """Return notes that name the places through which a parameter may still be passed.

    Args:
        workspace: Where.
        changes: What is proposed.
        target: The function, as it was.
        name: The parameter that is not there any more.
        is_removed: True if it has no other name now.
    """
    handed: list[str] = []
    forwarded: list[str] = []
    is_passed = is_removed or _is_passed(workspace, changes, name)
    for path, _, tree, meant in _files(workspace, changes, target):
        for node, parent in _with_parents(tree):
            if isinstance(node, ast.Name | ast.Attribute) and end_of(node) in meant and isinstance(node.ctx, ast.Load):
                call = parent if isinstance(parent, ast.Call) else None
                if call is not None and call.func is node:
                    forwarded += [f"{path}:{node.lineno}"] * may_pass(call, name)
                elif (is_passed and not is_builder(target)) or (call is not None and _names(call, name)):
                    handed.append(f"{path}:{node.lineno}")
        forwarded += [f"{path}:{line}" for line in _super_calls(tree, target, name) if is_builder(target)]
    if is_builder(target):
        own = OwnCalls(workspace, changes, target).calls(with_bases=True)
        forwarded += [f"{path}:{call.lineno}" for path, call in own if may_pass(call, name)]
    notes = []
    # What is reached through an object, such as ``app.get``, calls it for others.
    decorators = [f"@{ast.unparse(each)[:60]}" for each in _taking_it(target)]
    if decorators and (is_passed or any("." in each for each in decorators)):
        notes.append(f"{target.label} is handed on to {', '.join(decorators)}: see that nothing passes {name} there")
    if target.name == "__call__" and is_passed:
        owner = target.symbol.rpartition(".")[0]
        notes.append(f"an object of {owner} may be called by any name: see that nothing passes {name} there")
    if handed:
        notes.append(f"{target.label} is handed on at {shown(_sorted(handed))}: see that nothing passes {name} there")
    if registered := _registered(workspace, target, name):
        notes.append(f"{shown(registered)} is run for {target.label} by the type that it gets, and takes {name} still")
    if replaced := _replaced(workspace, changes, target, name):
        notes.append(
            f"{target.label} is replaced by its name at {shown(replaced)}: see that nothing takes {name} there"
        )
    if is_passed and (called := _called_by_name(workspace, changes, target)):
        notes.append(
            f"{target.label} may be called by its name at {shown(called)}: see that nothing passes {name} there"
        )
    if is_builder(target) and (unknown := _on_variables(workspace, changes, name)):
        owner = target.symbol.rpartition(".")[0]
        notes.append(f"{shown(unknown)} passes {name} to what may be {owner} or a class below it, and was left")
    return (*notes, *_on_forwarding(forwarded, target, name))


def forwarding(workspace: Workspace, changes: ChangeSet, target: Target, name: str) -> tuple[str, ...]:
    """Return a note that names the calls of a function that pass ``**`` on, whatever is among it."""
    found: list[str] = []
    for path, _, tree, meant in _files(workspace, changes, target):
        calls = (node for node in all_nodes(tree) if isinstance(node, ast.Call))
        named = (
            each for each in calls if isinstance(each.func, ast.Name | ast.Attribute) and end_of(each.func) in meant
        )
        found += [f"{path}:{each.lineno}" for each in named if may_pass(each, name)]
        found += [f"{path}:{line}" for line in _super_calls(tree, target, name) if is_builder(target)]
    return _on_forwarding(found, target, name)


def _called_by_name(workspace: Workspace, changes: ChangeSet, target: Target) -> list[str]:
    """Return where a function may be got by a text with its name, or by one that is put together."""
    if target.name in CONSTRUCTORS:
        return []
    named = [f"{use.path}:{use.line}" for use in named_uses(workspace, target, changes) if not use.is_path]
    return _sorted([*named, *composed_places(workspace, changes, target, relatives(workspace, target))])


def _registered(workspace: Workspace, target: Target, name: str) -> list[str]:
    """Return the functions that are registered for one of ``functools.singledispatch`` and take a parameter."""
    if not any(called_name(each).startswith("singledispatch") for each in _taking_it(target)):
        return []
    found = []
    for path, _, tree, meant in _files(workspace, ChangeSet("", ()), target):
        functions = (node for node in all_nodes(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
        for node in functions:
            for each in node.decorator_list:
                match each:
                    case (
                        ast.Attribute(value=of, attr="register")
                        | ast.Call(func=ast.Attribute(value=of, attr="register"))
                    ) if end_of(of) in meant:
                        taken = (one.arg for one in ast.walk(node) if isinstance(one, ast.arg))
                        found += [f"{path}:{node.lineno}"] * (name in taken)
    return found


def _replaced(workspace: Workspace, changes: ChangeSet, target: Target, name: str) -> list[str]:
    """Return where tests put something in the place of a function, by its path, in files that name the parameter."""
    files = workspace.fork()
    files.take(changes)
    word = re.compile(rb"\b%s\b" % name.encode())
    uses = (use for use in named_uses(workspace, target, changes) if use.is_path)
    return _sorted([f"{use.path}:{use.line}" for use in uses if word.search(files.read(use.path) or b"")])


def _on_forwarding(places: list[str], target: Target, name: str) -> tuple[str, ...]:
    if not places:
        return ()
    return (
        f"{shown(_sorted(places))} passes ** on to {target.label}: see that {name} is not among it, "
        "and what is called with it",
    )


def with_partials(workspace: Workspace, changes: ChangeSet, target: Target, old: str, new: str) -> ChangeSet:
    """Return the rename of a parameter of a function with what ``functools.partial`` passes to it by name."""
    if target.is_member:
        return changes
    changed = {change.path: change for change in changes.files}
    for path, text, tree, meant in _files(workspace, changes, target):
        lines = text.encode().split(b"\n")
        for each in sorted(_partials(tree, meant, old), key=lambda each: (each.lineno, each.col_offset), reverse=True):
            row, start = lines[each.lineno - 1], each.col_offset
            lines[each.lineno - 1] = row[:start] + new.encode() + row[start + len(old.encode()) :]
        after = b"\n".join(lines).decode()
        if after != text:
            before = changed[path].before if path in changed else workspace.read(path)
            now = (changed[path].after if path in changed else before) or b""
            changed[path] = FileChange(path, before, replace_text(now, after, path))
    return change_set(changes.title, changed.values())


def _partials(tree: ast.Module, meant: set[tuple[int, int]], name: str) -> Iterator[ast.keyword]:
    for node in all_nodes(tree):
        match node:
            case ast.Call(func=ast.Name(id=called) | ast.Attribute(attr=called), args=[first, *_], keywords=keywords):
                if called in _PARTIAL and end_of(first) in meant:
                    yield from (each for each in keywords if each.arg == name)


def _files(
    workspace: Workspace, changes: ChangeSet, target: Target
) -> Iterator[tuple[str, str, ast.Module, set[tuple[int, int]]]]:
    """Yield the files that may use a function, or the class that it builds, as proposed, with where names of it end."""
    after = {change.path: change.after for change in changes.files}
    try:
        used = (
            find_python(workspace, target.source.path, target.symbol.rpartition(".")[0])
            if is_builder(target)
            else target
        )
    except EditRefusedError:
        return
    namesakes = Namesakes(workspace, used, after)
    for path in workspace.files():
        data = after[path] if path in after else workspace.read(path) if path.endswith(".py") else None
        if data is None or not path.endswith(".py") or used.name.encode() not in data:
            continue
        text = text_or_nothing(data)
        try:
            yield path, text, tree_of(text), set(namesakes.places(path))
        except (SyntaxError, ValueError, RecursionError):
            continue


def _is_passed(workspace: Workspace, changes: ChangeSet, name: str) -> bool:
    """Tell if any call of the repository, as proposed, passes something by a name, or a function handles what is."""
    after = {change.path: change.after for change in changes.files}
    written = re.compile(rb"\b%s\s*=(?!=)|[\"']%s[\"']" % (name.encode(), name.encode()))
    for path in workspace.files():
        data = after[path] if path in after else workspace.read(path) if path.endswith(".py") else None
        tree = parsed(data) if data is not None and path.endswith(".py") and written.search(data) else None
        if tree is not None and any(_handles(node, name) for node in all_nodes(tree)):
            return True
    return False


def _handles(node: ast.AST, name: str) -> bool:
    match node:
        case ast.keyword(arg=passed):
            return passed == name
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return any(starred_keys(node, name))
    return False


def _on_variables(workspace: Workspace, changes: ChangeSet, name: str) -> list[str]:
    """Return where something is passed by a name to what a function was given or has found: a class, maybe."""
    after = {change.path: change.after for change in changes.files}
    written = re.compile(rb"\b%s\s*=(?!=)" % name.encode())
    found = set()
    for path in workspace.files():
        data = after[path] if path in after else workspace.read(path) if path.endswith(".py") else None
        tree = parsed(data) if data is not None and path.endswith(".py") and written.search(data) else None
        functions = (each for each in all_nodes(tree) if isinstance(each, _FUNCTIONS)) if tree is not None else ()
        for function in functions:
            inside = [*ast.walk(function)]
            bound = {each.arg for each in inside if isinstance(each, ast.arg)}
            bound |= {each.id for each in inside if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
            for node in inside:
                match node:
                    case ast.Call(func=ast.Name(id=called), keywords=given) if called in bound:
                        found |= {f"{path}:{node.lineno}" for each in given if each.arg == name}
                    case ast.Call(func=ast.Subscript(), keywords=given):
                        found |= {f"{path}:{node.lineno}" for each in given if each.arg == name}
    return _sorted([*found])


def _taking_it(target: Target) -> list[ast.expr]:
    """Return the decorators of a function that may pass it to somebody who calls it."""
    try:
        decorators = definitions_of_one(target)[0].node.decorator_list
    except EditRefusedError:
        return []
    return [each for each in decorators if _last(each.func if isinstance(each, ast.Call) else each) not in _HARMLESS]


def _names(call: ast.Call, name: str) -> bool:
    """Return True if a call passes something by a name, or a dictionary with it."""
    texts = (node.value for node in ast.walk(call) if isinstance(node, ast.Constant))
    return any(each.arg == name for each in call.keywords) or name in texts


def _super_calls(tree: ast.Module, target: Target, name: str) -> list[int]:
    """Return the lines where classes below the one of a constructor pass ``**`` to it."""
    owner = target.symbol.rpartition(".")[0].rpartition(".")[2]
    classes = [node for node in all_nodes(tree) if isinstance(node, ast.ClassDef)]
    below = {owner}
    while new := {each.name for each in classes if below & {_last(base) for base in each.bases}} - below:
        below |= new
    calls = (node for each in classes if each.name in below for node in ast.walk(each) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if _last(call.func) == target.name and may_pass(call, name)]


def _last(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
        case ast.Subscript(value=value):
            return _last(value)
    return ""


def _with_parents(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.AST]]:
    """Yield each node with what it stands in, which for what is passed by name is the call."""
    for parent in all_nodes(tree):
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.keyword):
                yield node.value, parent
            elif not isinstance(parent, ast.keyword):
                yield node, parent


def _sorted(places: list[str]) -> list[str]:
    return sorted(set(places))
