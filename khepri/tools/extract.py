"""The tool ``extract``: makes a function of lines of another one. It proposes; nothing is written."""

from khepri.edits.moving.refactor import extract
from khepri.errors import ToolError
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.proposal import number_of, propose, text_of, workspace_of


def run(context: ToolContext, arguments: Arguments) -> Observation:
    """Propose a function made of some lines of another one.

    Raises:
        RefusedError: It cannot be done without breaking something.
        ToolError: The arguments are refused.
    """
    path, start, end = text_of(arguments, "path"), number_of(arguments, "start"), number_of(arguments, "end")
    if not start or not end:
        raise ToolError("the lines to extract are missing", "name the first and the last one as start and end")
    return propose(context, extract(workspace_of(context), path, start, end, text_of(arguments, "new_name")))
