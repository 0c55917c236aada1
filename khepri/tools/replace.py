"""The tool ``replace``: replaces code by its structure, in many languages. It proposes; nothing is written."""

from khepri.edits.structural.structural import replace_code
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.proposal import propose, text_of, workspace_of


def run(context: ToolContext, arguments: Arguments) -> Observation:
    """Propose to replace code by its structure.

    Raises:
        RefusedError: It cannot be done without breaking something.
        ToolError: The arguments are refused.
    """
    return propose(
        context,
        replace_code(
            workspace_of(context),
            text_of(arguments, "pattern"),
            text_of(arguments, "replacement"),
            text_of(arguments, "path") or None,
        ),
    )
