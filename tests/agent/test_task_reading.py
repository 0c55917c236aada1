"""A task says which definitions it may mean, what is renamed to what, and what its parts are."""

from pathlib import Path

import pytest

from khepri.agent.task_reading import MOST_PARTS, Candidate, candidates, parts_of, renaming
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


@pytest.mark.parametrize(
    ("task", "parts"),
    [
        ("rename a to b", 1),
        ("rename a to b; rename c to d", 2),
        ("1. rename a to b\n2. mend c\n", 2),
        ("Rename a to b, then mend c", 2),
        ("if x is None then return 1", 1),
        ("\n".join(f"mend number {n}" for n in range(MOST_PARTS + 1)), 1),
    ],
)
def test_a_task_of_several_parts_is_done_part_by_part(task: str, parts: int) -> None:
    assert len(parts_of(task)) == parts


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("rename Session to Talk everywhere, tests included", ("Session", "Talk")),
        ("Rename the function `fetch()` to `get`", ("fetch", "get")),
        ("rename Session.send to Session.post", ("Session.send", "post")),
        ("rename it to Talk", None),
        ("rename the class to Talk", None),
        ("rename net.py to web.py", None),
        ("Rename the parameter count of fetch to size", None),
        ("call Session Talk", None),
    ],
)
def test_a_task_says_what_is_renamed_to_what(task: str, said: tuple[str, str] | None) -> None:
    assert renaming(task) == said


def test_a_candidate_is_told_in_one_row() -> None:
    assert Candidate("a.py", "X.y", "method", 3).row == "- a.py X.y (method, line 3)"
