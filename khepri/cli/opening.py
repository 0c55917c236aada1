"""``khepri`` without a command: which conversation is opened, and how.

The table of commands, with what reads its options, takes longer to load than half of the app does. So the options of
the conversation are read here first. What is not plainly understood here, wrong or merely unusual, is left to the
table, which knows what to say about it.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from khepri.cli import interrupts

LATEST: Final = "latest"
"""What stands for the session that was last written to."""
CHOOSE: Final = "choose"
"""What stands for a session that the user chooses from a list."""

_OPTIONS: Final = {
    "--continue": "continue",
    "-c": "continue",
    "--resume": "resume",
    "-r": "resume",
    "--model": "model",
    "-m": "model",
    "--plain": "plain",
    "--cwd": "cwd",
}
_WITHOUT_A_VALUE: Final = ("continue", "plain")
_COMPLETION: Final = "_KHEPRI_COMPLETE"


@dataclass(frozen=True)
class Opening:
    """What the conversation is opened with."""

    cwd: Path = Path()
    """A folder of the repository."""
    model: str | None = None
    """Name or path of the model; None leaves it to the configuration."""
    session: str | None = None
    """Id of the session to go on with, or the beginning of one; ``LATEST``; ``CHOOSE``; None begins anew."""
    is_plain: bool = False
    """Line by line instead of a screen."""


def read(words: Sequence[str], environ: Mapping[str, str]) -> Opening | None:
    """Return what the words of the command line ask for; None where the table of commands has to be asked.

    Args:
        words: The command line without the program.
        environ: The environment: a shell that completes a command asks by it, and without words.
    """
    if _COMPLETION in environ or "" in words:
        return None
    found: dict[str, str] = {}
    waiting = [piece for word in words for piece in (word.split("=", 1) if word.startswith("--") else [word])]
    while waiting:
        option = _OPTIONS.get(waiting.pop(0))
        if option is None or option in found:
            return None
        has_value = bool(waiting) and not waiting[0].startswith("-")
        if option in _WITHOUT_A_VALUE:
            found[option] = ""
        elif has_value:
            found[option] = waiting.pop(0)
        elif option == "resume":
            found[option] = CHOOSE
        else:
            return None
    session = LATEST if "continue" in found else found.get("resume")
    if {"continue", "resume"} <= found.keys() or ("plain" in found and session == CHOOSE):
        return None
    return Opening(Path(found.get("cwd", "")), found.get("model"), session, "plain" in found)


def run(opening: Opening) -> int:
    """Open the conversation and return the exit code.

    Raises:
        UsageError: There is no terminal to draw on, or no such session.
        NoModelError: There is no model to talk to line by line.
        ConfigError: A source of the configuration cannot be used.
    """
    flags = {"model": opening.model}
    if opening.is_plain:
        from khepri.cli import plain

        interrupts.admit()
        return plain.run(opening.cwd, flags, opening.session, os.environ)
    from khepri.cli import interactive

    interrupts.admit()
    is_chosen = opening.session == CHOOSE
    return interactive.run(opening.cwd, flags, None if is_chosen else opening.session, choose=is_chosen)
