"""``khepri refactor``: a change of the repository, planned, reviewed as one patch, written and checked."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.markup import escape

from khepri import config, egress
from khepri.agent.checking import refuse_denied
from khepri.agent.events import (
    ChangeReport,
    ChangesApplied,
    CheckFinished,
    CheckStarted,
    Event,
    Finished,
    PlanMade,
    ReviewRequested,
    StepFinished,
    StepStarted,
)
from khepri.agent.permission_rules import load_rules
from khepri.agent.permissions import Permissions, Verdict
from khepri.agent.session import Session
from khepri.agent.task import Instruction
from khepri.cli import exits, interrupts
from khepri.cli.ask import draft_model_of, model_of
from khepri.cli.change_input import decide
from khepri.cli.check_choice import chosen_checks
from khepri.cli.patch_output import write_patch
from khepri.cli.render import ProgressLine
from khepri.cli.task_input import attach, interrupt_calls, standard_input
from khepri.config import Value
from khepri.edits.change import ChangeSet
from khepri.edits.patch import patch_text
from khepri.edits.review import Decision
from khepri.errors import UsageError
from khepri.repo.root import Repository
from khepri.repo.text import counted, printable

_MOST_OUTPUT_LINES: Final = 30


@dataclass(frozen=True)
class Options:
    """What the command line says beside the task."""

    targets: tuple[str, ...] = ()
    files: tuple[Path, ...] = ()
    checks: tuple[str, ...] = ()
    skips_checks: bool = False
    is_approved: bool = False
    is_dry_run: bool = False
    as_json: bool = False


def run(task: str | None, options: Options, flags: Mapping[str, Value], cwd: Path) -> int:
    """Carry a change out and return the exit code."""
    with interrupts.admitted():
        if options.checks and (options.skips_checks or options.is_dry_run):
            raise UsageError("--check needs a change that is written", "leave --no-check and --dry-run out")
        repository = Repository.open(cwd)
        settings = config.load(repository.root, flags, os.environ).config
        if settings.network_lock is config.NetworkLock.REQUIRED:
            egress.require_strong(egress.lock())
        if repository.is_bare:
            raise UsageError("this is a bare repository: it has no files to change", "work in a checkout of it")
        text = printable(task or "").strip() or standard_input(None).strip()
        if not text:
            raise UsageError("there is no task", 'say one: khepri refactor "rename Session to Conversation everywhere"')
        _require_somebody_to_ask(repository, options)
        has_checks = not (options.is_dry_run or options.skips_checks)
        checks = chosen_checks(repository, settings, options.checks) if has_checks else ()
        # A model takes its time to load, and this needs none.
        refuse_denied(checks, Permissions(load_rules(repository.root)))
        instruction = Instruction(
            text,
            tuple(attach(cwd, file) for file in options.files),
            options.targets,
            checks,
            options.is_approved,
            options.is_dry_run,
        )
        model, draft_model = model_of(settings.model), draft_model_of(settings)
    with Session(repository, settings, model, draft_model=draft_model) as session:
        interrupts.admit()
        running = session.change(instruction)
        view = _View(Console(stderr=True), running.cancel)
        try:
            with interrupt_calls(running.cancel):
                for event in running.events():
                    view.handle(event)
        except BrokenPipeError:
            running.cancel()
            raise
        finally:
            view.close()
    assert view.finished is not None
    return _told(view.finished, options, repository.root, cwd)


def _require_somebody_to_ask(repository: Repository, options: Options) -> None:
    """Refuse early what could only end in a question that nobody can answer."""
    if options.is_approved or options.is_dry_run or sys.stdin.isatty():
        return
    if any(rule.verdict is Verdict.ALLOW and rule.action == "edit" for rule in load_rules(repository.root)):
        return
    raise UsageError(
        "there is no terminal to ask whether the change may be written",
        "add --yes to write it, or --dry-run to get the patch",
    )


class _View:
    """Shows what happens on stderr, and asks about the change there."""

    def __init__(self, console: Console, cancel: Callable[[], None]) -> None:
        self.finished: Finished | None = None
        self._cancel = cancel
        self._console = console
        self._progress = ProgressLine(console)

    def handle(self, event: Event) -> None:
        """Show one event; answer the one that asks."""
        match event:
            case PlanMade(steps):
                self._say("plan:", *(f"  {number}. {step}" for number, step in enumerate(steps, start=1)))
            case StepStarted(number, total, text):
                self._progress.show(f"step {number} of {total}: {escape(text)}")
            case StepFinished(number, total, text, is_refused):
                self._say(f"{'✗' if is_refused else '✓'} step {number} of {total}: {text}")
            case ReviewRequested(review):
                self._progress.close()
                decision = self._decision(review.changes)
                if decision is not None:
                    review.answer(decision)
            case ChangesApplied(number, changes):
                self._say(f"written: {counted(len(changes.files), 'file')}; khepri undo {number} takes it back")
            case CheckStarted(command):
                self._progress.show(f"checking: {escape(command)}")
            case CheckFinished():
                where = event.confinement or "NOT confined"
                self._say(f"{'✓' if event.passed else '✗'} {event.command}: {event.summary} ({where})")
                if not event.passed:
                    self._say(*event.output.rstrip().split("\n")[-_MOST_OUTPUT_LINES:])
            case Finished():
                self.finished = event
                self._progress.finish(event)
            case _:
                self._progress.handle(event)

    def close(self) -> None:
        """Leave the terminal as it was."""
        self._progress.close()

    def _decision(self, changes: ChangeSet) -> Decision | None:
        """Ask about a change; None if the user interrupted, which ends the task."""
        if not sys.stdin.isatty():
            return Decision.reject()
        return decide(changes, self._console, self._cancel)

    def _say(self, *lines: str) -> None:
        self._progress.close()
        for line in lines:
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _told(finished: Finished, options: Options, root: Path, cwd: Path) -> int:
    """Print the result and return the exit code."""
    report = finished.report
    assert report is not None
    if options.as_json:
        print(json.dumps(_as_object(finished, report), indent=2, ensure_ascii=False), flush=True)
    elif report.outcome == "dry_run" and report.changes is not None:
        write_patch(report.changes, root, cwd)
    elif report.outcome == "applied" and report.changes is not None:
        for change in report.changes.files:
            print(f"{change.path} +{change.added_lines} -{change.removed_lines}")
    if report.was_interrupted:
        words = f"interrupted in its checks; khepri undo {report.checkpoint} takes back what is written"
        print(f"khepri: {words}, and the same task goes on", file=sys.stderr)
    if report.outcome == "nothing":
        print("khepri: nothing changed: no step of the plan changes anything", file=sys.stderr)
    return exit_code_of(report)


def exit_code_of(report: ChangeReport) -> int:
    """Return the exit code of a change."""
    if report.was_interrupted:
        return exits.INTERRUPTED
    match report.outcome:
        case "nothing":
            return exits.NOTHING_CHANGED
        case "refused" | "rejected":
            return exits.REFUSED
        case _:
            return exits.ANSWERED if report.checks_passed else exits.CHECKS_FAILED


def _as_object(finished: Finished, report: ChangeReport) -> dict[str, object]:
    changes = report.changes.files if report.changes else ()
    usage, timing = finished.usage, finished.timing
    return {
        "outcome": report.outcome,
        "checkpoint": report.checkpoint,
        "changes": [
            {"path": each.path, "added_lines": each.added_lines, "removed_lines": each.removed_lines}
            for each in changes
        ],
        "patch": patch_text(report.changes) if report.changes else "",
        "steps": [{"text": step.text, "is_refused": step.is_refused, "reason": step.reason} for step in report.steps],
        "checks": [
            {
                "command": check.command,
                "passed": check.passed,
                "summary": check.summary,
                "output": check.output,
                "milliseconds": round(check.duration_ms, 1),
                "confinement": check.confinement,
            }
            for check in report.checks
        ],
        "repairs": report.repairs,
        "usage": {
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "completion_tokens": usage.completion_tokens,
        },
        "timing": {
            "total_ms": round(timing.total_ms, 1),
            "load_ms": round(timing.load_ms, 1),
            "decode_tokens_per_s": round(timing.decode_tokens_per_s, 3),
            "acceptance_rate": timing.acceptance_rate,
        },
        "model": finished.model,
        "notices": list(finished.notices),
        "exit_code": exit_code_of(report),
    }
