"""``super().name`` is renamed where it means what is renamed, and nowhere else."""

from pathlib import Path

import pytest

from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

FAMILY = """class Base:
    def send(self): ...


class Middle(Base):
    def twice(self):
        super().send()
        super(Middle, self).send()
        super( ) . send()


class Leaf(Middle):
    def send(self):
        call = super().send
        return call()


class Other:
    def send(self): ...


class OtherLeaf(Other):
    def send(self):
        return super().send()


class Mixin:
    def send(self):
        return super().send()
"""
AT_HOME = FAMILY.index("class Other:")


@pytest.mark.parametrize("symbol", ["Base.send", "Leaf.send"])
def test_the_method_of_a_base_class_is_renamed_behind_super(tmp_path: Path, symbol: str) -> None:
    (tmp_path / "a.py").write_text(FAMILY, encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "a.py", symbol, "post")
    assert done.changes.files[0].after == (FAMILY[:AT_HOME].replace("send", "post") + FAMILY[AT_HOME:]).encode()
    # Nobody can tell what a mixin stands before.
    assert any("a.py:29" in note for note in done.notes)


def test_a_base_class_elsewhere_is_looked_at_too(tmp_path: Path) -> None:
    (tmp_path / "base.py").write_text("class Base:\n    def send(self): ...\n", encoding="utf-8")
    (tmp_path / "other.py").write_text("def send(): ...\n", encoding="utf-8")
    leaf = "from base import Base\n\n\nclass Leaf(Base):\n    def twice(self):\n        super().send()\n"
    (tmp_path / "leaf.py").write_text(leaf, encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "base.py", "Base.send", "post")
    assert {change.path: change.after for change in done.changes.files}["leaf.py"] == leaf.replace(
        "send", "post"
    ).encode()
