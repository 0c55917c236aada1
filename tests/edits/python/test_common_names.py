"""A use on an object of unknown type is left where the file deals with a class of the library that has the name."""

from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import rename_parameter
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

HOME = """class Formatter:
    def write_text(self, text):
        self.width = 1


class Node:
    def __init__(self):
        self.parent = self.children = ()
"""


def workspace_of(root: Path, use: str) -> Workspace:
    (root / "home.py").write_text(HOME, encoding="utf-8")
    (root / "use.py").write_text(use, encoding="utf-8")
    return Workspace(Repository.open(root))


@pytest.mark.parametrize(
    "use",
    [
        "def test(tmp_path):\n    file = tmp_path / 'a'\n    file.write_text('x')\n",
        "from pathlib import Path\n\n\ndef save(files):\n    for each in files:\n        each.write_text('x')\n",
        "import os, pathlib\n\n\ndef save(file):\n    file.write_text('x')\n    file.chmod(0o600)\n",
    ],
)
def test_a_use_that_may_be_of_the_library_is_left_and_told(tmp_path: Path, use: str) -> None:
    done = rename(workspace_of(tmp_path, use), "home.py", "Formatter.write_text", "put_text")
    assert [each.path for each in done.changes.files] == ["home.py"]
    assert any(
        note.startswith("1 use of .write_text may mean something else and was left: use.py:") for note in done.notes
    )


@pytest.mark.parametrize(
    "use",
    [
        "def show(out):\n    out.write_text('x')\n",
        "from pathlib import Path\n\n\ndef show(out):\n    out.write_text('x')\n    return out.width\n",
        "class Path: ...\n\n\ndef show(out):\n    out.write_text('x')\n",
    ],
)
def test_a_use_that_can_hardly_be_of_the_library_is_renamed(tmp_path: Path, use: str) -> None:
    done = rename(workspace_of(tmp_path, use), "home.py", "Formatter.write_text", "put_text")
    assert {each.path: each.new_text for each in done.changes.files}["use.py"] == use.replace("write_text", "put_text")
    assert any("so its uses on objects of unknown type are renamed too: use.py:" in note for note in done.notes)


def test_a_field_is_told_from_that_of_a_path_by_what_else_its_object_is_asked_for(tmp_path: Path) -> None:
    use = "import pathlib\n\n\ndef depth(a, b):\n    return a.parent, b.parent.parent, b.children\n"
    done = rename(workspace_of(tmp_path, use), "home.py", "Node.parent", "owner")
    after = use.replace("b.parent", "b.owner")
    assert {each.path: each.new_text for each in done.changes.files}["use.py"] == after


def test_a_keyword_that_a_method_of_the_library_takes_is_left_and_told(tmp_path: Path) -> None:
    workspace = workspace_of(tmp_path, "def test(tmp_path, file):\n    file.write_text(data='x')\n")
    (tmp_path / "home.py").write_text("class Sink:\n    def write_text(self, data): ...\n", encoding="utf-8")
    done = rename_parameter(workspace, "home.py", "Sink.write_text", "data", "content")
    assert [each.path for each in done.changes.files] == ["home.py"]
    assert any("use.py:2 passes data to it or to something else" in note for note in done.notes)
