"""Where every command starts: the network lock first, everything else after it."""

import os
import sys


def main() -> None:
    """Run the command line; does not return."""
    from khepri.cli import interrupts

    interrupts.hold()
    from khepri import egress

    # Fetching a model is the one thing that needs the network. Nothing else runs without the lock; nothing may come
    # before these two words, so that no option's value can be taken for them.
    words = [argument for argument in sys.argv[1:] if argument != "--"]
    tier = None if words[:2] == ["models", "pull"] else egress.lock()
    from khepri.cli import opening, process

    opened = opening.read(sys.argv[1:], os.environ)
    if opened is not None:
        process.run(lambda: sys.exit(opening.run(opened)), tier)
        return
    from khepri.cli import main as commands

    process.run(commands.app, tier)


if __name__ == "__main__":
    main()
