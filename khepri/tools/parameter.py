"""The tool ``parameter``: adds, removes or renames a parameter of a function. It proposes; nothing is written."""

from khepri.edits.parameters.new_parameter import add_parameter
from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.rename.rename import Refactoring
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.proposal import propose, text_of, workspace_of


def run(context: ToolContext, arguments: Arguments) -> Observation:
    """Propose another signature of a function, with the calls that have to follow.

    Raises:
        RefusedError: It cannot be done without breaking something.
        ToolError: The arguments are refused.
    """
    return propose(context, _changed(context, arguments))


def _changed(context: ToolContext, arguments: Arguments) -> Refactoring:
    workspace = workspace_of(context)
    path, symbol, name = (text_of(arguments, key) for key in ("path", "symbol", "name"))
    match text_of(arguments, "action"):
        case "add":
            default, annotation = text_of(arguments, "default"), text_of(arguments, "annotation")
            return add_parameter(workspace, path, symbol, name, default, annotation)
        case "remove":
            return remove_parameter(workspace, path, symbol, name)
        case _:
            return rename_parameter(workspace, path, symbol, name, text_of(arguments, "new_name"))
