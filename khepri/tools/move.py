"""The tool ``move``: moves a Python definition to another file. It proposes; nothing is written."""

from khepri.edits.moving.refactor import move
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.proposal import propose, text_of, workspace_of


def run(context: ToolContext, arguments: Arguments) -> Observation:
    """Propose to move a Python definition to another file.

    Raises:
        RefusedError: It cannot be done without breaking something.
        ToolError: The arguments are refused.
    """
    return propose(
        context,
        move(
            workspace_of(context),
            text_of(arguments, "path"),
            text_of(arguments, "symbol"),
            text_of(arguments, "destination"),
        ),
    )
