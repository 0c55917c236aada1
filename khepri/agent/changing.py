"""A change from the task to the report: plan, propose, review, apply, check, mend.

``ChangeRun.run`` is the whole of it. Refactorings are made by libraries in ``refactoring``, code by the model in
``rewriting`` and ``creating``; all lay what they propose over a workspace, and nothing is written before the user, or a
rule of the user's, has said yes.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Final

from khepri.agent.checking import Checking, blamed, refuse_denied
from khepri.agent.creating import Creating
from khepri.agent.events import (
    ChangeReport,
    ChangesApplied,
    CheckFinished,
    Event,
    Notice,
    PlanMade,
    ReviewRequested,
    StepFinished,
    StepStarted,
)
from khepri.agent.generation import Writer
from khepri.agent.goal_tests import bent_tests
from khepri.agent.permissions import Permissions, Verdict
from khepri.agent.plan_store import PlanStore, StoredPlan
from khepri.agent.planning import Planning
from khepri.agent.prompt import Prompt
from khepri.agent.protocol import ToolCall
from khepri.agent.refactoring import Refactoring
from khepri.agent.rewriting import Failure, Rewriting
from khepri.agent.task import Instruction
from khepri.agent.task_parts import after, needs
from khepri.agent.task_reading import Candidate
from khepri.agent.words import describe_planned
from khepri.edits.apply import apply
from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.checkpoints import Checkpoints
from khepri.edits.checks import end_of
from khepri.edits.files import digest
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.review import Review
from khepri.edits.workspace import Workspace
from khepri.edits.writing.elsewhere import told_of_others
from khepri.edits.writing.head_users import told_of_users
from khepri.edits.writing.unasked import told_of_unasked
from khepri.errors import CancelledError, ContextFullError, RefusedError, ToolError
from khepri.tools.base import Tool, ToolContext

_CHECK_CHARS: Final = 1800
_WRITTEN: Final = ("rewrite", "create", "add")
"""Calls whose code is the model's own."""
_GOING_ON: Final = "going on with this task where it was interrupted"


@dataclass(frozen=True)
class ChangeSettings:
    """What bounds a change."""

    repairs: int
    """Most rounds in which the model mends what made a check fail."""
    check_seconds: float
    """Longest time of one check."""


@dataclass(frozen=True)
class ChangeParts:
    """What a change works with; all of it belongs to the session."""

    prompt: Prompt
    """The conversation, its last message the task."""
    writer: Writer
    tools: Sequence[Tool]
    """The tools that change something."""
    context: ToolContext
    """With the workspace."""
    rewriting: Rewriting
    creating: Creating
    checkpoints: Checkpoints
    plans: PlanStore
    permissions: Permissions


