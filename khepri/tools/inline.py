"""The tool ``inline``: puts the body of a function in the place of its calls. It proposes; nothing is written."""

from khepri.edits.inlining.inlining import inline
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.proposal import propose, text_of, workspace_of


def run(context: ToolContext, arguments: Arguments) -> Observation:
    """Propose to put a function's body in the place of its calls.

    Raises:
        RefusedError: It cannot be done without breaking something.
        ToolError: The arguments are refused.
    """
    return propose(context, inline(workspace_of(context), text_of(arguments, "path"), text_of(arguments, "symbol")))
