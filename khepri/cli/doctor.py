"""``khepri doctor``: looks at everything that Khepri stands on, and says for each thing what it found and what to do.

What is looked at, and how, is in ``machine_checks`` and ``engine_checks``; this module orders and shows it.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from khepri import config as configuration
from khepri.cli import engine_checks, machine_checks
from khepri.cli.checks import Check, Failure, Report, Status, attempt, check
from khepri.cli.measurement import Progress
from khepri.config import Config, Loaded
from khepri.repo.root import Repository
from khepri.repo.text import counted

_STATUS_COLUMNS = 7
_NAME_COLUMNS = 13
_LEAST_COLUMNS_IN_ROWS = 60
_STYLES = {Status.OK: "green", Status.WARNING: "yellow", Status.PROBLEM: "bold red"}


def run(cwd: Path, as_json: bool, model: str | None) -> int:
    """Examine the machine and print the report on standard output; progress goes to standard error.

    Loads the model in child processes, so that whatever breaks there is reported and not suffered. Takes seconds.

    Args:
        cwd: Folder whose repository and configuration are examined.
        as_json: Print one JSON object, ``{"checks": [{"name", "status", "detail", "advice"}], "status"}``.
        model: Name or path of the model; None means the configured one.

    Returns:
        0 if no line is a problem; else the code of the gravest one: 3 no model, 4 the model or the back end failed,
        2 the folder or the configuration cannot be used, 1 anything else.
    """
    with _progress() as progress:
        checks: list[Check] = []
        console = Console(highlight=False, markup=False, emoji=False)
        show = _ignore if as_json else _printer(console)
        for line in _examine(cwd, model, progress):
            progress("")
            show(line)
            checks.append(line)
    report = Report(tuple(checks))
    if as_json:
        print(json.dumps(report.as_json(), indent=2))
    else:
        console.print(_summary(report))
    return report.exit_code


def _examine(cwd: Path, model: str | None, progress: Progress) -> Iterator[Check]:
    repository = attempt(lambda: Repository.open(cwd))
    root = None if isinstance(repository, Failure) else repository.root
    loaded = attempt(lambda: configuration.load(root, {"model": model}, os.environ))
    config = Config(model=model or "") if isinstance(loaded, Failure) else loaded.config
    yield check("khepri", machine_checks.version)
    yield check("network", lambda: machine_checks.network(config))
    yield check("terminal", lambda: machine_checks.terminal(os.environ))
    yield check("git", lambda: _git(repository))
    yield from machine_checks.folders()
    yield check("configuration", lambda: _configuration(loaded))
    yield check("tools", lambda: machine_checks.command_tools(config))
    facts = attempt(lambda: engine_checks.gather(config, progress))
    if isinstance(facts, Failure):
        yield facts.as_check("engine")
    else:
        yield from engine_checks.lines(facts, config)


def _git(repository: Repository | Failure) -> Check:
    return repository.as_check("git") if isinstance(repository, Failure) else machine_checks.git(repository)


def _configuration(loaded: Loaded | Failure) -> Check:
    if isinstance(loaded, Failure):
        return loaded.as_check("configuration")
    return machine_checks.settings_in_force(loaded)


@contextmanager
def _progress() -> Iterator[Progress]:
    """Yield a function that shows what is going on where that can vanish; elsewhere say once that it takes a while."""
    console = Console(stderr=True, highlight=False, emoji=False)
    if not console.is_terminal:
        print("khepri: examining; loading and measuring a model takes some seconds", file=sys.stderr)
        yield _ignore
        return
    status = console.status("")

    def show(text: str) -> None:
        if text:
            status.update(Text(text))
            status.start()
        else:
            status.stop()

    try:
        yield show
    finally:
        status.stop()


def _ignore(_: object) -> None:
    return


def _printer(console: Console) -> Callable[[Check], None]:
    if not console.is_terminal:
        return _print_plain
    in_rows = console.width >= _LEAST_COLUMNS_IN_ROWS
    return lambda line: _print_row(console, line) if in_rows else _print_stacked(console, line)


def _print_plain(line: Check) -> None:
    # Each line as it comes: what follows it may take seconds.
    print(_encodable(f"{line.status:<{_STATUS_COLUMNS}} {line.name:<{_NAME_COLUMNS}} {line.detail}"), flush=True)
    if line.advice:
        print(_encodable(f"{'':<{_STATUS_COLUMNS}} {'':<{_NAME_COLUMNS}} -> {line.advice}"), flush=True)


def _print_row(console: Console, line: Check) -> None:
    table = Table.grid(padding=(0, 1))
    table.add_column(width=_STATUS_COLUMNS)
    table.add_column(width=_NAME_COLUMNS)
    table.add_column(overflow="fold")
    table.add_row(_status(line), Text(line.name, style="bold"), _encodable(line.detail))
    if line.advice:
        table.add_row("", "", Text(f"-> {_encodable(line.advice)}", style=_STYLES[line.status]))
    console.print(table)


def _print_stacked(console: Console, line: Check) -> None:
    console.print(Text.assemble(_status(line), " ", (line.name, "bold")))
    console.print(Padding(Text(_encodable(line.detail), overflow="fold"), (0, 0, 0, 2)))
    if line.advice:
        advice = Text(f"-> {_encodable(line.advice)}", style=_STYLES[line.status], overflow="fold")
        console.print(Padding(advice, (0, 0, 0, 2)))


def _status(line: Check) -> Text:
    return Text(line.status, style=_STYLES[line.status])


def _encodable(text: str) -> str:
    """Return ``text`` with what the output's encoding cannot say spelled out, so that no path can end the report."""
    encoding = getattr(sys.stdout, "encoding", None) or "ascii"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _summary(report: Report) -> str:
    problems = sum(line.status is Status.PROBLEM for line in report.checks)
    warnings = sum(line.status is Status.WARNING for line in report.checks)
    if not problems and not warnings:
        return "all is well"
    counts = [(problems, "problem"), (warnings, "warning")]
    return ", ".join(counted(count, name) for count, name in counts if count)
