"""A task says which definitions it may mean, and where something is to go."""

from pathlib import Path

import pytest

from khepri.agent.protocol import ToolCall
from khepri.agent.task_reading import Candidate, candidates, destination, is_only_a_place, possible_names, rivals
from khepri.repo.root import Repository
from tests.support.changing import write_namesakes


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_namesakes(tmp_path)


def found(root: Path, task: str) -> list[str]:
    return [f"{each.path}:{each.symbol}" for each in candidates(Repository.open(root), task, None)]


def test_what_a_task_names_comes_first_and_its_file_decides(root: Path) -> None:
    assert found(root, "rename Session to Talk in src/other.py")[0] == "src/other.py:Session"
    assert set(found(root, "rename Session to Talk")[:2]) == {"src/net.py:Session", "src/other.py:Session"}
    assert found(root, "mend Session.send")[0] == "src/net.py:Session.send"
    assert "src/net.py:" in found(root, "clean net.py up")


def test_a_candidate_is_told_in_one_row() -> None:
    assert Candidate("a.py", "X.y", "method", 3).row == "- a.py X.y (method, line 3)"


@pytest.mark.parametrize(
    ("task", "path"),
    [
        ("move Session to src/other.py", "src/other.py"),
        ("Move Session from src/net.py to `other.py`.", "other.py"),
        ("put Session into a new file talk.py", "talk.py"),
        ("Move the class Session in src/net.py to its own module src/talk.py, please", "src/talk.py"),
        ("rename Session to Talk in src/net.py", ""),
        ("move Session to the end of the file", ""),
    ],
)
def test_a_task_says_where_something_goes(task: str, path: str) -> None:
    assert destination(task) == path


@pytest.mark.parametrize(
    ("task", "is_it"),
    [
        ("rename the property x of Session to y", True),
        ("rename x in the class `Session` to y", True),
        ("rename Session's x to y", True),
        ("rename Session.x to y", True),
        ("rename Session to y", False),
        ("rename all uses of Session to y", False),
        ("rename the x of Session to y and Session to Z", False),
        ("inline every call of Session", False),
    ],
)
def test_a_name_may_only_say_where_something_lies(task: str, is_it: bool) -> None:
    assert is_only_a_place("Session", task) is is_it


def test_what_the_destination_of_a_move_defines_is_not_what_moves(root: Path) -> None:
    assert found(root, "move fetch to other.py")[0] == "src/net.py:fetch"
    assert "src/other.py:run" not in found(root, "move fetch to other.py")
    task = "move Session to src/other.py"
    both = candidates(Repository.open(root), task, None)
    assert rivals(ToolCall("move", {"path": "src/net.py", "symbol": "Session"}), both, task) == []
    assert rivals(ToolCall("move", {"path": "src/other.py", "symbol": "Session"}), both, task) == ["src/net.py"]


def test_the_variables_that_say_which_lines_are_extracted_are_no_new_name() -> None:
    fetch = Candidate("app.py", "fetch", "function", 1)
    assert possible_names("extract the lines from total to tail in fetch into summarize", [fetch]) == ["summarize"]
    assert possible_names("extract the check from fetch to parse_url", [fetch]) == ["parse_url"]
    assert "address" in possible_names("rename parameter from url to address in fetch", [fetch])
