"""What Khepri exported into a repository is no part of it, and what only looks like it is."""

import json
import os
from pathlib import Path

import pytest

from khepri.errors import ToolError
from khepri.repo.exports import EXPORT_MARK
from khepri.repo.root import Repository

NAME = "khepri-20260102-030405-abcd.md"
DOCUMENT = f"<!-- {EXPORT_MARK} -->\n\n# Where is retry?\n"
OBJECT = json.dumps({"format": EXPORT_MARK, "session": "20260102-030405-abcd"}, indent=2)


@pytest.mark.parametrize("text", [DOCUMENT, OBJECT, json.dumps(json.loads(OBJECT))], ids=["text", "json", "one line"])
@pytest.mark.parametrize("name", [NAME, "docs/told-to-Max.json", "MY NOTES.TXT", "talk"])
def test_an_export_is_neither_listed_nor_read_whatever_it_is_called(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    repository = Repository.open(tmp_path)
    assert repository.files() == ()
    with pytest.raises(ToolError, match="does not exist"):
        repository.resolve(name)
    path.write_text(text, encoding="utf-8")
    repository.refresh()
    assert repository.files() == ()
    with pytest.raises(ToolError, match="Khepri exported"):
        repository.resolve(name)


@pytest.mark.parametrize(
    ("name", "text"),
    [(NAME, "# My own notes\n"), (NAME, f"They begin like this:\n{DOCUMENT}"), ("talk.py", DOCUMENT)],
    ids=["no mark", "a mark that is quoted", "no document"],
)
def test_a_file_of_the_project_is_seen_whatever_it_looks_like(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert Repository.open(tmp_path).files() == (name,)


def test_a_pipe_of_such_a_name_stops_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    assert Repository.open(tmp_path).files() == ()
