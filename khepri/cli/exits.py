"""From an error to an exit code, to words on stderr, and to an object on stdout for scripts: said once, here."""

import json
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import takewhile
from typing import Any, Final

from khepri.agent.words import describe_error
from khepri.edits.refusal import EditRefusedError
from khepri.errors import (
    BrokenPromiseError,
    CancelledError,
    ContextFullError,
    ModelError,
    NoModelError,
    RefusedError,
    StepLimitError,
    ToolError,
    UsageError,
)

ANSWERED: Final = 0
INTERNAL: Final = 1
USAGE: Final = 2
NO_MODEL: Final = 3
MODEL_FAILED: Final = 4
CONTEXT_FULL: Final = 5
STEP_LIMIT: Final = 6
PROMISE_BROKEN: Final = 7
CHECKS_FAILED: Final = PROMISE_BROKEN
NOTHING_CHANGED: Final = 8
REFUSED: Final = 9
INTERRUPTED: Final = 130
OUTPUT_CLOSED: Final = 141
HUNG_UP: Final = 129
TERMINATED: Final = 143

_CODES: Final[tuple[tuple[type[BaseException], int], ...]] = (
    (UsageError, USAGE),
    (ToolError, USAGE),
    (NoModelError, NO_MODEL),
    (ModelError, MODEL_FAILED),
    (ContextFullError, CONTEXT_FULL),
    (StepLimitError, STEP_LIMIT),
    (RefusedError, REFUSED),
    (BrokenPromiseError, PROMISE_BROKEN),
    (CancelledError, INTERRUPTED),
    (KeyboardInterrupt, INTERRUPTED),
    (BrokenPipeError, OUTPUT_CLOSED),
)

HELP: Final = (
    "Exit codes: 0 answered · 1 internal error · 2 wrong usage or configuration · 3 no model · 4 model or backend "
    "failed · 5 context full · 6 step limit reached without an answer · 7 a check failed: a promise did not hold "
    "(khepri prove), or the repository's checks (khepri refactor) · 8 nothing changed · 9 refused: by you, a rule, a "
    "guard or a full disk · 129 terminal closed · 130 interrupted · 141 output closed early · 143 ended by SIGTERM"
)


class SignalledExit(SystemExit):
    """A signal ends the process, by the way of an interrupt, so that the terminal is left as it was found."""

    def __init__(self, number: int) -> None:
        """Take the signal's number; the exit code is the one that shells give."""
        super().__init__(128 + number)
        self.number = number


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error; 1 for everything that Khepri did not foresee."""
    if isinstance(error, SignalledExit):
        return 128 + error.number
    return next((code for kind, code in _CODES if isinstance(error, kind)), INTERNAL)


def as_object(error: BaseException) -> dict[str, Any]:
    """Return an error for scripts, ready for ``json.dumps``."""
    message, hint = _words(error)
    failure = {"type": type(error).__name__, "message": message, "hint": hint}
    if isinstance(error, EditRefusedError):
        failure["reason"] = error.reason
    return {"error": failure, "exit_code": exit_code(error)}


@contextmanager
def told_as_json(words: Sequence[str]) -> Iterator[None]:
    """Print the error that ends the block as an object on stdout if the command line asks for JSON; it goes on.

    A broken promise is not printed: what was found, of which it is a part, has been.

    Args:
        words: The command line without the program. It is looked at, and not what was understood of it, because it
            may be wrong itself.
    """
    options = set(takewhile(lambda word: word != "--", words))
    try:
        yield
    except (BrokenPipeError, BrokenPromiseError):
        raise
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        told = _usage_error(error) if type(error) is SystemExit else error
        if told is None:
            raise
        if "--stream-json" in options:
            print(json.dumps({"event": "error", **as_object(told)}, ensure_ascii=False), flush=True)
        elif "--json" in options:
            print(json.dumps(as_object(told), indent=2, ensure_ascii=False), flush=True)
        raise


def _usage_error(end: SystemExit) -> UsageError | None:
    """Return what was wrong with the command line; None where the process ends in another way.

    Click has said it in words already, and has classes of its own in each version of Typer.
    """
    format_message = getattr(end.__context__, "format_message", None)
    return UsageError(format_message(), "see --help") if end.code == USAGE and format_message else None


def _words(error: BaseException) -> tuple[str, str]:
    if isinstance(error, SignalledExit):
        return f"ended by {signal.Signals(error.number).name}", ""
    return describe_error(error)


def say(error: BaseException) -> None:
    """Write an error to stderr; nothing for an output that its reader closed."""
    if isinstance(error, BrokenPipeError):
        return
    message, hint = describe_error(error)
    lines = [f"khepri: {message}", *([f"  {hint}"] if hint else [])]
    print("\n".join(lines), file=sys.stderr)
