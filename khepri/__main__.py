"""Where every command starts: the network lock first, everything else after it."""

import sys
from pathlib import Path
from typing import NoReturn


def main() -> None:
    """Run the command line; does not return."""
    from khepri.cli import interrupts

    interrupts.hold()
    from khepri import egress

    # Fetching a model is the one thing that needs the network. Nothing else runs without the lock; nothing may come
    # before these two words, so that no option's value can be taken for them.
    words = [argument for argument in sys.argv[1:] if argument != "--"]
    tier = None if words[:2] == ["models", "pull"] else egress.lock()
    from khepri.cli import process

    if sys.argv[1:]:
        from khepri.cli import main as commands

        process.run(commands.app, tier)
    else:
        # Nothing has to be looked up in the table of commands, which would take a third of the time to the first frame.
        process.run(_open_app, tier)


def _open_app() -> NoReturn:
    from khepri.cli import interactive, interrupts

    interrupts.admit()
    sys.exit(interactive.run(Path(), {}, None, choose=False))


if __name__ == "__main__":
    main()
