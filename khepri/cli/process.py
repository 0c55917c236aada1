"""How the process of a command starts and ends: its signals, its streams and its exit code."""

import os
import signal
import sys
from collections.abc import Callable
from typing import NoReturn

from khepri.cli import exits, streams
from khepri.egress import Tier


def run(commands: Callable[[], object], tier: Tier | None) -> None:
    """Run ``commands``, the command line, under a network lock of ``tier``; exits the process."""
    streams.prepare()
    signal.signal(signal.SIGTERM, _end)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup ignores it
        signal.signal(signal.SIGHUP, _end)
    if tier is not None and not tier.is_strong and not _only_help(sys.argv[1:]):
        print(f"khepri: {tier.describe()}", file=sys.stderr)
    try:
        try:
            with exits.told_as_json(sys.argv[1:]):
                commands()
        finally:
            # On the way out there is nothing left that an interrupt could end in good order.
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            # At the interpreter's own end it would be too late to say that the result could not be written.
            sys.stdout.flush()
    except SystemExit as end:
        # Rich and Click have codes of their own for an output that its reader closed.
        if isinstance(end.__context__, BrokenPipeError):
            leave(exits.OUTPUT_CLOSED)
        raise
    except (Exception, KeyboardInterrupt) as error:
        if os.environ.get("KHEPRI_DEBUG"):
            raise
        exits.say(error)
        leave(exits.exit_code(error))


def leave(code: int) -> NoReturn:
    """End the process with ``code``, also when stdout has lost its reader."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    sys.exit(code)


def _only_help(arguments: list[str]) -> bool:
    return not arguments or bool({"-h", "--help", "--version"} & set(arguments))


def _end(number: int, _frame: object) -> NoReturn:
    raise exits.SignalledExit(number)
