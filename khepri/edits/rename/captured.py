"""Finds the calls that pass a name into ``**kwargs`` already, which a parameter of that name would take for itself."""

from collections.abc import Iterable

from khepri.edits.locate import read_source
from khepri.edits.python.calls import Call, calls_of
from khepri.edits.python.foreign import Foreign
from khepri.edits.python.found_calls import classes_below, found_calls, is_builder
from khepri.edits.python.signature import Definition
from khepri.edits.python.starred_keys import starred_keys
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.rename_notes import shown
from khepri.edits.workspace import Workspace


def check_captured(workspace: Workspace, definitions: Iterable[Definition], name: str) -> tuple[str, ...]:
    """Make sure that no call passes by a name what goes into the ``**kwargs`` of a function, or is asked of them.

    Args:
        workspace: Where, as it was before the function had a parameter of that name.
        definitions: The function with its overloads and its family.
        name: What the parameter is to be called.

    Returns:
        A note on calls of what nobody knows that may do so.

    Raises:
        EditRefusedError: One does, or the function does.
    """
    unsure: set[str] = set()
    for each in definitions:
        target, taking = each.target, each.node.args.kwarg
        for key in starred_keys(each.node, name):
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"{target.label} looks for {name} among its ** at line {key.lineno}, where it would not be any more",
                "choose another name, or rewrite that line first",
            )
        passing = _passing(workspace, each, name) if taking is not None else {}
        known = set(found_calls(workspace, target)) if passing else set()
        for at, call in sorted(passing.items(), key=lambda item: item[0]):
            if at in known and taking is not None:
                raise EditRefusedError(
                    Refusal.NOT_POSSIBLE,
                    f"{at[0]}:{call.line} passes {name} already, which is among the **{taking.arg} of {target.label}",
                    "choose another name, or change that call first",
                )
            unsure.add(f"{at[0]}:{call.line}")
    if not unsure:
        return ()
    return (f"{shown(sorted(unsure))} may pass {name} as one of ** already: see that it is meant for the parameter",)


def _passing(workspace: Workspace, definition: Definition, name: str) -> dict[tuple[str, int], Call]:
    """Return the calls of what is called like a function, or like the class that it builds, that pass the name."""
    target = definition.target
    called = {target.name, *(classes_below(workspace, target) if is_builder(target) else ())}
    if is_builder(target):
        called |= {"cls", "type(self)"}
    foreign = Foreign(workspace)
    found: dict[tuple[str, int], Call] = {}
    for path in workspace.files():
        data = workspace.read(path) if path.endswith(".py") else None
        if data is None or name.encode() not in data:
            continue
        text = read_source(workspace, path).text
        for each in called:
            calls = (
                [call for call in calls_of(text, each) if name in call.passed] if each.partition("(")[0] in text else []
            )
            ends = foreign.ends(path, text, each) if calls else frozenset()
            found |= {(path, call.opening): call for call in calls if call.end not in ends}
    return found
