"""The errors that Khepri raises, each with what happened, to what, and what to do.

The tree, with the exit code that ``khepri.cli.exits`` gives to each branch::

    KhepriError                      1  internal error
    ├── UsageError                   2  the command line, the configuration or the input is wrong
    │   └── ConfigError              2
    ├── NoModelError                 3  no model, or none of that name
    ├── ModelError                   4  a model or the backend failed
    │   ├── ModelFileError           4  the file is damaged, truncated or not GGUF
    │   ├── ModelLoadError           4  the library refused the file
    │   ├── OutOfMemoryError         4  the model or its context does not fit into memory
    │   ├── DecodeError              4  the backend failed in a pass
    │   └── PullError                4  a model could not be fetched
    ├── ContextFullError             5  the prompt does not fit into the context
    │   └── OutOfBlocksError         5  the cells of the cache are all in use
    ├── StepLimitError               6  the agent used its steps without an answer
    ├── RefusedError                 9  a guard, a rule or the state of the disk forbids a change
    ├── BrokenPromiseError           7  a check found that something does not hold which was promised
    ├── CancelledError             130  the user interrupted
    └── ToolError                    -  a tool refused; the model reads it as an observation

This module knows nothing of commands, streams or exit status: it only names failures.
"""

import errno
from typing import Final

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def is_disk_full(error: OSError) -> bool:
    """Return True for a disk, a quota or a limit that takes no more data."""
    return error.errno in _FULL


class KhepriError(Exception):
    """Base of every error that Khepri raises on purpose.

    Attributes:
        message: What happened, to what.
        hint: What the user can do about it; empty when there is nothing to do.
    """

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(KhepriError):
    """The command line or its input cannot be used as it is."""


class ConfigError(UsageError):
    """A configuration file, variable or flag holds an unknown key or a bad value."""


class NoModelError(KhepriError):
    """There is no model to load, or none of the name that was asked for."""


class ModelError(KhepriError):
    """A model or the backend failed."""


class ModelFileError(ModelError):
    """A model file is damaged, truncated or not in GGUF format."""


class ModelLoadError(ModelError):
    """The library could not load a model file that looks sound."""


class OutOfMemoryError(ModelError):
    """A model or its context does not fit into memory."""


class DecodeError(ModelError):
    """The backend failed while it evaluated tokens."""


class PullError(ModelError):
    """A model could not be fetched, verified or stored."""


class ContextFullError(KhepriError):
    """A prompt and its answer do not fit into the context."""

    def __init__(self, message: str, hint: str = "", *, needed_tokens: int, context_tokens: int) -> None:
        super().__init__(message, hint)
        self.needed_tokens = needed_tokens
        self.context_tokens = context_tokens


class OutOfBlocksError(ContextFullError):
    """There is no block left in the key-value cache, not even after everything that is not in use was evicted."""


class StepLimitError(KhepriError):
    """The agent used all its steps and has no answer."""


class BrokenPromiseError(KhepriError):
    """A check found that something does not hold which was promised."""


class RefusedError(KhepriError):
    """A change was refused: by a guard, by a rule, or because of what is on the disk."""


class CancelledError(KhepriError):
    """The user interrupted the work."""


class ToolError(KhepriError):
    """A tool refused its arguments or its target; the model reads the message as an observation."""
