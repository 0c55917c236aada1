"""A package does not come to have something else by the name of a module that is reached through it."""

from pathlib import Path

import pytest

from khepri.edits.moving.refactor import move
from khepri.edits.refusal import EditRefusedError
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


def workspace(root: Path, use: str) -> Workspace:
    (root / "pkg").mkdir()
    (root / "pkg/__init__.py").write_text("from .run import start\n", encoding="utf-8")
    (root / "pkg/run.py").write_text("def start():\n    return 1\n", encoding="utf-8")
    (root / "other.py").write_text("def run():\n    return 2\n", encoding="utf-8")
    (root / "use.py").write_text(use, encoding="utf-8")
    return Workspace(Repository.open(root))


@pytest.mark.parametrize("use", ["import pkg.run\n\npkg.run.start()\n", "from pkg import run\n\nrun.start()\n"])
def test_a_name_that_would_hide_a_module_is_refused(tmp_path: Path, use: str) -> None:
    files = workspace(tmp_path, use)
    with pytest.raises(EditRefusedError, match=r"pkg/__init__.py would have another run, and use.py:1 means"):
        rename(files, "pkg/run.py", "start", "run")
    with pytest.raises(EditRefusedError, match=r"pkg/__init__.py would have another run, and use.py:1 means"):
        move(files, "other.py", "run", "pkg/__init__.py")


@pytest.mark.parametrize("use", ["", "from pkg.run import start\n\nstart()\n", "import pkg\n\npkg.start()\n"])
def test_a_module_that_nobody_reaches_through_its_package_hides_from_nobody(tmp_path: Path, use: str) -> None:
    done = rename(workspace(tmp_path, use), "pkg/run.py", "start", "run")
    assert {each.path: each.new_text for each in done.changes.files}["pkg/__init__.py"] == "from .run import run\n"


def test_a_module_does_not_take_the_name_of_something_that_its_package_has(tmp_path: Path) -> None:
    files = workspace(tmp_path, "import pkg.run\n")
    assert rename(files, "pkg/run.py", "", "walk").changes.files
    (tmp_path / "pkg/__init__.py").write_text("from pathlib import Path\n", encoding="utf-8")
    changed = Workspace(Repository.open(tmp_path))
    with pytest.raises(EditRefusedError, match=r"pkg/__init__.py has another Path, which would be gone"):
        rename(changed, "pkg/run.py", "", "Path")
