"""A parameter of a method is changed in its whole family, and no call is left behind in silence."""

from pathlib import Path

import pytest

from khepri.edits.parameters import remove_parameter, rename_parameter
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename import Refactoring
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

FAMILY = """class Link:
    def send(self, data, flags=0): ...

    def all(self):
        self.send(b"x", flags=1)


class Loud(Link):
    def send(self, data, flags=0):
        return super().send(data, flags=flags)


class Short(Link):
    def send(self, data): ...
"""
USE = """from link import Loud


def main(thing):
    Loud().send(b"x", flags=2)
    thing.send(b"x", flags=3)
"""
ELSEWHERE = "class Mail:\n    def send(self, flags=0): ...\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "link.py").write_text(FAMILY, encoding="utf-8")
    (tmp_path / "use.py").write_text(USE, encoding="utf-8")
    return tmp_path


def workspace(root: Path) -> Workspace:
    return Workspace(Repository.open(root))


def texts(done: Refactoring) -> dict[str, str]:
    return {change.path: change.after.decode() for change in done.changes.files if change.after is not None}


@pytest.mark.parametrize("symbol", ["Link.send", "Loud.send"])
def test_a_parameter_is_renamed_in_those_that_override_the_method_and_in_calls_on_anything(
    root: Path, symbol: str
) -> None:
    done = rename_parameter(workspace(root), "link.py", symbol, "flags", "marks")
    assert texts(done) == {"link.py": FAMILY.replace("flags", "marks"), "use.py": USE.replace("flags", "marks")}
    assert any("use.py:6" in note and "unknown type" in note for note in done.notes)


def test_calls_that_may_be_of_something_else_are_left_and_told(root: Path) -> None:
    (root / "mail.py").write_text(ELSEWHERE, encoding="utf-8")
    done = rename_parameter(workspace(root), "link.py", "Link.send", "flags", "marks")
    assert 'thing.send(b"x", flags=3)' in texts(done)["use.py"]
    assert 'Loud().send(b"x", marks=2)' in texts(done)["use.py"]
    assert any("use.py:6" in note and "left" in note for note in done.notes)


def test_a_parameter_goes_only_if_nothing_of_the_family_uses_it(root: Path) -> None:
    family = FAMILY.replace("return super().send(data, flags=flags)", "return flags")
    (root / "link.py").write_text(family, encoding="utf-8")
    with pytest.raises(EditRefusedError, match=r"Loud.send uses flags at line 10") as caught:
        remove_parameter(workspace(root), "link.py", "Link.send", "flags")
    assert caught.value.reason is Refusal.NOT_POSSIBLE


def test_a_parameter_goes_from_the_family_and_from_what_is_called_behind_super(root: Path) -> None:
    (root / "use.py").write_text(USE.replace('    thing.send(b"x", flags=3)\n', ""), encoding="utf-8")
    done = texts(remove_parameter(workspace(root), "link.py", "Link.send", "flags"))
    assert "flags" not in done["link.py"]
    assert "super().send(data)\n" in done["link.py"]
    assert 'Loud().send(b"x")\n' in done["use.py"]


def test_a_parameter_that_an_unknown_object_is_passed_stays(root: Path) -> None:
    (root / "link.py").write_text(FAMILY.replace("data, flags=flags)", "data)"), encoding="utf-8")
    with pytest.raises(EditRefusedError, match=r"use.py:6 passes it") as caught:
        remove_parameter(workspace(root), "link.py", "Link.send", "flags")
    assert caught.value.hint
    (root / "mail.py").write_text(ELSEWHERE, encoding="utf-8")
    done = remove_parameter(workspace(root), "link.py", "Link.send", "flags")
    assert any("use.py:6" in note and "left" in note for note in done.notes)


BUILT = """class Base:
    def __init__(self, name): ...


class Leaf(Base):
    def __init__(self, name, size):
        super().__init__(name=name)


class Twig(Leaf):
    def __init__(self):
        super().__init__(name="x", size=1)


class Other:
    def __init__(self, name): ...


Base(name="a")
Leaf(name="a", size=1)
Other(name="a")
"""


def test_a_constructor_stands_for_no_other_but_is_called_behind_super(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BUILT, encoding="utf-8")
    done = texts(rename_parameter(workspace(tmp_path), "a.py", "Base.__init__", "name", "title"))
    wanted = BUILT.replace("self, name):", "self, title):", 1).replace("(name=name)", "(title=name)")
    assert done == {"a.py": wanted.replace("Base(name=", "Base(title=")}
