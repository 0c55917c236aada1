"""A parameter that both constructors of a class take stays, since the same calls pass it to both."""

from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.refusal import EditRefusedError
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

NEW = "    def __new__(cls, {0}):\n        return super().__new__(cls)\n"
INIT = "    def __init__(self, {0}):\n        self.x = 1\n"


def workspace(root: Path, text: str) -> Workspace:
    (root / "m.py").write_text(f"{text}\n\nA(size=1)\n", encoding="utf-8")
    return Workspace(Repository.open(root))


@pytest.mark.parametrize("symbol", ["A.__new__", "A.__init__"])
def test_a_parameter_that_the_other_constructor_takes_too_is_refused(tmp_path: Path, symbol: str) -> None:
    files = workspace(tmp_path, "class A:\n" + NEW.format("size") + "\n" + INIT.format("size"))
    with pytest.raises(EditRefusedError, match="takes it too, and gets what the same calls pass"):
        rename_parameter(files, "m.py", symbol, "size", "extent")
    with pytest.raises(EditRefusedError, match="takes it too, and gets what the same calls pass"):
        remove_parameter(files, "m.py", symbol, "size")


def test_the_constructor_of_a_base_class_counts_as_well(tmp_path: Path) -> None:
    files = workspace(tmp_path, "class B:\n" + NEW.format("size") + "\n\nclass A(B):\n" + INIT.format("size"))
    with pytest.raises(EditRefusedError, match=r"B.__new__ at m.py:2 takes it too"):
        rename_parameter(files, "m.py", "A.__init__", "size", "extent")


def test_a_constructor_that_takes_anything_is_no_obstacle(tmp_path: Path) -> None:
    files = workspace(tmp_path, "class A:\n" + NEW.format("*a, **kw") + "\n" + INIT.format("size"))
    done = rename_parameter(files, "m.py", "A.__init__", "size", "extent")
    assert "A(extent=1)" in done.changes.files[0].new_text
