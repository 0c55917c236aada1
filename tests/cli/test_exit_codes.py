"""The exit codes of ``khepri ask`` and ``khepri refactor``, each reached by the real command, and told as JSON."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from khepri.cli import exits
from tests.support.command import PROGRAM, Command

APP = "def retry(limit):\n    return limit - 1\n"
TASKS = {"ask": ("What is this?",), "refactor": ("rename retry to attempt", "--yes", "--no-check")}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "app.py").write_text(APP, encoding="utf-8")
    return root


def broken_model(khepri: Command) -> tuple[str, ...]:
    place = khepri.home / "broken.gguf"
    data = khepri.model.read_bytes()
    place.write_bytes(data[: len(data) * 2 // 3])
    return ("--model", str(place))


def long_file(khepri: Command) -> tuple[str, ...]:
    place = khepri.home / "long.txt"
    place.write_text("words and words\n" * 20_000, encoding="utf-8")
    return ("--model", str(khepri.model), "--file", str(place))


def refused_setting(khepri: Command) -> tuple[str, ...]:
    folder = khepri.cwd / ".khepri"
    folder.mkdir()
    (folder / "config.toml").write_text('check = "rm -rf /"\n', encoding="utf-8")
    return ("--model", str(khepri.model))


CASES = {
    "wrong configuration": (refused_setting, exits.USAGE, "name a command that runs on your machine"),
    "no such model": (lambda khepri: ("--model", "no-such-model"), exits.NO_MODEL, "no-such-model"),
    "broken model": (broken_model, exits.MODEL_FAILED, "broken.gguf"),
    "full context": (long_file, exits.CONTEXT_FULL, "tokens"),
}


@pytest.mark.parametrize("command", TASKS)
@pytest.mark.parametrize("case", CASES)
def test_an_end_has_its_code_and_its_reason_as_json_and_in_words(khepri: Command, command: str, case: str) -> None:
    arguments, code, words = CASES[case]
    done = khepri.run(command, *TASKS[command], "--json", *arguments(khepri))
    found = json.loads(done.stdout)
    assert (done.returncode, found["exit_code"]) == (code, code), done.stderr
    assert words in found["error"]["message"]
    assert words in " ".join(done.stderr.split())
    assert (khepri.cwd / "app.py").read_text(encoding="utf-8") == APP


@pytest.mark.parametrize(
    "arguments",
    [
        ("refactor", "x", "--check", "true", "--dry-run"),
        ("undo", "--to"),
        ("refactor",),
        ("ask",),
        ("ask", "--no-such-option", "why?"),
        ("refactor", "x", "--seed", "much"),
        ("refactor", "x", "--seed"),
        ("sessions", "export"),
        ("no-such-command",),
        ("--no-such-option",),
        ("bench", "--output", "x.svg"),
        ("config", "--cwd", "no-such-folder"),
    ],
)
@pytest.mark.parametrize("output", ["--json", "--stream-json"])
def test_a_wrong_command_line_is_told_as_json(khepri: Command, arguments: tuple[str, ...], output: str) -> None:
    done = khepri.run(arguments[0], output, *arguments[1:])
    found = json.loads(done.stdout)
    assert (done.returncode, found["exit_code"]) == (exits.USAGE, exits.USAGE)
    assert found["error"]["message"] in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("answer", "code"), [(b"y\n", exits.ANSWERED), (b"n\n", exits.REFUSED), (b"\x04", exits.REFUSED)]
)
def test_the_user_says_on_a_terminal_whether_a_change_is_written(khepri: Command, answer: bytes, code: int) -> None:
    ours, theirs = os.openpty()
    try:
        os.write(ours, answer)
        done = subprocess.run(
            [*PROGRAM, "refactor", "rename retry to attempt", "--no-check", "--json", "--model", str(khepri.model)],
            cwd=khepri.cwd,
            env=khepri.environment(),
            stdin=theirs,
            capture_output=True,
            timeout=300,
        )
    finally:
        os.close(theirs)
        os.close(ours)
    found = json.loads(done.stdout)
    assert (done.returncode, found["exit_code"]) == (code, code), done.stderr
    assert found["outcome"] == ("applied" if code == exits.ANSWERED else "rejected")
    assert ("attempt" in (khepri.cwd / "app.py").read_text(encoding="utf-8")) == (code == exits.ANSWERED)
