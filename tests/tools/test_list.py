import os
from collections.abc import Callable
from pathlib import Path

import pytest

from khepri.tools.base import Observation

Call = Callable[..., Observation]
Git = Callable[..., str]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "README.md",
        "src/app.py",
        "src/core/a.py",
        "src/core/b.py",
        "src/core/deep/c.py",
        "src/core/deep/d/e.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("one\ntwo\n")
    return tmp_path


def test_the_root_is_shown_as_deep_as_fits(tree: Path, call: Call) -> None:
    assert call("list", {}).text.split("\n") == [
        "README.md  2 lines",
        "src/app.py  2 lines",
        "src/core/a.py  2 lines",
        "src/core/b.py  2 lines",
        "src/core/deep/  2 files (.py)",
    ]
    assert call("list", {}, budget=20).text.split("\n") == ["README.md  2 lines", "src/  5 files (.py)"]


def test_depth_and_folder_are_obeyed(tree: Path, call: Call) -> None:
    assert call("list", {"path": "src/", "depth": 1}).text.split("\n") == [
        "src/app.py  2 lines",
        "src/core/  4 files (.py)",
    ]
    assert call("list", {"path": "src/core", "depth": 9}).text.count("\n") == 3


def test_a_glob_lists_flat(tree: Path, call: Call) -> None:
    observation = call("list", {"glob": "*.py", "path": "src/core/deep"})
    assert observation.text.split("\n") == ["src/core/deep/c.py  2 lines", "src/core/deep/d/e.py  2 lines"]
    assert observation.summary == "2 files"


def test_a_file_shows_its_size(tree: Path, call: Call) -> None:
    (tree / "big.log").write_bytes(b"x\n" * 25_000_000)
    (tree / "blob").write_bytes(b"\0\1\2")
    (tree / "empty").write_bytes(b"")
    (tree / "one").write_bytes(b"no end")
    assert call("list", {"path": "big.log"}).text == "big.log  50.0 MB"
    assert call("list", {"path": "blob"}).text == "blob  binary file, 3 bytes"
    assert call("list", {"path": "empty"}).text == "empty  0 lines"
    assert call("list", {"path": "one"}).text == "one  1 line"


def test_a_cut_says_how_many_are_missing(tmp_path: Path, call: Call) -> None:
    for number in range(1000):
        (tmp_path / f"file{number:04}.py").touch()
    observation = call("list", {}, budget=100)
    kept = observation.text.count("lines")
    assert observation.text.split("\n")[-1] == f"[cut: {1000 - kept} more; list one of the folders, or name a glob]"
    assert observation.summary == "1,000 files"


def test_nothing_is_said_as_such(tree: Path, call: Call) -> None:
    assert call("list", {"glob": "*.rs"}).text == "no file matches *.rs; use list without a glob"
    assert call("list", {}, where=_empty(tree)).text == "no visible file"


def test_names_that_cannot_be_shown_are_counted(tree: Path, call: Call) -> None:
    (tree / "a\nb").touch()
    os.close(os.open(os.fsencode(tree) + b"/\xff", os.O_CREAT))
    assert call("list", {}).text.endswith("[left out: 2 files whose names are not printable text]")


def test_a_new_file_is_seen_at_once(tree: Path, call: Call) -> None:
    (tree / "late.py").touch()
    assert "late.py" in call("list", {}).text


def test_a_bare_repository_says_that_it_has_no_files(tmp_path: Path, git: Git, call: Call) -> None:
    git(tmp_path, "init", "--bare", "store.git")
    observation = call("list", {}, where=tmp_path / "store.git")
    assert observation.is_error
    assert "bare repository" in observation.text


def _empty(folder: Path) -> Path:
    (folder / "empty-folder").mkdir()
    return folder / "empty-folder"
