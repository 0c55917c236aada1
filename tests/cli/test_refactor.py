"""``khepri refactor`` as a user and a script meet it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from khepri.agent.events import ChangeReport, CheckFinished
from khepri.cli import exits
from khepri.cli.refactor import exit_code_of

FAILED = CheckFinished("pytest", False, "exit status 1", "", 1.0, "")


def khepri(root: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "XDG_STATE_HOME": str(root.parent / "state"), "COLUMNS": "100", **variables}
    return subprocess.run(
        [sys.executable, "-m", "khepri", "refactor", "--cwd", str(root), *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / "pkg").mkdir(parents=True)
    (root / "pkg" / "__init__.py").write_text("", encoding="utf-8")
    (root / "pkg" / "net.py").write_text("class Session:\n    limit = 3\n", encoding="utf-8")
    (root / "test_net.py").write_text("from pkg.net import Session\n\nassert Session.limit == 3\n", encoding="utf-8")
    return root


def test_without_a_task_or_anybody_to_ask_it_says_what_to_do(root: Path) -> None:
    done = khepri(root)
    assert done.returncode == exits.USAGE
    assert b"there is no task" in done.stderr
    done = khepri(root, "rename Session to Conversation")
    assert done.returncode == exits.USAGE
    assert b"--yes" in done.stderr
    assert b"--dry-run" in done.stderr
    assert khepri(root, "x", "--check", "true", "--dry-run").returncode == exits.USAGE


def test_an_error_is_an_object_too(root: Path) -> None:
    done = khepri(root, "x", "--yes", "--json", "--model", "no-such-model")
    assert json.loads(done.stdout)["exit_code"] == done.returncode == exits.NO_MODEL


@pytest.mark.parametrize(
    ("report", "code"),
    [
        (ChangeReport("applied", None), exits.ANSWERED),
        (ChangeReport("dry_run", None), exits.ANSWERED),
        (ChangeReport("applied", None, checks=(FAILED,)), exits.CHECKS_FAILED),
        (ChangeReport("nothing", None), exits.NOTHING_CHANGED),
        (ChangeReport("refused", None), exits.REFUSED),
        (ChangeReport("rejected", None), exits.REFUSED),
    ],
)
def test_every_outcome_has_its_exit_code(report: ChangeReport, code: int) -> None:
    assert exit_code_of(report) == code


@pytest.mark.real_model
def test_a_rename_in_words_is_a_patch_that_git_applies(root: Path, default_model: Path) -> None:
    model = str(default_model)
    done = khepri(root, "--dry-run", "--model", model, "rename Session to Conversation everywhere, tests included")
    assert done.returncode == 0, done.stderr
    subprocess.run(["git", "apply"], cwd=root, input=done.stdout, check=True)
    assert "class Conversation" in (root / "pkg" / "net.py").read_text(encoding="utf-8")
    assert "Session" not in (root / "test_net.py").read_text(encoding="utf-8")
    subprocess.run([sys.executable, "test_net.py"], cwd=root, check=True)


@pytest.mark.real_model
def test_a_change_is_written_checked_and_taken_back(root: Path, default_model: Path) -> None:
    before = (root / "pkg" / "net.py").read_bytes()
    task = "rename Session to Conversation everywhere, tests included"
    check = f"{sys.executable} test_net.py"
    done = khepri(root, "--yes", "--json", "--model", str(default_model), "--check", check, task)
    report = json.loads(done.stdout)
    assert (report["outcome"], report["exit_code"], done.returncode) == ("applied", 0, 0)
    assert [each["passed"] for each in report["checks"]] == [True]
    environment = {**os.environ, "XDG_STATE_HOME": str(root.parent / "state")}
    subprocess.run([sys.executable, "-m", "khepri", "undo", "--cwd", str(root)], env=environment, check=True)
    assert (root / "pkg" / "net.py").read_bytes() == before
