"""What the body of a class reads before it binds the same name is a name from around it."""

from pathlib import Path

import pytest

from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

CODE = """size = 3


class B:
    x = size

    def size(self):
        return size
"""


def renamed(root: Path, code: str, symbol: str) -> str:
    (root / "m.py").write_text(code, encoding="utf-8")
    changes = rename(Workspace(Repository.open(root)), "m.py", symbol, "extent").changes
    return changes.files[0].new_text


def test_a_member_is_renamed_without_what_its_class_reads_before_it_has_it(tmp_path: Path) -> None:
    assert renamed(tmp_path, CODE, "B.size") == CODE.replace("def size", "def extent")


def test_what_a_class_reads_once_it_has_the_member_is_the_member(tmp_path: Path) -> None:
    after = "\n    alias = size\n"
    expected = CODE.replace("def size", "def extent") + after.replace("size", "extent")
    assert renamed(tmp_path, CODE + after, "B.size") == expected


@pytest.mark.parametrize("more", ["", "\n\nclass C:\n    def size(self): ...\n"], ids=["one member", "several members"])
def test_a_variable_that_is_named_exactly_so_comes_before_members_of_that_name(tmp_path: Path, more: str) -> None:
    expected = "extent = 3\n\n\nclass B:\n    x = extent\n\n    def size(self):\n        return extent\n"
    assert renamed(tmp_path, CODE + more, "size") == expected + more


LINES = [
    ("@{own}.register\n    def f(self): ...", "a decorator"),
    ("f = [{around} for _ in {own}]", "a comprehension"),
    ("f = [size for size in {own}]", "a comprehension with a name of its own"),
    ("if {own}:\n        f = {own}", "a block"),
    ("def f(self, size={own}): return size", "a default"),
    ("f: {own} = {own}", "an annotation"),
]


@pytest.mark.parametrize("line", [line for line, _ in LINES], ids=[what for _, what in LINES])
def test_a_class_reads_what_is_its_own_and_what_is_around_it_as_before(tmp_path: Path, line: str) -> None:
    text = "{around} = object()\n\n\nclass B:\n    {own} = 1\n    " + line + "\n"
    before = text.format(own="size", around="size")
    assert renamed(tmp_path, before, "size") == text.format(own="size", around="extent")
    assert renamed(tmp_path, before, "B.size") == text.format(own="extent", around="size")
