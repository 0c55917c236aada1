"""The README says what the program says."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from khepri.cli import exits
from khepri.cli.config import markdown_table

_README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def _help(*command: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "khepri", *command, "--help"],
        capture_output=True,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
        check=True,
    )
    return done.stdout


def test_the_configuration_table_is_the_one_the_dataclass_makes() -> None:
    assert markdown_table() in _README


def test_every_exit_code_is_in_the_readme_and_in_the_help() -> None:
    codes = [value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)]
    said = " ".join(_help("ask").split())
    for code in codes:
        assert f"| {code} |" in _README
        assert f"{code} " in said


@pytest.mark.parametrize("option", ["--file", "--model", "--max-tokens", "--temperature", "--seed", "--steps"])
def test_every_option_of_ask_is_in_the_readme_and_in_the_help(option: str) -> None:
    assert option in _README
    assert option in _help("ask")


@pytest.mark.parametrize("option", ["--target", "--check", "--no-check", "--yes", "--dry-run", "--edit-form", "--json"])
def test_every_option_of_refactor_is_in_the_readme_and_in_the_help(option: str) -> None:
    assert option in _README
    assert option in _help("refactor")


@pytest.mark.parametrize("command", ["ask", "bench", "doctor", "config", "models", "refactor", "undo"])
def test_every_command_is_in_the_readme_and_in_the_help(command: str) -> None:
    assert f"khepri {command}" in _README
    assert command in _help()
