"""The tool ``rename``: renames a Python definition or module wherever it is used. It proposes; nothing is written."""

from khepri.edits.rename.module_rename import rename_module
from khepri.edits.rename.rename import rename
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.proposal import propose, text_of, workspace_of


def run(context: ToolContext, arguments: Arguments) -> Observation:
    """Propose a new name for a Python definition, or without a symbol for a module, everywhere that it is used.

    Raises:
        RefusedError: It cannot be done without breaking something.
        ToolError: The arguments are refused.
    """
    workspace = workspace_of(context)
    path, symbol, new_name = (text_of(arguments, key) for key in ("path", "symbol", "new_name"))
    if not symbol:
        return propose(context, rename_module(workspace, path, new_name))
    return propose(context, rename(workspace, path, symbol, new_name))
