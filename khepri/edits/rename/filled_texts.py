"""Finds the texts that are filled in by a name, and those that show one: ``"{name}".format(…)`` and ``f"{name=}"``.

The first keep the old name, since nobody can tell what they are filled from; the second change what they say.
"""

import ast
import re
from collections.abc import Iterator
from itertools import zip_longest

from khepri.edits.change import ChangeSet
from khepri.edits.python.imports import parsed
from khepri.edits.python.trees import all_nodes
from khepri.edits.rename.rename_notes import shown
from khepri.edits.workspace import Workspace


def notes_on_filled(workspace: Workspace, changes: ChangeSet, old: str, new: str) -> tuple[str, ...]:
    """Return a note on texts that are filled with attributes, or taken apart into names, and hold the old name.

    Args:
        workspace: Where.
        changes: What is proposed.
        old: The attribute as it was.
        new: Its new name.
    """
    after = {change.path: change.after for change in changes.files}
    trees: dict[str, ast.Module] = {}
    for path in sorted({*after, *workspace.files()}):
        data = after[path] if path in after else workspace.read(path) if path.endswith(".py") else None
        tree = parsed(data) if data is not None and path.endswith(".py") and old.encode() in data else None
        if tree is not None:
            trees[path] = tree
    # Where something gives the name itself to be filled in, a text that stands apart is meant to have that.
    is_given = any(_gives(tree, old) for tree in trees.values())
    lines = {path: sorted(_filled(tree, old, has_apart=not is_given)) for path, tree in trees.items()}
    places = dict.fromkeys(f"{path}:{line}" for path in trees for line in lines[path])
    if not places:
        return ()
    asked = f"{old} is filled in or looked for by a text at {shown([*places])}, which was left"
    return (f"{asked}: see whether {new} should be there",)


def notes_on_shown(changes: ChangeSet, new: str) -> tuple[str, ...]:
    """Return a note on the f-strings that show a renamed name itself, with ``=``, and so say something else now."""
    places: dict[str, None] = {}
    for change in changes.files:
        if not change.path.endswith(".py") or change.before is None or change.after is None:
            continue
        pieces = (list(_pieces(parsed(data))) for data in (change.before, change.after))
        for before, after in zip_longest(*pieces):
            if before is not None and after is not None and before.value != after.value:
                if re.search(rf"\b{re.escape(new)}\b.*=\s*\Z", str(after.value)):
                    places[f"{change.path}:{after.lineno}"] = None
    if not places:
        return ()
    return (f"an f-string shows the name itself, with =, and so says {new} now: {shown([*places])}",)


def _pieces(tree: ast.Module | None) -> Iterator[ast.Constant]:
    for node in all_nodes(tree) if tree is not None else ():
        if isinstance(node, ast.JoinedStr):
            yield from (each for each in node.values if isinstance(each, ast.Constant))


def _gives(tree: ast.Module, name: str) -> bool:
    for node in all_nodes(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="format" | "substitute" | "safe_substitute"), keywords=given):
                if any(each.arg == name for each in given):
                    return True
    return False


def _filled(tree: ast.Module, name: str, *, has_apart: bool) -> Iterator[int]:
    """Yield the lines of the texts that hold a name where it is filled in, also of those that stand apart if wanted."""
    word = re.escape(name)
    # The first part of a field is an argument, what follows a dot an attribute.
    argument = re.compile(rf"\{{{word}(?=[.\[!:}}])")
    attribute = re.compile(rf"\{{[^{{}}]*\.{word}(?=[.\[!:}}])")
    old_style, dollar = re.compile(rf"%\({word}\)"), re.compile(rf"\$(?:{word}\b|\{{{word}\}})")
    mocked = re.compile(rf"(?:\w+\.)*{word}(?:\.\w+)*\.(?:return_value|side_effect)")
    for node in all_nodes(tree):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format"), keywords=given):
                is_open = any(each.arg is None for each in given)
                is_given = any(each.arg == name for each in given)
                plain = _plain(text)
                if attribute.search(plain) or (is_open and not is_given and argument.search(plain)):
                    yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="format_map")):
                if argument.search(_plain(text)) or attribute.search(_plain(text)):
                    yield node.lineno
            case ast.BinOp(left=ast.Constant(value=str(text)), op=ast.Mod(), right=right):
                if old_style.search(text) and not isinstance(right, ast.Dict):
                    yield node.lineno
            case ast.Call(func=ast.Name(id="Template") | ast.Attribute(attr="Template"), args=[ast.Constant() as text]):
                if dollar.search(str(text.value)):
                    yield node.lineno
            case (
                ast.Assign(value=ast.Constant(value=str(text))) | ast.AnnAssign(value=ast.Constant(value=str(text)))
            ) if has_apart:
                plain = _plain(text)
                if argument.search(plain) or attribute.search(plain) or old_style.search(text):
                    yield node.lineno
            case ast.Constant(value=str(text)) if mocked.fullmatch(text):
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Constant(value=str(text)), attr="split")):
                if name in re.findall(r"\w+", text) and text != name:
                    yield node.lineno


def _plain(text: str) -> str:
    """Return a text without the braces that stand for themselves."""
    return text.replace("{{", "").replace("}}", "")
