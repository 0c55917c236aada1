"""Every end of ``khepri refactor``, in words and as JSON. A rename leaves no choice, so a random model does it."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from khepri.cli import exits
from khepri.edits.checkpoints import Checkpoints
from khepri.edits.refusal import Refusal
from tests.support.command import Command

APP = "def retry(limit):\n    return limit - 1\n\n\nclass Session:\n    limit = retry(3)\n"
RENAME = "rename retry to attempt"
Refactor = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "app.py").write_text(APP, encoding="utf-8")
    return root


@pytest.fixture
def refactor(khepri: Command) -> Refactor:
    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return khepri.run("refactor", "--model", str(khepri.model), *arguments)

    return run


def result(done: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """Return the object that was printed; its exit code is that of the process."""
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["exit_code"] == done.returncode, done.stderr
    return found


def test_a_change_is_written_and_said(refactor: Refactor, repository: Path) -> None:
    done = refactor(RENAME, "--yes", "--no-check")
    assert (done.returncode, done.stdout) == (exits.ANSWERED, "app.py +2 -2\n")
    assert "def attempt(limit)" in (repository / "app.py").read_text(encoding="utf-8")
    assert "khepri undo 1" in done.stderr


def test_a_check_that_fails_has_a_code_of_its_own_and_the_change_stays(refactor: Refactor, repository: Path) -> None:
    done = refactor(RENAME, "--yes", "--json", "--check", "echo no; exit 3")
    found = result(done)
    assert (done.returncode, found["outcome"], found["checkpoint"]) == (exits.CHECKS_FAILED, "applied", 1)
    assert [(each["passed"], each["output"]) for each in found["checks"]] == [(False, "no\n")]
    assert "attempt" in (repository / "app.py").read_text(encoding="utf-8")


def lock(root: Path) -> None:
    (root / "app.py").chmod(0o444)


def double(root: Path) -> None:
    (root / "other.py").write_text("def retry(): ...\n", encoding="utf-8")


REFUSED: list[tuple[Refusal, tuple[str, ...], Callable[[Path], object]]] = [
    (Refusal.NO_TARGET, ("rename nowhere to attempt",), Path.exists),
    (Refusal.NO_TARGET, ("count", "--target", "app.py:nowhere"), Path.exists),
    (Refusal.NO_TARGET, ("count", "--target", "x" * 300 + ".py"), Path.exists),
    (Refusal.NO_TARGET, ("count", "--target", "x" * 300 + ".py:retry"), Path.exists),
    (Refusal.NO_TARGET, ("count", "--target", "ü" * 150 + ".py"), Path.exists),
    (Refusal.OUTSIDE, ("count", "--target", "../app.py:retry"), Path.exists),
    (Refusal.NOT_POSSIBLE, ("rename retry to Session",), Path.exists),
    (Refusal.AMBIGUOUS, (RENAME,), double),
    (Refusal.READ_ONLY, (RENAME,), lock),
]


@pytest.mark.parametrize(("reason", "arguments", "prepare"), REFUSED, ids=lambda each: str(each)[:40])
def test_every_refusal_has_its_reason_and_writes_nothing(
    refactor: Refactor,
    repository: Path,
    reason: Refusal,
    arguments: tuple[str, ...],
    prepare: Callable[[Path], object],
) -> None:
    prepare(repository)
    done = refactor(*arguments, "--yes", "--json", "--no-check")
    found = result(done)
    assert done.returncode == exits.REFUSED
    refusal = found["error"] if "error" in found else found["steps"][-1]
    assert refusal["reason"] == reason
    words = refusal["message" if "error" in found else "text"]
    assert any(words in said for said in (" ".join(done.stderr.split()), *found.get("notices", ())))
    assert (repository / "app.py").read_text(encoding="utf-8") == APP


def test_a_denied_check_has_the_change_refused_before_a_model_is_looked_for(
    refactor: Refactor, repository: Path
) -> None:
    (repository / ".khepri").mkdir()
    (repository / ".khepri" / "permissions.toml").write_text('deny = ["command touch"]\n', encoding="utf-8")
    done = refactor(RENAME, "--yes", "--json", "--model", "no-such-model", "--check", "true # \\\ntouch PWNED")
    assert (done.returncode, result(done)["error"]["reason"]) == (exits.REFUSED, Refusal.DENIED)
    assert "may not be run" in " ".join(done.stderr.split())
    assert (repository / "app.py").read_text(encoding="utf-8") == APP
    assert not (repository / "PWNED").exists()


def test_while_another_khepri_writes_nothing_is_written(refactor: Refactor, khepri: Command, repository: Path) -> None:
    state = khepri.home / ".local" / "state" / "khepri" / "checkpoints"
    with Checkpoints(repository, state).locked():
        found = result(refactor(RENAME, "--yes", "--json", "--no-check"))
    assert found["steps"][-1]["reason"] == Refusal.BUSY
    assert (repository / "app.py").read_text(encoding="utf-8") == APP


@pytest.mark.parametrize("task", ["rename retry to retry", "rename retry to attempt; rename attempt to retry"])
def test_where_nothing_changes_the_exit_code_says_so(refactor: Refactor, repository: Path, task: str) -> None:
    done = refactor(task, "--yes", "--json", "--no-check")
    assert (done.returncode, result(done)["outcome"]) == (exits.NOTHING_CHANGED, "nothing")
    assert "nothing changed" in " ".join(done.stderr.split())
    assert (repository / "app.py").read_text(encoding="utf-8") == APP
