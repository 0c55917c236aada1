"""Which shell runs the commands of the user. What a line runs is told elsewhere, as bash reads it."""

import shutil
from typing import Final

_PLACES: Final = ("/bin/bash", "/usr/bin/bash")
_POSIX: Final = "/bin/sh"


def command_shell() -> str:
    """Return the path of the shell for commands: bash, or ``/bin/sh`` where there is none."""
    return next(filter(None, map(shutil.which, (*_PLACES, "bash"))), _POSIX)


def is_bash() -> bool:
    """Return True if commands are run by bash."""
    return command_shell() != _POSIX
