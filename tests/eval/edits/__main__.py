"""Does the edit tasks of ``tasks.toml`` with a real model and reports what came of them.

Run it with ``make eval`` or ``python -m tests.eval.edits``. Each task gets a fresh copy of an installed package and
goes the way of ``khepri refactor --yes``; the model is loaded once. A wrong edit is a result, not a failure. Results
are written one by one, and a run that finds some of them goes on with the rest: ``--seconds`` bounds a run.

``--form file`` and ``--form blocks`` do the tasks that take thought in another form, on the targets that the model
chose when it wrote functions; ``--sample 12`` does a dozen of them. ``--targets FILE`` gives every form the targets of
an earlier run, functions too, so that the times compare the writing alone.
"""

import argparse
import ast
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from tests.eval.edits.unrelated import unrelated_lines

_TASKS = Path(__file__).with_name("tasks.toml")
_CHECK_SECONDS = 60
_TEST = "test_task.py"


@dataclass(frozen=True)
class EditTask:
    """One change that is asked for, and how it is judged."""

    id: str
    package: str
    kind: str
    """``tool`` if a deterministic tool can do it, ``model`` if it takes thought."""
    text: str
    files: tuple[str, ...]
    """The files that a right change may touch."""
    check: str
    """Python that passes after a right change."""
    plant: tuple[tuple[str, str, str], ...] = ()
    """Path, old and new text: what is put into the copy beforehand. A file without old text is new."""
    is_test_given: bool = False
    """True if the check lies in the copy as a failing test and is run like a user's ``--check``."""


@dataclass(frozen=True)
class EditResult:
    """What came of one task."""

    id: str
    kind: str
    form: str
    outcome: str
    """``applied``, ``refused``, ``nothing`` or ``error``."""
    reason: str
    """Why the last refused step was refused."""
    plan: tuple[str, ...]
    targets: tuple[str, ...]
    """What was written anew, as ``path:Symbol``."""
    is_sound: bool
    """False if a changed file has a syntax error, or a byte outside the reported change differs."""
    passes: bool
    changed_lines: int
    unrelated_lines: int
    """Those of them that the plan is not about."""
    stray_files: tuple[str, ...]
    """Changed files that the task does not speak of."""
    seconds: float
    completion_tokens: int
    acceptance_rate: float | None
    words: tuple[str, ...]
    """The steps in words, for reading up on a failure."""


def load_tasks() -> list[EditTask]:
    """Return the tasks in their order."""
    tables = tomllib.loads(_TASKS.read_text(encoding="utf-8"))["task"]
    return [
        EditTask(
            **{**table, "files": tuple(table["files"]), "plant": tuple(tuple(each) for each in table.get("plant", ()))}
        )
        for table in tables
    ]


def make_copy(task: EditTask, parent: Path) -> Path:
    """Copy the task's package below ``parent``, plant what belongs into it, and return the root."""
    spec = find_spec(task.package)
    assert spec is not None
    assert spec.origin is not None
    root = parent / task.id
    shutil.copytree(
        Path(spec.origin).parent, root / task.package, ignore=shutil.ignore_patterns("__pycache__", "*.pyc", "*.so")
    )
    for path, old, new in task.plant:
        place = root / path
        text = place.read_text(encoding="utf-8") if old else ""
        assert text.count(old) == 1 or not old, f"{task.id}: {old!r} is not there once"
        place.write_text(text.replace(old, new) if old else new, encoding="utf-8")
    return root


