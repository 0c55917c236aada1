"""Where a new file may be."""

from pathlib import Path

import pytest

from khepri.edits.creation import new_target
from khepri.edits.locate import read_source
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository
from tests.conftest import Git


@pytest.mark.parametrize("is_git", [True, False])
@pytest.mark.parametrize(
    ("path", "is_refused"),
    [
        ("out/n.py", True),
        ("out/deep/n.py", True),
        ("src/out/n.py", True),
        ("n.log", True),
        ("src/n.tmp", True),
        ("src/kept.log", False),
        ("n.tmp", False),
        ("src/n.py", False),
        ("outer/n.py", False),
        (":(glob)n.py", False),
    ],
)
def test_a_new_file_that_git_ignores_is_refused(
    tmp_path: Path, git: Git, is_git: bool, path: str, is_refused: bool
) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / ".gitignore").write_text("out/\n*.log\n", encoding="utf-8")
    (tmp_path / "src" / ".gitignore").write_text("!kept.log\n*.tmp\n", encoding="utf-8")
    if is_git:
        git(tmp_path, "init", "-q")
    workspace = Workspace(Repository.open(tmp_path))
    if not is_refused:
        assert new_target(workspace, path).source.path == path
        return
    with pytest.raises(EditRefusedError, match="ignored") as caught:
        new_target(workspace, path)
    assert caught.value.reason is Refusal.HIDDEN


@pytest.mark.parametrize("path", [".git/hooks/pre-commit", ".GIT/hooks/pre-commit", "sub/.Git/config"])
def test_nothing_is_made_in_a_folder_of_git(tmp_path: Path, path: str) -> None:
    with pytest.raises(EditRefusedError, match="never written") as caught:
        new_target(Workspace(Repository.open(tmp_path)), path)
    assert caught.value.reason is Refusal.HIDDEN


@pytest.mark.parametrize("path", [".khepri/permissions.toml", ".khepri/config.toml", ".khepriignore"])
def test_the_rules_for_khepri_are_not_written_by_it(tmp_path: Path, path: str) -> None:
    workspace = Workspace(Repository.open(tmp_path))
    with pytest.raises(EditRefusedError, match="never written"):
        new_target(workspace, path)
    (tmp_path / ".khepri").mkdir()
    (tmp_path / path).write_text("", encoding="utf-8")
    workspace.repository.refresh()
    with pytest.raises(EditRefusedError, match="never written"):
        read_source(workspace, path)
