"""What Khepri exported into a repository is no part of it, and what only looks like it is."""

import os
from pathlib import Path

import pytest

from khepri.errors import ToolError
from khepri.repo.exports import EXPORT_MARK
from khepri.repo.root import Repository

NAME = "khepri-20260102-030405-abcd.md"
DOCUMENT = f"<!-- {EXPORT_MARK} -->\n\n# Where is retry?\n"


@pytest.mark.parametrize("name", [NAME, "docs/khepri-20260102-030405-abcd-2.json"])
def test_an_export_is_neither_listed_nor_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    repository = Repository.open(tmp_path)
    assert repository.files() == ()
    with pytest.raises(ToolError, match="does not exist"):
        repository.resolve(name)
    path.write_text(DOCUMENT, encoding="utf-8")
    repository.refresh()
    assert repository.files() == ()
    with pytest.raises(ToolError, match="Khepri exported"):
        repository.resolve(name)


@pytest.mark.parametrize(
    ("name", "text"),
    [("notes.md", DOCUMENT), (NAME, "# My own notes\n"), (NAME, f"{'x' * 200}{DOCUMENT}")],
    ids=["another name", "no mark", "a mark that is quoted"],
)
def test_a_file_of_the_project_is_seen_whatever_it_looks_like(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert Repository.open(tmp_path).files() == (name,)


def test_a_pipe_of_such_a_name_stops_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    assert Repository.open(tmp_path).files() == ()
