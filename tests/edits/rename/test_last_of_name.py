"""A use on an object of unknown type is renamed if nothing else defines the name, by a text or otherwise."""

from pathlib import Path

import pytest

from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

USE = "class Box:\n    def size_of(self): ...\n\n\ndef use(thing):\n    return thing.size_of\n"


@pytest.mark.parametrize(
    "other",
    [
        "class Other:\n    __slots__ = ('a', 'size_of')\n",
        "class Other:\n    __slots__: tuple[str, ...] = ('size_of',)\n",
        "class Other:\n    __slots__ = {'size_of': 'its size'}\n",
        "Other = collections.namedtuple('Other', 'a, size_of')\n",
        "Other = NamedTuple('Other', [('size_of', int)])\n",
        "parser.add_argument('-s', '--size-of', type=int)\n",
        "parser.set_defaults(size_of=1)\n",
        "def fill(other):\n    setattr(other, 'size_of', 1)\n",
    ],
)
def test_a_use_is_left_where_a_text_defines_the_name_for_others(tmp_path: Path, other: str) -> None:
    text = f"{USE}\n\n{other}"
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "a.py", "Box.size_of", "width")
    assert done.changes.files[0].new_text == text.replace("def size_of", "def width")
    assert "1 use of .size_of may mean something else and was left: a.py:6" in done.notes


@pytest.mark.parametrize("other", ["SIZES = ('size_of',)\n", "class Other:\n    __slots__ = ('size_of_all',)\n", ""])
def test_a_use_is_renamed_where_nothing_else_defines_the_name(tmp_path: Path, other: str) -> None:
    text = f"{USE}\n\n{other}"
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "a.py", "Box.size_of", "width")
    assert "return thing.width" in done.changes.files[0].new_text
