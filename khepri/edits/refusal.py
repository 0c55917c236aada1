"""Why a change is not made: the reasons that guards, the disk and the refactoring libraries can have."""

from enum import StrEnum

from khepri.errors import RefusedError


class Refusal(StrEnum):
    """The kinds of reasons, for tests, reports and scripts; the words come with each error."""

    NO_TARGET = "no such target"
    """The file or the symbol that is to be changed does not exist."""
    AMBIGUOUS = "ambiguous target"
    """More than one place fits what was named."""
    MALFORMED = "malformed reply"
    """What the model wrote does not have the form that was asked for."""
    PLACEHOLDER = "placeholder text"
    """The model left code out and said so, as in ``# rest unchanged``."""
    SHRINKAGE = "unexplained shrinkage"
    """Most of the code is gone, and the task does not say so."""
    UNASKED = "not asked for"
    """What others rely on changes, and the task does not say so."""
    NO_OP = "nothing changed"
    """The new text is the old one."""
    SYNTAX = "syntax error"
    """The new text has a syntax error that the old one had not."""
    OUTSIDE = "outside the repository"
    """The path leads out of the root."""
    HIDDEN = "ignored or secret"
    """The path is one that is never read."""
    CHANGED_ON_DISK = "changed on disk"
    """The file is not what it was when it was read."""
    READ_ONLY = "read-only"
    """The file may not be written."""
    UNREADABLE = "unreadable"
    """The file is binary, too large, no regular file, or cannot be read."""
    ENCODING = "encoding"
    """The file's encoding cannot hold the new text."""
    NOT_POSSIBLE = "not possible"
    """A refactoring library refused."""
    DENIED = "denied"
    """A permission rule forbids it."""
    DISK_FULL = "disk full"
    """The disk takes no more data."""
    BUSY = "busy"
    """Another process is changing this repository."""
    NO_CHECKPOINT = "no such change"
    """There is nothing of that number to take back."""


class EditRefusedError(RefusedError):
    """A change is not made. The message is for the user and for the model alike.

    Attributes:
        reason: The kind of reason.
    """

    def __init__(self, reason: Refusal, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.reason = reason
