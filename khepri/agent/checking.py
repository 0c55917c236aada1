"""Runs the checks of a change, and says what of it a failed one is about."""

import threading
from collections.abc import Callable, Sequence

from khepri.agent.events import CheckFinished, CheckStarted, Event
from khepri.agent.permissions import Permissions, Verdict
from khepri.agent.protocol import ToolCall
from khepri.edits.checks import run_check
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.repo.root import Repository


class Checking:
    """The checks of one change. One thread; another one may set ``cancelled``."""

    def __init__(
        self,
        repository: Repository,
        commands: Sequence[str],
        timeout_s: float,
        cancelled: threading.Event,
        emit: Callable[[Event], None],
        notice: Callable[[str], None],
    ) -> None:
        """Prepare.

        Args:
            repository: Where they run.
            commands: Each is run by a shell.
            timeout_s: Longest time of one check.
            cancelled: Ends the one that runs, and starts no other.
            emit: Told of each check.
            notice: Told what the user should know besides.
        """
        self._repository = repository
        self._commands = commands
        self._timeout_s = timeout_s
        self._cancelled = cancelled
        self._emit = emit
        self._notice = notice

    def run(self) -> tuple[CheckFinished, ...]:
        """Run them one after the other, and return how those ended that came to their end."""
        finished: list[CheckFinished] = []
        for command in self._commands:
            self._emit(CheckStarted(command))
            outcome = run_check(self._repository, command, self._timeout_s, self._cancelled)
            if self._cancelled.is_set():
                break
            if not outcome.confinement:
                self._notice(f"`{command}` ran without confinement: this system has none that Khepri knows")
            event = CheckFinished(
                outcome.command,
                outcome.passed,
                outcome.summary,
                outcome.output,
                outcome.duration_ms,
                outcome.confinement,
            )
            finished.append(event)
            self._emit(event)
        return tuple(finished)


def refuse_denied(commands: Sequence[str], permissions: Permissions) -> None:
    """Refuse to begin where a check may not be run: nobody could tell then whether the change is good.

    Args:
        commands: The checks.
        permissions: Say which may be run.

    Raises:
        EditRefusedError: A rule denies one.
    """
    for command in commands:
        ruling = permissions.command(command)
        if ruling.verdict is Verdict.DENY:
            raise EditRefusedError(
                Refusal.DENIED,
                f"the check `{command}` may not be run: {ruling.reason}; nothing is changed",
                "leave the check out, or change the rule",
            )


def blamed(calls: Sequence[ToolCall], output: str) -> ToolCall:
    """Return the call that a check's output speaks of last; the last one if it speaks of none."""

    def place(call: ToolCall) -> int:
        symbol = str(call.arguments.get("symbol", "")).rpartition(".")[2]
        return max(output.rfind(str(call.arguments["path"])), output.rfind(symbol) if symbol else -1)

    return max(reversed(calls), key=place)
