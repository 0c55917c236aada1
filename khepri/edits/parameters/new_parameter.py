"""Adds a parameter with a default to a Python function, to its overloads, and to the methods that override it."""

import ast
import builtins
import keyword

from khepri.edits.change import ChangeSet, change_set
from khepri.edits.locate import Target, find_python
from khepri.edits.parameters.definition_time import missing_at_definition
from khepri.edits.parameters.parameter_notes import notes_on_stand_ins
from khepri.edits.parameters.parameters import finished
from khepri.edits.python.families import family_of
from khepri.edits.python.imports import star_sources
from khepri.edits.python.inline_names import FUNCTIONS, bound_in, top_level_names
from khepri.edits.python.mentions import uses_of
from khepri.edits.python.overloads import definitions_of_one
from khepri.edits.python.signature import Definition, edited
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.captured import check_captured
from khepri.edits.rename.loose_uses import forwarding
from khepri.edits.rename.rename import Refactoring, check_name
from khepri.edits.rename.rename_notes import shown
from khepri.edits.workspace import Workspace


def add_parameter(
    workspace: Workspace, path: str, symbol: str, name: str, default: str, annotation: str = ""
) -> Refactoring:
    """Add a parameter with a default after the others, so that no call has to change.

    Raises:
        EditRefusedError: There is no such function, it has that parameter, or the default is no expression.
    """
    target = find_python(workspace, path, symbol)
    definitions = definitions_of_one(target)
    check_name(name)
    if not default.strip():
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"a new parameter of {target.label} needs a default, or every call would break",
            "name a default, such as None",
        )
    for words in filter(None, (default, annotation)):
        _check_expression(words)
    default = _as_meant(default, target.source.text)
    if any(name in each.parameter_names for each in definitions):
        raise EditRefusedError(Refusal.NO_OP, f"{target.label} has a parameter {name} already")
    text = f"{name}: {annotation} = {default}" if annotation else f"{name}={default}"
    changes, notes = _added(workspace, change_set(f"add {text} to {target.label}", []), target, name, text)
    return finished(workspace, changes, (*notes, *notes_on_stand_ins(workspace, target)))


def _added(
    workspace: Workspace, changes: ChangeSet, target: Target, name: str, text: str
) -> tuple[ChangeSet, tuple[str, ...]]:
    """Add a parameter to a function and to the methods that override it, and tell of those."""
    forked = workspace.fork()
    followed, left, notes = [], [], list[str]()
    family = family_of(workspace, target)
    for member in family:
        definitions = definitions_of_one(find_python(forked, member.path, member.symbol))
        lacking = [each for each in definitions if name not in each.parameter_names]
        label = definitions[0].target.label
        if not lacking:
            continue
        if member is not family[0] and not (member.is_override and all(_knows(each, text) for each in lacking)):
            left.append(label)
            continue
        for each in lacking:
            _refuse_taking_over(each, name)
            _refuse_missing(each, text)
        notes += [*check_captured(workspace, lacking, name)]
        if member is not family[0]:
            followed.append(label)
        one = change_set("", [edited(lacking[0].target.source, [each.insertion(text) for each in lacking])])
        forked.take(one)
        changes = changes.merged(one)
    if followed:
        notes.append(
            f"{name} is added to {shown(followed)} too, overriding {target.symbol}: see whether it is used there"
        )
    if left:
        stay = "stays" if len(left) == 1 else "stay"
        notes.append(f"{shown(left)} of the same family {stay} without {name}: a call that passes it would fail there")
    if any(each.node.args.kwarg is not None for each in definitions_of_one(target)):
        notes += forwarding(workspace, changes, target, name)
    return changes, tuple(dict.fromkeys(notes))


def _refuse_taking_over(definition: Definition, name: str) -> None:
    """Refuse a parameter that would stand for what a body calls so now."""
    used = definition.uses(name)
    tree = tree_of(definition.text)
    is_known = hasattr(builtins, name) or bool(star_sources(tree, "")) or name in _bound(tree)
    if used and is_known:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{definition.target.label} uses another {name} at line {used[0]}, for which the parameter would stand",
            "choose another name, or rename that one first",
        )


def _refuse_missing(definition: Definition, parameter: str) -> None:
    """Refuse a default or a type that Python would look for before it is there."""
    if (missing := missing_at_definition(definition, parameter)) is None:
        return
    name, why = missing
    raise EditRefusedError(
        Refusal.NOT_POSSIBLE,
        f"Python evaluates {parameter} where it defines {definition.target.label}, at line {definition.node.lineno}, "
        f"and {name} {why}",
        f"put {name} above the function first, or use None as the default; a type can stand in quotes",
    )


def _bound(tree: ast.Module) -> set[str]:
    return top_level_names(tree) | {
        name for node in all_nodes(tree) if isinstance(node, FUNCTIONS) for name in bound_in(node)
    }


def _knows(definition: Definition, parameter: str) -> bool:
    """True if a function can have a parameter: each name in it stands in its file, above, or is Python's own."""
    function = ast.parse(f"def f({parameter}): ...")
    names = {node.id for node in ast.walk(function) if isinstance(node, ast.Name)}
    is_known = all(hasattr(builtins, name) or uses_of(definition.text, name) for name in names)
    return is_known and missing_at_definition(definition, parameter) is None


def _as_meant(default: str, text: str) -> str:
    """Return a default as it was meant: a word that nothing in the file is called is a text that lost its quotes."""
    word = default.strip()
    if word.isidentifier() and not keyword.iskeyword(word) and not hasattr(builtins, word) and not uses_of(text, word):
        return f'"{word}"'
    return word


def _check_expression(words: str) -> None:
    try:
        ast.parse(words, mode="eval")
    except (SyntaxError, ValueError) as error:
        raise EditRefusedError(Refusal.SYNTAX, f"{words[:60]!r} is no Python expression") from error
