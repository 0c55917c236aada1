"""A function inside another one is none of a class: it has no object, and no attribute is it."""

from pathlib import Path

import pytest

from khepri.edits.inlining.inlining import inline
from khepri.edits.moving.refactor import extract
from khepri.edits.parameters.new_parameter import add_parameter
from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.refusal import EditRefusedError
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

TEXT = """def outer(n, thing):
    def inner(u, x):
        return x

    return inner(1, x=2) + inner(3, 4) + thing.inner


class C:
    def m(self):
        def inner(u, x):
            return x

        return inner(1, x=2) + self.inner(u=1, x=2)

    def inner(self, u, x): ...
"""


def workspace_of(root: Path, text: str = TEXT) -> Workspace:
    (root / "a.py").write_text(text, encoding="utf-8")
    return Workspace(Repository.open(root))


@pytest.mark.parametrize(("symbol", "first"), [("outer.inner", 2), ("C.m.inner", 10)])
def test_its_parameters_are_counted_from_the_first(tmp_path: Path, symbol: str, first: int) -> None:
    rows = remove_parameter(workspace_of(tmp_path), "a.py", symbol, "u").changes.files[0].new_text.split("\n")
    assert rows[first - 1].strip() == "def inner(x):"
    assert "return inner(x=2) + " in rows[first + 2]
    assert ("inner(4)" in rows[first + 2]) == (symbol == "outer.inner")
    assert "self.inner(u=1, x=2)" in rows[12]
    added = add_parameter(workspace_of(tmp_path), "a.py", symbol, "k", "0").changes.files[0].new_text
    assert added.split("\n")[first - 1].strip() == "def inner(u, x, k=0):"
    renamed = rename_parameter(workspace_of(tmp_path), "a.py", symbol, "x", "y").changes.files[0].new_text.split("\n")
    assert "return inner(1, y=2) + " in renamed[first + 2]
    assert "self.inner(u=1, x=2)" in renamed[12]


def test_its_name_is_that_of_no_attribute(tmp_path: Path) -> None:
    text = TEXT.replace("    def inner(self, u, x): ...\n", "")
    done = rename(workspace_of(tmp_path, text), "a.py", "outer.inner", "deep")
    assert done.changes.files[0].new_text.split("\n")[4] == "    return deep(1, x=2) + deep(3, 4) + thing.inner"
    assert not done.notes
    one = "def outer(thing):\n    def inner():\n        return 1\n\n    return inner(), thing.inner()\n"
    assert (
        "return 1, thing.inner()"
        in inline(workspace_of(tmp_path, one), "a.py", "outer.inner").changes.files[0].new_text
    )


def test_lines_of_a_module_that_change_what_was_there_before_stay(tmp_path: Path) -> None:
    text = "total = 0\nn = 1\nfor i in range(3):\n    total += i\nprint(total)\n"
    with pytest.raises(EditRefusedError, match="total"):
        extract(workspace_of(tmp_path, text), "a.py", 3, 4, "summed")
    with pytest.raises(EditRefusedError, match="n has its value from before the lines"):
        extract(workspace_of(tmp_path, "n = 1\nfor i in range(3):\n    n += i\n"), "a.py", 2, 3, "counted")