class ChangeRun:
    """One change. ``run`` is for one thread, ``cancel`` for any."""

    def __init__(
        self,
        instruction: Instruction,
        found: Sequence[Candidate],
        parts: ChangeParts,
        settings: ChangeSettings,
        emit: Callable[[Event], None],
        now_s: Callable[[], float] = time.time,
    ) -> None:
        """Prepare.

        Args:
            instruction: What to change, and what was said about asking and checking.
            found: The definitions that it may be about.
            parts: What it works with.
            settings: What bounds it.
            emit: Told of everything that happens.
            now_s: Seconds since 1970, for the checkpoint.
        """
        assert parts.context.workspace is not None
        self._workspace: Workspace = parts.context.workspace
        self._repository = parts.context.repository
        self._instruction = instruction
        self._found = found
        self._parts = parts
        self._settings = settings
        self._emit = emit
        self._now_s = now_s
        self._refactoring = Refactoring(
            parts.tools, parts.context, parts.prompt, parts.writer, instruction.text, self._notice
        )
        manifests = [tool.manifest for tool in parts.tools]
        self._planning = Planning(instruction, found, manifests, self._workspace, parts.prompt, parts.writer)
        self._checks = () if instruction.is_dry_run else instruction.checks
        self._checking = Checking(
            self._repository,
            self._checks,
            settings.check_seconds,
            parts.writer.cancelled,
            emit,
            self._notice,
        )
        self._steps: list[StepFinished] = []
        self._corrections: list[FileChange] = []
        self.notices: list[str] = []
        """What the user should know besides."""

    def cancel(self) -> None:
        """Stop. What is written by then stays, with its checkpoint."""
        self._parts.writer.cancel()

    def run(self) -> ChangeReport:
        """Take the task to its report.

        Raises:
            CancelledError: ``cancel`` was called before anything was written.
            ContextFullError: The task does not fit into the context.
            ModelError: The engine failed.
            OSError: The disk refused; nothing was written.
        """
        try:
            refuse_denied(self._checks, self._parts.permissions)
        except EditRefusedError as error:
            return self._refused(error)
        report = self._checked_again() or self._made()
        if not report.was_interrupted:
            self._parts.plans.forget()
        return report

    def _made(self) -> ChangeReport:
        """Take the task to its report from the beginning, or from where it was interrupted before its review."""
        before = self._checking.run()
        self._parts.writer.check()
        calls, first = self._plan()
        failed = next((check for check in before if not check.passed), None)
        for number in range(first + 1, len(calls) + 1):
            self._parts.writer.check()
            step = self._step(number, calls, failed)
            self._steps.append(step)
            # Whoever sees that a step is done may end the process: it is not done again.
            self._parts.plans.save(self._instruction.text, calls, self._steps, self._told(), self._workspace)
            self._emit(step)
        report = self._offer(calls)
        for check in report.checks:
            if not check.passed and any(each.command == check.command and not each.passed for each in before):
                self._notice(f"`{check.command}` failed before this change as well")
        return report

    def _checked_again(self) -> ChangeReport | None:
        """Go on with the checks of what was written before this task was interrupted; None if that is not so."""
        stored = self._stored()
        if stored is None or stored.written is None or self._instruction.is_dry_run:
            return None
        try:
            changes = self._parts.checkpoints.load(stored.written).changes
            if any(digest(self._workspace.read(each.path)) != digest(each.after) for each in changes.files):
                return None
        except EditRefusedError:
            return None
        self._notice(f"{_GOING_ON}, at its checks: it is written, and khepri undo {stored.written} takes it back")
        report = ChangeReport("applied", changes, stored.written, stored.steps, self._checking.run())
        return self._mended(report, stored.calls)

    def _offer(self, calls: Sequence[ToolCall]) -> ChangeReport:
        """Review what the steps propose, write it, and check it."""
        changes = self._workspace.changes(self._instruction.text)
        steps = tuple(self._steps)
        if not changes.files:
            is_refused = any(map(_is_refused, steps, calls))
            return ChangeReport("refused" if is_refused else "nothing", None, None, steps)
        try:
            self._refuse_denied(changes)
            if self._instruction.is_dry_run:
                self._tell_of_bent_tests(changes)
                return ChangeReport("dry_run", changes, None, steps)
            accepted = self._reviewed(changes)
            if accepted is None:
                return ChangeReport("rejected", None, None, steps)
            checkpoint = self._apply(accepted)
        except EditRefusedError as error:
            return self._refused(error)
        report = ChangeReport("applied", accepted, checkpoint, steps, self._checking.run())
        return self._mended(report, calls)

    def _refused(self, error: EditRefusedError) -> ChangeReport:
        """Return the report of a change of which nothing is written."""
        self._notice(f"{error.message}; {error.hint}" if error.hint else error.message)
        number = len(self._steps)
        refused = StepFinished(number, number, error.message, True, error.reason)
        return ChangeReport("refused", None, None, (*self._steps, refused))

    def _plan(self) -> tuple[tuple[ToolCall, ...], int]:
        """Return the calls, and how many of them are done already."""
        stored, targeted = self._stored(), self._planning.targeted()
        if stored is not None and stored.written is None:
            self._workspace.take(change_set(self._instruction.text, stored.files))
            self._steps += stored.steps
            calls, first = stored.calls, len(stored.steps)
            where = f"after step {first}" if first < len(calls) else "at the review"
            for notice in (f"{_GOING_ON}, {where}", *stored.notices):
                self._notice(notice)
        else:
            calls, first = targeted or self._planning.decided(), 0
        self._emit(PlanMade(tuple(describe_planned(call) for call in calls)))
        return calls, first

    def _stored(self) -> StoredPlan | None:
        """Return what was kept of this task, with the targets that were named."""
        stored = self._parts.plans.load(self._instruction.text, self._workspace)
        return stored if stored is not None and self._planning.targeted() in ((), stored.calls) else None

    def _step(self, number: int, calls: Sequence[ToolCall], failed: CheckFinished | None) -> StepFinished:
        call, total = calls[number - 1], len(calls)
        self._emit(StepStarted(number, total, describe_planned(call)))
        try:
            self._refuse_unmade(call, calls)
            match call.name:
                case "rewrite":
                    text = self._rewrite(call, failed)
                case "create" | "add":
                    text = self._create(call)
                case _:
                    text = self._refactoring.run(
                        call, reduce(lambda found, done: after(done, found), calls[: number - 1], self._found)
                    )
        except EditRefusedError as error:
            words = f"{error.message}; {error.hint}" if error.hint else error.message
            return StepFinished(number, total, words, True, error.reason)
        except (ToolError, RefusedError) as error:
            return StepFinished(number, total, error.message, True, Refusal.NO_TARGET)
        return StepFinished(number, total, text, False)

    def _refuse_unmade(self, call: ToolCall, calls: Sequence[ToolCall]) -> None:
        """Refuse to work on what happens to have the name that an earlier step was to give, and did not."""
        for step, earlier in zip(self._steps, calls, strict=False):
            if step.is_refused and needs(call, earlier):
                raise EditRefusedError(Refusal.NO_TARGET, f"this needs what step {step.number} was to make")

    def _rewrite(self, call: ToolCall, failed: CheckFinished | None, *, is_new: bool = False) -> str:
        failure = None
        if failed is not None:
            output = end_of(failed.output, _CHECK_CHARS)
            failure = Failure(failed.command, output, is_new, tuple(self._corrections))
        path, symbol = str(call.arguments["path"]), str(call.arguments.get("symbol", ""))
        change = self._parts.rewriting.rewrite(self._parts.prompt, path, symbol, failure)
        task, texts = self._instruction.text, (change.old_text, change.new_text)
        notes = (*told_of_unasked(path, *texts, task), *told_of_others(path, symbol, *texts, task))
        for note in (*notes, *told_of_users(self._repository, path, *texts)):
            self._notice(note)
        self._workspace.take(change_set(self._instruction.text, [change]))
        return f"{describe_planned(call)}: +{change.added_lines} -{change.removed_lines}"

    def _create(self, call: ToolCall) -> str:
        path, symbol = str(call.arguments["path"]), str(call.arguments.get("symbol", ""))
        if call.name == "add":
            change = self._parts.creating.add(self._parts.prompt, path, symbol)
        else:
            change = self._parts.creating.create(self._parts.prompt, path, self._found)
        self._workspace.take(change_set(self._instruction.text, [change]))
        return f"{describe_planned(call)}: +{change.added_lines}"

    def _refuse_denied(self, changes: ChangeSet) -> None:
        for path in changes.paths:
            ruling = self._parts.permissions.edit(path)
            if ruling.verdict is Verdict.DENY:
                raise EditRefusedError(Refusal.DENIED, f"{path} may not be written: {ruling.reason}")

    def _tell_of_bent_tests(self, changes: ChangeSet) -> None:
        bent = bent_tests(self._instruction.text, changes)
        if bent:
            self._notice(f"this changes the test itself, which the task wants to pass: {', '.join(bent)}; look well")

    def _reviewed(self, changes: ChangeSet) -> ChangeSet | None:
        """Return what may be written: all of it where rules or the user allow it beforehand, else what is accepted."""
        self._tell_of_bent_tests(changes)
        rulings = [self._parts.permissions.edit(path) for path in changes.paths]
        if all(ruling.verdict is Verdict.ALLOW for ruling in rulings):
            return changes
        review = Review(changes)
        self._emit(ReviewRequested(review))
        accepted = review.wait(lambda: self._parts.writer.is_cancelled).changes
        if accepted is not None:
            self._refuse_denied(accepted)
        return accepted

    def _apply(self, changes: ChangeSet) -> int:
        number = apply(self._repository, changes, self._parts.checkpoints, self._now_s())
        self._parts.plans.note_written(number)
        self._emit(ChangesApplied(number, changes))
        return number

    def _mended(self, report: ChangeReport, calls: Sequence[ToolCall]) -> ChangeReport:
        """Let the model correct what it wrote while a check fails, for so many rounds."""
        written = [call for call in calls if call.name in _WRITTEN]
        may_go_on = bool(written)
        failed = [check.command for check in report.checks if not check.passed]
        if failed and not written:
            back = f"mend it by hand, or take the change back: khepri undo {report.checkpoint}"
            self._notice(
                f"`{failed[0]}` fails, and the model mends only what it wrote itself, which is none of this; {back}"
            )
        try:
            while may_go_on and not report.checks_passed and report.repairs < self._settings.repairs:
                report, may_go_on = self._mend(report, written)
        except CancelledError:  # what is written stays, and the report tells of it
            pass
        return replace(report, was_interrupted=self._parts.writer.is_cancelled)

    def _mend(self, report: ChangeReport, written: Sequence[ToolCall]) -> tuple[ChangeReport, bool]:
        """Have the model correct once what it wrote; also return whether it may try again."""
        failed = next(check for check in report.checks if not check.passed)
        call, number, total = blamed(written, failed.output), report.repairs + 1, self._settings.repairs
        assert report.changes is not None
        workspace = Workspace(self._repository)
        self._workspace = self._parts.context.workspace = workspace
        self._parts.rewriting.use(workspace)
        self._emit(StepStarted(number, total, f"mend {describe_planned(call)}"))
        try:
            text = self._rewrite(call, failed, is_new=True)
            accepted = self._reviewed(workspace.changes(self._instruction.text))
            if accepted is None:
                return report, False
            checkpoint = self._folded(report.checkpoint, self._apply(accepted))
        except (ToolError, RefusedError, ContextFullError) as error:
            reason = error.reason if isinstance(error, EditRefusedError) else Refusal.NOT_POSSIBLE
            step = StepFinished(number, total, error.message, True, reason)
            self._emit(step)
            return replace(report, steps=(*report.steps, step)), False
        self._parts.plans.note_written(checkpoint)
        self._corrections += accepted.files
        step = StepFinished(number, total, text, False)
        self._emit(step)
        changes, steps = report.changes.merged(accepted), (*report.steps, step)
        return ChangeReport("applied", changes, checkpoint, steps, self._checking.run(), number), True

    def _folded(self, first: int | None, second: int) -> int:
        """Make the change and its correction one thing to take back."""
        if first is None:
            return second
        try:
            return self._parts.checkpoints.fold(first, second)
        except (EditRefusedError, OSError):  # then it takes two steps to take it back, which loses nothing
            return second

    def _told(self) -> list[str]:
        """Return what is worth telling again when the task goes on later."""
        return [notice for notice in self.notices if not notice.startswith(_GOING_ON)]

    def _notice(self, text: str) -> None:
        if text not in self.notices:
            self.notices.append(text)
            self._emit(Notice(text, is_warning=True))


def _is_refused(step: StepFinished, call: ToolCall) -> bool:
    """Tell if a step was kept from a change; a library that finds everything as it is to be was not."""
    return step.is_refused and (step.reason != Refusal.NO_OP or call.name in _WRITTEN)
