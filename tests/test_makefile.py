"""The first commands that a newcomer types, up to where they would install something."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def make(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run make in the checkout as a user would, apart from any make that runs these tests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(("make", *arguments), cwd=ROOT, env=environment, capture_output=True, text=True)


def targets() -> set[str]:
    return set(re.findall(r"^make ([a-z-]+) ", make().stdout, re.MULTILINE))


def test_make_alone_lists_the_commands_and_changes_nothing() -> None:
    assert {"try", "test", "test-all", "check", "eval", "lock", "clean"} <= targets()


def test_every_make_command_in_the_readme_exists() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`|\$ )make ([a-z]+(?:-[a-z]+)*)\b", readme, re.MULTILINE))
    assert {"try", "test"} <= named
    assert named <= targets()


def test_a_python_that_is_too_old_or_missing_is_named_with_what_to_do(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = make("setup", f"VENV={tmp_path / 'venv'}", f"PYTHON={old}")
    assert done.returncode == 2
    assert f"needs Python 3.11 or newer; none found among: {old}" in done.stderr
    assert "make try PYTHON=" in done.stderr
    assert not (tmp_path / "venv").exists()


def test_what_ci_runs_is_executable_and_ends_with_the_tests() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text(encoding="utf-8").rstrip().endswith("make test-all")
