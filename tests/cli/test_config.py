"""``khepri config`` in a real process, in a pipe and on a terminal."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from khepri import config
from khepri.cli.config import markdown_table

ROOT = Path(__file__).parent.parent.parent
PROGRAM = "import sys; from pathlib import Path; from khepri.cli.config import run; run(Path(sys.argv[1]), {as_json})"


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    (home / "khepri").mkdir(parents=True)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("KHEPRI_")}
    return kept | {"HOME": str(home), "XDG_CONFIG_HOME": str(home), "PYTHONPATH": str(ROOT), "KHEPRI_SEED": "7"}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "a [bold]repository[/bold] é"
    (folder / ".khepri").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / ".khepri" / "config.toml").write_text('steps = 3\nmodel = "small-model"\n')
    return folder


def show(cwd: Path, environ: dict[str, str], as_json: bool) -> str:
    command = [sys.executable, "-W", "error", "-c", PROGRAM.format(as_json=as_json), str(cwd)]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True, timeout=300).stdout


def test_json_holds_every_setting_with_its_value_and_place(repository: Path, environ: dict[str, str]) -> None:
    shown = json.loads(show(repository, environ, True))
    assert list(shown) == list(config.keys())
    file = str(repository / ".khepri" / "config.toml")
    assert shown["steps"] == {"value": 3, "source": "repository", "where": file}
    assert shown["seed"] == {"value": 7, "source": "environment", "where": "KHEPRI_SEED"}
    assert shown["top_p"] == {"value": 1.0, "source": "default", "where": "default"}


def test_a_pipe_gets_aligned_plain_text(repository: Path, environ: dict[str, str]) -> None:
    lines = show(repository, environ, False).splitlines()
    assert len(lines) == len(config.keys())
    assert "\x1b" not in "".join(lines)
    assert lines[0].split(maxsplit=2) == ["model", '"small-model"', str(repository / ".khepri" / "config.toml")]
    starts = {line.index(line.split(maxsplit=2)[2]) for line in lines}
    assert len(starts) == 1


@pytest.mark.parametrize("columns", ["20", "200"])
def test_a_terminal_gets_a_table_of_any_width(repository: Path, environ: dict[str, str], columns: str) -> None:
    leader, follower = pty.openpty()
    command = [sys.executable, "-W", "error", "-c", PROGRAM.format(as_json=False), str(repository)]
    with subprocess.Popen(
        command, env=environ | {"COLUMNS": columns, "NO_COLOR": "1"}, stdout=follower, stdin=subprocess.DEVNULL
    ) as process:
        os.close(follower)
        shown = b""
        while chunk := _read(leader):
            shown += chunk
    os.close(leader)
    assert process.returncode == 0
    text = shown.decode()
    assert "steps" in text.replace("\n", "")
    if columns == "200":
        assert "[bold]repository[/bold]" in text
        assert '"small-model"' in text


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 4096)
    except OSError:
        # Linux reports the end of a pseudo-terminal as an input error.
        return b""


def test_the_markdown_table_has_a_full_row_for_each_setting() -> None:
    head, rule, *rows = markdown_table().splitlines()
    assert head.count("|") == rule.count("|") == 5
    assert len(rows) == len(config.keys())
    for row, name in zip(rows, config.keys(), strict=True):
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        assert cells[0].strip("| ") == f"`{name}`"
        assert all(cells)
        assert cells[3].endswith(".")
