"""What a network lock is worth: the level it reached, by which mechanisms, and what is missing.

Plain data. How a level is reached is not known here.
"""

from dataclasses import dataclass
from enum import StrEnum

HOOK_MECHANISM = "audit hook"
"""Name of the mechanism that every lock ends with."""


class Level(StrEnum):
    """How much a lock can promise, strongest first."""

    STRONG = "strong"
    """The kernel denies the network to this process, to all its threads and to its children."""
    PARTIAL = "partial"
    """The kernel denies the network, but a way out is left open; the tier's reason names it."""
    HOOK = "hook"
    """Python code in this process is denied; native code and children are not."""


@dataclass(frozen=True)
class Tier:
    """The outcome of a lock, or what a lock is expected to reach."""

    level: Level
    """How much is promised."""
    mechanisms: tuple[str, ...]
    """What enforces it, such as ``seccomp`` and ``landlock ABI 7``."""
    reason: str = ""
    """One sentence that says why the level is not strong; empty when it is."""

    @property
    def is_strong(self) -> bool:
        """True if nothing is missing."""
        return self.level is Level.STRONG

    def describe(self) -> str:
        """Return the tier in one line, as the user reads it."""
        line = f"network lock: {self.level} ({', '.join(self.mechanisms)})"
        return f"{line}: {self.reason}" if self.reason else line


def graded(mechanisms: tuple[str, ...], *gaps: str) -> Tier:
    """Return the tier of a lock that the kernel enforces: strong, or partial if one of ``gaps`` is not empty."""
    reason = "; ".join(filter(None, gaps))
    return Tier(Level.PARTIAL if reason else Level.STRONG, mechanisms, reason)


def hook_only(why: str) -> Tier:
    """Return the tier of a lock that only Python code feels, because of ``why``."""
    return Tier(Level.HOOK, (HOOK_MECHANISM,), f"native code and child processes are not held, because {why}")
