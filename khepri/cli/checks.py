"""What ``khepri doctor`` says: one line for each thing it looked at, and what the lines amount to.

Nothing is looked at here, and nothing is printed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar

from khepri.agent.words import describe_error
from khepri.cli import exits
from khepri.repo.text import printable

T = TypeVar("T")

_GRAVEST_FIRST = (exits.NO_MODEL, exits.MODEL_FAILED, exits.USAGE)


class Status(StrEnum):
    """How a thing is, best first."""

    OK = "ok"
    """As it should be."""
    WARNING = "warning"
    """Khepri works, and something is slower, weaker or lost."""
    PROBLEM = "problem"
    """Khepri cannot do its work until this is mended."""


@dataclass(frozen=True)
class Check:
    """One line of the report."""

    name: str
    """What was looked at."""
    status: Status
    """How it is."""
    detail: str
    """What was found."""
    advice: str = ""
    """What to do; empty when there is nothing to do."""
    exit_code: int = 0
    """The command's exit code if this is the gravest problem."""


@dataclass(frozen=True)
class Failure:
    """Something that could not be found out, in place of the answer."""

    message: str
    """What happened."""
    advice: str
    """What to do about it; may be empty."""
    exit_code: int
    """The exit code that belongs to it; 0 if it only follows from another failure."""

    def as_check(self, name: str) -> Check:
        """Return the line for it: a problem, or a warning if another line tells of the cause."""
        status = Status.PROBLEM if self.exit_code else Status.WARNING
        return Check(name, status, printable(self.message), printable(self.advice), self.exit_code)


@dataclass(frozen=True)
class Report:
    """All lines together."""

    checks: tuple[Check, ...]
    """The lines, in the order they are shown."""

    @property
    def status(self) -> Status:
        """The worst of all lines."""
        found = {check.status for check in self.checks}
        return next((status for status in (Status.PROBLEM, Status.WARNING) if status in found), Status.OK)

    @property
    def exit_code(self) -> int:
        """0 without a problem; else that of the gravest: no model, backend, configuration, anything else."""
        found = {check.exit_code for check in self.checks if check.status is Status.PROBLEM}
        return next((code for code in _GRAVEST_FIRST if code in found), exits.INTERNAL if found else 0)

    def as_json(self) -> dict[str, object]:
        """Return the report as plain data, with the keys that scripts may rely on."""
        rows = [{"name": c.name, "status": c.status, "detail": c.detail, "advice": c.advice} for c in self.checks]
        return {"checks": rows, "status": self.status}


def attempt(find_out: Callable[[], T]) -> T | Failure:
    """Return what ``find_out`` returns, or the failure that it ended in.

    A report must not end at the first thing that is broken: it was asked for because something is.
    """
    try:
        return find_out()
    except Exception as error:
        return Failure(*describe_error(error), exits.exit_code(error))


def check(name: str, look: Callable[[], Check]) -> Check:
    """Return the line that ``look`` makes; if it raises, a problem of that name with its message."""
    found = attempt(look)
    return found.as_check(name) if isinstance(found, Failure) else found


def ok(name: str, detail: str) -> Check:
    """Return a line about something that is as it should be."""
    return Check(name, Status.OK, printable(detail))


def warning(name: str, detail: str, advice: str) -> Check:
    """Return a line about something that is slower, weaker or lost."""
    return Check(name, Status.WARNING, printable(detail), printable(advice))


def problem(name: str, detail: str, advice: str, exit_code: int = exits.INTERNAL) -> Check:
    """Return a line about something that must be mended."""
    return Check(name, Status.PROBLEM, printable(detail), printable(advice), exit_code)


def in_words(names: Iterable[str]) -> str:
    """Return names in one text, ``none`` if there are none."""
    return ", ".join(names) or "none"
