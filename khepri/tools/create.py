"""The tool ``create``: says that a new file can be written, and where.

What the file holds is written by the model afterwards; nothing is made here.
"""

from khepri.edits.creation import new_target
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.proposal import text_of, workspace_of
from khepri.tools.rewrite import fence_header


def run(context: ToolContext, arguments: Arguments) -> Observation:
    """Show the first line of the fence in which a new file is expected.

    Raises:
        RefusedError: There is such a file, or there must be none.
    """
    target = new_target(workspace_of(context), text_of(arguments, "path"))
    text = fence_header(target)
    return Observation(text, context.count_tokens(text), f"{target.label} (new)", (target.source.path,))
