"""A property keeps its setter and deleter when it is renamed."""

from pathlib import Path

from khepri.edits.rename.accessors import rename_accessors
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

CODE = '''class Box:
    @property
    def size(self):
        """é"""
        return self._size

    @size.setter
    def size(self, value):
        self._size = value

    @size.deleter
    def size(self):
        del self._size


class Other:
    @property
    def size(self):
        return 1

    @size.setter
    def size(self, value): ...


box = Box()
box.size = 3
'''


def test_a_property_is_renamed_with_its_accessors_and_no_other(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE, encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "a.py", "Box.size", "width")
    assert done.notes == ()
    own, other = CODE.split("\n\n\nclass Other")
    other, use = other.split("\n\n\nbox")
    wanted = own.replace("def size", "def width").replace("@size", "@width")
    assert (
        done.changes.files[0].new_text
        == f"{wanted}\n\n\nclass Other{other}\n\n\nbox{use.replace('box.size', 'box.width')}"
    )


def test_an_accessor_is_no_use_on_an_unknown_object(tmp_path: Path) -> None:
    code = CODE.split("\n\n\nclass Other")[0] + "\n\n\ndef use(thing):\n    return thing.size\n"
    (tmp_path / "a.py").write_text(code, encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "a.py", "Box.size", "width")
    assert done.changes.files[0].new_text == code.replace("size", "width").replace("_width", "_size")
    assert done.notes == (
        "nothing else here defines size, so its uses on objects of unknown type are renamed too: a.py:17",
    )


def test_only_what_was_renamed_has_its_accessor_renamed() -> None:
    text = "class A:\n    @a.setter\n    def a(self): ...\n\n    @a.cached\n    def b(self): ...\n"
    assert rename_accessors(text, "a", "b") == text
    assert rename_accessors("class A:\n    @a.setter\n    def b(", "a", "b").endswith("def b(")
