"""What a command may not load before it needs it, seen in ``sys.modules`` of a real process."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

HEAVY = {"textual", "llama_cpp", "llguidance", "numpy", "git", "requests", "tree_sitter"}

RUN = """
import atexit, json, pathlib, sys
report = pathlib.Path(sys.argv[1])
sys.argv = ["khepri", *sys.argv[2:]]
atexit.register(lambda: report.write_text(json.dumps(sorted(sys.modules))))
from khepri.__main__ import main
sys.exit(main())
"""


@pytest.mark.parametrize(
    "arguments",
    [("--help",), ("--version",), ("ask", "--help"), ("models", "--help"), ("doctor", "--help"), ("no-such-command",)],
    ids=" ".join,
)
def test_help_loads_nothing_heavy(arguments: tuple[str, ...], tmp_path: Path) -> None:
    report = tmp_path / "modules.json"
    done = subprocess.run([sys.executable, "-c", RUN, str(report), *arguments], capture_output=True, text=True)
    assert done.returncode == (2 if arguments == ("no-such-command",) else 0), done.stderr
    assert HEAVY.isdisjoint(json.loads(report.read_text(encoding="utf-8")))


@pytest.mark.parametrize("module", ["khepri.errors", "khepri.paths", "khepri.assets", "khepri.egress", "khepri.config"])
def test_the_ground_floor_loads_nothing_heavy(module: str) -> None:
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (HEAVY | {"rich", "typer"}).isdisjoint(done.stdout.split())


def test_the_first_frame_of_the_app_loads_nothing_that_models_edits_or_answers_need(tmp_path: Path) -> None:
    before_the_frame = "khepri.cli.opening, khepri.cli.interactive, khepri.tui.app, khepri.tui.terminal_guard"
    opens = "from pathlib import Path; from khepri.repo.root import Repository; Repository.open(Path(sys.argv[1]))"
    program = f"import sys, {before_the_frame}; {opens}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=True)
    models = {"llama_cpp", "llguidance", "numpy", "jinja2", "requests"}
    edits = {"rope", "ast_grep_py", "git", "pathspec", "khepri.edits.apply", "khepri.agent.permissions"}
    answers = {"markdown_it", "pygments", "plotext"}
    assert (models | edits | answers).isdisjoint(done.stdout.split())


@pytest.mark.parametrize("arguments", [(), ("--continue", "--model", "tiny")], ids=" ".join)
def test_the_app_is_opened_without_the_table_of_commands(arguments: tuple[str, ...], tmp_path: Path) -> None:
    report = tmp_path / "modules.json"
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(report), *arguments], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 2
    assert "khepri needs a terminal" in done.stderr
    assert {"typer", "pydantic"}.isdisjoint(json.loads(report.read_text(encoding="utf-8")))


def test_a_shell_completes_a_command() -> None:
    asked = {"_KHEPRI_COMPLETE": "complete_bash", "COMP_WORDS": "khepri mod", "COMP_CWORD": "1"}
    program = "import sys; sys.argv = ['khepri']; from khepri.__main__ import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **asked}, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.split() == ["models"]


def test_the_stopwatch_on_help_reports_and_never_fails() -> None:
    times_ms = []
    for _ in range(3):
        started = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "khepri", "--help"], check=True, capture_output=True)
        times_ms.append(1000 * (time.perf_counter() - started))
        assert done.stdout.lstrip().startswith(b"Usage: ")
    print(f"khepri --help: {min(times_ms):.0f} ms at best of {len(times_ms)}")
