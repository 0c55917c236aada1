from collections.abc import Callable
from pathlib import Path

import pytest

from khepri.tools.base import Observation

Call = Callable[..., Observation]
Git = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path, git: Git) -> Path:
    git(tmp_path, "init")
    for number in range(40):
        (tmp_path / "app.py").write_text("".join(f"line {each}\n" for each in range(number + 1)))
        git(tmp_path, "add", "app.py")
        git(tmp_path, "commit", "-m", f"change {number}")
    return tmp_path


def test_the_log_is_rows_and_says_how_to_go_on(folder: Path, call: Call) -> None:
    rows = call("git", {"action": "log"}, budget=1000).text.split("\n")
    assert len(rows) == 31
    assert rows[0].endswith("2026-01-02 Ann: change 39")
    older = rows[-1].removeprefix("[cut: older commits; use log with ref ").removesuffix("]")
    assert call("git", {"action": "log", "ref": older}, budget=1000).text.split("\n")[0].endswith("change 9")
    short = call("git", {"action": "log"}, budget=60).text.split("\n")
    assert short[-1] == f"[cut: older commits; use log with ref {short[-2].split()[0]}~1]"


def test_the_log_of_a_path_nobody_knows_is_empty(folder: Path, call: Call) -> None:
    assert call("git", {"action": "log", "path": "none.py"}).text == "no commit touches it"


def test_a_commit_is_shown_within_the_budget(folder: Path, call: Call) -> None:
    observation = call("git", {"action": "show", "ref": "HEAD~3"})
    assert "change 36" in observation.text
    assert "+line 36" in observation.text
    assert observation.paths == ("app.py",)
    cut = call("git", {"action": "show", "ref": "HEAD~3"}, budget=40)
    assert "more lines of app.py; name a path]" in cut.text


def test_a_difference_or_none(folder: Path, call: Call) -> None:
    assert call("git", {"action": "diff"}).text.startswith("no difference")
    (folder / "app.py").write_text("all new\n")
    assert "+all new" in call("git", {"action": "diff"}).text


@pytest.mark.parametrize("lines", ["10-11", "10:11", "10, 11", "L10-L11", "10 to 11", "10..11"])
def test_blame_understands_how_models_write_lines(folder: Path, call: Call, lines: str) -> None:
    rows = call("git", {"action": "blame", "path": "app.py", "lines": lines}).text.split("\n")
    assert [row.split(" ")[0] for row in rows] == ["app.py:10:", "app.py:11:"]
    assert rows[0].endswith("2026-01-02 Ann: line 9")


def test_a_long_blame_says_which_lines_are_missing(folder: Path, call: Call) -> None:
    rows = call("git", {"action": "blame", "path": "app.py"}, budget=100).text.split("\n")
    assert rows[-1] == f"[cut: {41 - len(rows)} more lines; use blame with lines {len(rows)}-40]"


def test_blame_needs_a_path_and_lines_that_are_numbers(folder: Path, call: Call) -> None:
    assert call("git", {"action": "blame"}).text == "error: blame needs a path; name a file"
    assert call("git", {"action": "blame", "path": "app.py", "lines": "all"}).is_error


def test_status_says_so_when_nothing_changed(folder: Path, call: Call) -> None:
    assert call("git", {"action": "status"}).text == "branch main\nnothing changed"
    (folder / "new.py").touch()
    assert call("git", {"action": "Status"}).text == "branch main\n?? new.py"


def test_other_commands_are_refused(folder: Path, call: Call) -> None:
    observation = call("git", {"action": "push"})
    assert observation.is_error
    assert "it knows log, show, diff, blame, status" in observation.text


def test_a_message_with_escapes_is_harmless(folder: Path, git: Git, call: Call) -> None:
    git(folder, "commit", "--allow-empty", "-m", "evil \x1b[31mred\x1b]0;t\x07")
    assert "evil red" in call("git", {"action": "log"}).text.split("\n")[0]


def test_a_folder_without_git_says_so(tmp_path: Path, call: Call) -> None:
    observation = call("git", {"action": "log"})
    assert observation.is_error
    assert "not in a git repository" in observation.text
