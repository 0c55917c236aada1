"""``khepri refactor`` is ended from outside, in a check or in its review, and the same task is given again."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from khepri.cli import exits
from tests.support.command import PROGRAM, Command

APP = "def retry(limit):\n    return limit - 1\n"
RENAME = "rename retry to attempt"
_PATIENCE_S = 120.0


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "app.py").write_text(APP, encoding="utf-8")
    return root


def ended_in_a_check(khepri: Command, repository: Path, name: str, ended_by: signal.Signals) -> tuple[int, str]:
    """Send a signal once a check runs that finds a name; return how it ended, and what it printed."""
    mark = repository / "mark"
    check = f"if grep -q {name} app.py; then touch mark; exec sleep 300; fi"
    process = khepri.start_command(
        "refactor", "--model", str(khepri.model), RENAME, "--yes", "--json", "--check", check
    )
    deadline_s = time.monotonic() + _PATIENCE_S
    while not mark.exists() and process.poll() is None and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert mark.exists()
    process.send_signal(ended_by)
    printed, _ = process.communicate(timeout=_PATIENCE_S)
    mark.unlink()
    return process.returncode, printed.decode()


def test_an_interrupt_stops_the_check_and_nothing_is_written_by_then(khepri: Command, repository: Path) -> None:
    code, printed = ended_in_a_check(khepri, repository, "retry", signal.SIGINT)
    assert code == json.loads(printed)["exit_code"] == exits.INTERRUPTED
    assert (repository / "app.py").read_text(encoding="utf-8") == APP


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_was_written_is_checked_when_the_task_is_given_again(
    khepri: Command, repository: Path, ended_by: signal.Signals
) -> None:
    code, printed = ended_in_a_check(khepri, repository, "attempt", ended_by)
    if ended_by is signal.SIGINT:
        found = json.loads(printed)
        assert (code, found["exit_code"], found["checkpoint"]) == (exits.INTERRUPTED, exits.INTERRUPTED, 1)
    elif ended_by is signal.SIGTERM:
        found = json.loads(printed)
        assert (code, found["exit_code"], found["error"]["message"]) == (143, exits.TERMINATED, "ended by SIGTERM")
    else:
        assert code == -signal.SIGKILL
    assert "attempt" in (repository / "app.py").read_text(encoding="utf-8")
    again = khepri.run(
        "refactor", "--model", str(khepri.model), RENAME, "--yes", "--json", "--check", "grep attempt app.py"
    )
    found = json.loads(again.stdout)
    assert (again.returncode, found["outcome"], found["checkpoint"]) == (exits.ANSWERED, "applied", 1)
    assert [each["passed"] for each in found["checks"]] == [True]
    assert "at its checks" in " ".join(again.stderr.split())
    assert khepri.run("undo").returncode == exits.ANSWERED
    assert (repository / "app.py").read_text(encoding="utf-8") == APP


@pytest.mark.parametrize("ended_by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_what_was_not_answered_is_reviewed_when_the_task_is_given_again(
    khepri: Command, repository: Path, ended_by: signal.Signals
) -> None:
    ours, theirs = os.openpty()
    command = [*PROGRAM, "refactor", RENAME, "--no-check", "--json", "--model", str(khepri.model)]
    with subprocess.Popen(
        command, cwd=repository, env=khepri.environment(), stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stderr is not None
        said = b""
        while b"Write it?" not in said and (piece := os.read(process.stderr.fileno(), 4096)):
            said += piece
        process.send_signal(ended_by)
        process.communicate(timeout=_PATIENCE_S)
    os.close(theirs)
    os.close(ours)
    ends = {signal.SIGINT: exits.INTERRUPTED, signal.SIGTERM: exits.TERMINATED, signal.SIGKILL: -signal.SIGKILL}
    assert process.returncode == ends[ended_by]
    assert (repository / "app.py").read_text(encoding="utf-8") == APP
    again = khepri.run("refactor", "--model", str(khepri.model), RENAME, "--yes", "--no-check")
    assert again.returncode == exits.ANSWERED
    assert "at the review" in " ".join(again.stderr.split())
    assert "attempt" in (repository / "app.py").read_text(encoding="utf-8")
