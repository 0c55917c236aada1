"""What the tools that change code have in common: they propose, and say what they have proposed."""

from khepri.edits.rename.rename import Refactoring
from khepri.edits.workspace import Workspace
from khepri.errors import ToolError
from khepri.tools.base import Arguments, Observation, ToolContext


def workspace_of(context: ToolContext) -> Workspace:
    """Return where a change is to be proposed.

    Raises:
        ToolError: This session only reads.
    """
    if context.workspace is None:
        raise ToolError("this session changes nothing", "use khepri refactor")
    return context.workspace


def propose(context: ToolContext, refactoring: Refactoring) -> Observation:
    """Lay a refactoring over the files of the session and describe it."""
    changes = refactoring.changes
    workspace_of(context).take(changes)
    files = f"{len(changes.files)} file{'s' * (len(changes.files) != 1)}"
    summary = f"{files}, +{changes.added_lines} -{changes.removed_lines}"
    rows = [f"{changes.title}: {summary}", *refactoring.notes]
    rows += [f"{each.path} +{each.added_lines} -{each.removed_lines}" for each in changes.files]
    text = "\n".join(rows)
    return Observation(text, context.count_tokens(text), summary, changes.paths)


def text_of(arguments: Arguments, name: str) -> str:
    """Return an argument that is a text, without blank space around it; empty if it was left out."""
    value = arguments.get(name, "")
    return value.strip() if isinstance(value, str) else ""


def number_of(arguments: Arguments, name: str) -> int:
    """Return an argument that is a whole number; 0 if it was left out."""
    value = arguments.get(name, 0)
    return value if isinstance(value, int) else 0
