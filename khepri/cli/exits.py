"""From an error to an exit code and to words on stderr: said once, here."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
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
    "(khepri prove), or the repository's checks (khepri refactor) · 8 nothing changed · 9 refused: by you, a rule or a "
    "guard · 129 terminal closed · 130 interrupted · 141 output closed early · 143 ended by SIGTERM"
)


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error; 1 for everything that Khepri did not foresee."""
    return next((code for kind, code in _CODES if isinstance(error, kind)), INTERNAL)


def as_object(error: BaseException) -> dict[str, Any]:
    """Return an error for scripts, ready for ``json.dumps``."""
    message, hint = describe_error(error)
    failure = {"type": type(error).__name__, "message": message, "hint": hint}
    if isinstance(error, EditRefusedError):
        failure["reason"] = error.reason
    return {"error": failure, "exit_code": exit_code(error)}


@contextmanager
def told_as_json(is_wanted: bool) -> Iterator[None]:
    """Print the error that ends the block as an object on stdout if ``is_wanted``, and let it go on.

    A broken promise is not printed: what was found, of which it is a part, has been.
    """
    try:
        yield
    except (BrokenPipeError, BrokenPromiseError):
        raise
    except (Exception, KeyboardInterrupt) as error:
        if is_wanted:
            print(json.dumps(as_object(error), indent=2, ensure_ascii=False), flush=True)
        raise


def say(error: BaseException) -> None:
    """Write an error to stderr; nothing for an output that its reader closed."""
    if isinstance(error, BrokenPipeError):
        return
    message, hint = describe_error(error)
    lines = [f"khepri: {message}", *([f"  {hint}"] if hint else [])]
    print("\n".join(lines), file=sys.stderr)
