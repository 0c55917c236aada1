"""The tool ``add``: shows the class or file to which a new definition is to be added, in its fence.

What is added is written by the model afterwards; nothing is made here.
"""

from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.rewrite import run as show


def run(context: ToolContext, arguments: Arguments) -> Observation:
    """Show a class or file that is to get a new definition.

    Raises:
        RefusedError: There is no such code, or it is too long for one answer.
    """
    return show(context, arguments)
