"""The tool ``rename``: renames a Python definition wherever it is used. It proposes; nothing is written."""

from khepri.edits.rename import rename
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.proposal import propose, text_of, workspace_of


def run(context: ToolContext, arguments: Arguments) -> Observation:
    """Propose a new name for a Python definition, everywhere that it is used.

    Raises:
        RefusedError: It cannot be done without breaking something.
        ToolError: The arguments are refused.
    """
    return propose(
        context,
        rename(
            workspace_of(context),
            text_of(arguments, "path"),
            text_of(arguments, "symbol"),
            text_of(arguments, "new_name"),
        ),
    )