def contents(root: Path) -> dict[str, bytes]:
    """Return every file of a copy."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }


def passes(task: EditTask, root: Path) -> bool:
    """Return True if the task's check passes in a copy."""
    environment = {**os.environ, "PYTHONPATH": str(root), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", task.check],
            cwd=root,
            env=environment,
            capture_output=True,
            timeout=_CHECK_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def is_sound(before: dict[str, bytes], after: dict[str, bytes], promised: dict[str, bytes | None]) -> bool:
    """Return True if a copy holds exactly what was promised, and all that is changed in it is Python still."""
    expected = {path: data for path, data in {**before, **promised}.items() if data is not None}
    if expected != after:
        return False
    for path, data in after.items():
        if path.endswith(".py") and before.get(path) != data:
            try:
                ast.parse(data)
            except (SyntaxError, ValueError):
                return False
    return True


class Bench:
    """The model, loaded once, and the tasks that it does. A context manager."""

    def __init__(self, model: str | None, form: str) -> None:
        from khepri import config
        from khepri.agent.session import engine_files, engine_settings
        from khepri.config import EditForm
        from khepri.engine.launch import launch
        from khepri.models.stores import default_model, find

        self._config = replace(config.load(None, {}, {}).config, edit_form=EditForm(form))
        chosen = find(model) if model else default_model()
        self.model = chosen.name
        self._form = form
        self._engine = launch(
            chosen.path,
            engine_settings(self._config, None),
            engine_files(),
            lambda: None,
        )

    def __enter__(self) -> "Bench":
        return self

    def __exit__(self, *_: object) -> None:
        self._engine.close()

    def do(self, task: EditTask, targets: Sequence[str], parent: Path) -> EditResult:
        """Do one task and judge it."""
        from khepri.agent.change_setup import change_run
        from khepri.agent.events import ChangeReport, Event, PlanMade
        from khepri.agent.task import Instruction
        from khepri.agent.task_reading import candidates
        from khepri.errors import KhepriError
        from khepri.repo.root import Repository

        root = make_copy(task, parent)
        checks: tuple[str, ...] = ()
        if task.is_test_given:
            (root / _TEST).write_text(task.check.lstrip(), encoding="utf-8")
            checks = (f"PYTHONPATH=. PYTHONDONTWRITEBYTECODE=1 {shlex.quote(sys.executable)} -P {_TEST}",)
        before = contents(root)
        self._engine.wait_loaded()
        started_s = time.perf_counter()
        repository = Repository.open(root)
        instruction = Instruction(task.text, targets=tuple(targets), checks=checks, is_approved=True)
        events: list[Event] = []
        found = candidates(repository, task.text, None)
        run, writer, _ = change_run(self._engine, repository, self._config, instruction, found, events.append)
        try:
            report = run.run()
        except KhepriError as error:
            report = ChangeReport("error", None)
            run.notices.append(f"{type(error).__name__}: {error.message}")
        seconds = time.perf_counter() - started_s
        after = contents(root)
        plan = next((event.steps for event in events if isinstance(event, PlanMade)), ())
        changes = report.changes.files if report.changes else ()
        drafted = sum(each.drafted_tokens for each in writer.generations)
        refused = [step for step in report.steps if step.is_refused]
        return EditResult(
            task.id,
            task.kind,
            self._form,
            report.outcome,
            refused[-1].reason if refused else "",
            plan,
            tuple(step.removeprefix("rewrite ").replace(" ", ":") for step in plan if step.startswith("rewrite ")),
            is_sound(before, after, {change.path: change.after for change in changes}),
            passes(task, root),
            sum(change.added_lines + change.removed_lines for change in changes),
            unrelated_lines(changes, plan),
            tuple(change.path for change in changes if change.path not in task.files),
            round(seconds, 1),
            sum(len(each.tokens) for each in writer.generations),
            sum(each.accepted_tokens for each in writer.generations) / drafted if drafted else None,
            (*(step.text for step in report.steps), *run.notices),
        )


def read_results(path: Path) -> list[EditResult]:
    """Return the results that a file holds, one a line."""
    return [_read_result(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _read_result(line: str) -> EditResult:
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in json.loads(line).items()
    }
    return EditResult(**fields)


def show(results: Sequence[EditResult]) -> None:
    """Print what came of the tasks, for each form and kind."""
    for form in ("function", "file", "blocks"):
        for kind in ("tool", "model"):
            some = [each for each in results if (each.form, each.kind) == (form, kind)]
            if not some:
                continue
            applied = [each for each in some if each.outcome == "applied"]
            refused = [each for each in some if each.outcome == "refused"]
            print(
                f"{form:8} {kind:5} {len(some):3} tasks: {len(applied)} applied, {len(refused)} refused by a guard, "
                f"{sum(not each.is_sound for each in some)} corrupt, {sum(each.passes for each in some)} pass, "
                f"{sum(bool(each.stray_files) for each in some)} touch other files, "
                f"median {median(each.changed_lines for each in applied) if applied else 0:.0f} lines, "
                f"{sum(each.unrelated_lines for each in applied)} unrelated lines in all, "
                f"{median(each.seconds for each in some):.1f} s, "
                f"{median(each.completion_tokens for each in some):.0f} tokens"
            )
    for each in results:
        if not each.passes:
            print(f"  {each.form} {each.id}: {each.outcome} {each.reason} | {' | '.join(each.plan)}")
            print(f"     {' | '.join(each.words)[:300]}")


def main() -> int:
    """Do what is left to do and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.eval.edits", description="Do the edit tasks.")
    parser.add_argument("--form", choices=("function", "file", "blocks"), default="function")
    parser.add_argument("--only", action="append", default=[], metavar="TEXT", help="tasks whose id contains TEXT")
    parser.add_argument(
        "--sample", type=int, metavar="N", help="N of the tasks that take thought, every second one: for the forms"
    )
    parser.add_argument(
        "--targets", type=Path, metavar="FILE", help="results in whole functions whose targets are given to every form"
    )
    parser.add_argument("--model", help="model to use instead of the default")
    parser.add_argument("--output", type=Path, default=Path("build/edits.jsonl"), help="one result a line; resumed")
    parser.add_argument("--seconds", type=float, default=1e9, help="start no task after that")
    options = parser.parse_args()
    started_s = time.monotonic()
    done = read_results(options.output) if options.output.exists() else []
    chosen = read_results(options.targets) if options.targets else done
    targets = {each.id: each.targets for each in chosen if each.form == "function"}
    tasks = [task for task in load_tasks() if not options.only or any(word in task.id for word in options.only)]
    if options.sample:
        tasks = [task for task in tasks if task.kind == "model"][: 2 * options.sample : 2]
    are_given = options.targets or options.form != "function"
    if are_given:
        tasks = [task for task in tasks if task.kind == "model" and targets.get(task.id)]
    known = {(each.id, each.form) for each in done}
    left = [task for task in tasks if (task.id, options.form) not in known]
    options.output.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="khepri-eval-") as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"
        if left:
            with Bench(options.model, options.form) as bench, options.output.open("a", encoding="utf-8") as output:
                for task in left:
                    if time.monotonic() - started_s > options.seconds:
                        break
                    result = bench.do(task, targets[task.id] if are_given else (), Path(folder) / "work")
                    done.append(result)
                    print(json.dumps(asdict(result), ensure_ascii=False), file=output, flush=True)
                    mark = "pass" if result.passes else "FAIL"
                    print(f"{mark} {task.id} {result.outcome} {result.seconds} s", file=sys.stderr, flush=True)
    show(done)
    return 0


if __name__ == "__main__":
    sys.exit(main())
