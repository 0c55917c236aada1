"""A new parameter reaches every definition of a function and the methods that override it."""

import subprocess
import sys
from pathlib import Path

import pytest

from khepri.edits.new_parameter import add_parameter
from khepri.edits.refusal import EditRefusedError
from khepri.edits.rename import Refactoring
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

OVERLOADED = """from typing import overload


@overload
def area(x: int) -> int: ...
@overload
def area(x: str) -> str: ...


def area(x):
    return x


class Shape:
    if True:
        def side(self, x):
            return x
    else:
        def side(self, x):
            return -x

    @property
    def width(self): ...

    @width.setter
    def width(self, value): ...
"""


def workspace(root: Path) -> Workspace:
    return Workspace(Repository.open(root))


def texts(done: Refactoring) -> dict[str, str]:
    return {change.path: change.after.decode() for change in done.changes.files if change.after is not None}


def test_every_overload_and_the_implementation_get_it(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(OVERLOADED, encoding="utf-8")
    done = add_parameter(workspace(tmp_path), "m.py", "area", "scale", "1", "int")
    wanted = OVERLOADED
    for parameter in ("x: int", "x: str", "x"):
        wanted = wanted.replace(f"def area({parameter})", f"def area({parameter}, scale: int = 1)")
    assert texts(done) == {"m.py": wanted}
    assert done.notes == ()
    code = texts(done)["m.py"] + "\n\nassert area(3, scale=2) == 3\n"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_definition_for_one_platform_or_another_gets_it(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(OVERLOADED, encoding="utf-8")
    done = texts(add_parameter(workspace(tmp_path), "m.py", "Shape.side", "y", "None"))
    assert done == {"m.py": OVERLOADED.replace("side(self, x)", "side(self, x, y=None)")}


BASE = """DEFAULT = 3


class Link:
    def send(self, data): ...


class Loud(Link):
    async def send(self, data, *args): ...


class Louder(Loud):
    def send(self, data, *, marks=4): ...
"""
FAR = """from base import Loud


class Far(Loud):
    def send(self, data): ...


class Mail:
    def send(self, data): ...
"""


@pytest.fixture
def family(tmp_path: Path) -> Path:
    (tmp_path / "base.py").write_text(BASE, encoding="utf-8")
    (tmp_path / "far.py").write_text(FAR, encoding="utf-8")
    return tmp_path


def test_the_methods_that_override_it_get_it_too_and_are_told(family: Path) -> None:
    done = add_parameter(workspace(family), "base.py", "Link.send", "marks", "0")
    assert texts(done) == {
        "base.py": BASE.replace("data): ...", "data, marks=0): ...", 1).replace("*args)", "*args, marks=0)"),
        "far.py": FAR.replace("data): ...", "data, marks=0): ...", 1),
    }
    (note,) = done.notes
    assert "base.py Loud.send, far.py Far.send" in note
    assert "overriding Link.send" in note


def test_what_a_method_overrides_stays_and_is_told(family: Path) -> None:
    done = add_parameter(workspace(family), "far.py", "Far.send", "marks", "0")
    assert texts(done) == {"far.py": FAR.replace("data): ...", "data, marks=0): ...", 1)}
    (note,) = done.notes
    assert "base.py Link.send, base.py Loud.send of the same family stay without marks" in note


def test_a_file_that_does_not_know_the_default_stays_and_is_told(family: Path) -> None:
    done = add_parameter(workspace(family), "base.py", "Link.send", "marks", "DEFAULT")
    assert set(texts(done)) == {"base.py"}
    assert any("far.py Far.send of the same family stays without marks" in note for note in done.notes)


def test_a_constructor_stands_alone(tmp_path: Path) -> None:
    code = "class A:\n    def __init__(self): ...\n\n\nclass B(A):\n    def __init__(self): ...\n"
    (tmp_path / "a.py").write_text(code, encoding="utf-8")
    done = add_parameter(workspace(tmp_path), "a.py", "A.__init__", "x", "1")
    assert texts(done) == {"a.py": code.replace("(self)", "(self, x=1)", 1)}
    assert done.notes == ()


@pytest.mark.parametrize(
    "text",
    [
        "b = 1\n\n\ndef f(a):\n    return a + b\n",
        "from m import b\n\n\ndef f(a):\n    def g():\n        return b\n",
        "from m import *\n\n\ndef f(a):\n    return b\n",
        "def f(a):\n    b = a\n    return b\n",
    ],
)
def test_a_parameter_takes_no_name_that_the_body_has_for_something_else(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    with pytest.raises(EditRefusedError, match="uses another b"):
        add_parameter(workspace(tmp_path), "a.py", "f", "b", "0")


def test_a_parameter_may_have_the_name_that_a_body_lacks(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(a):\n    return a + b\n", encoding="utf-8")
    assert "def f(a, b=0)" in texts(add_parameter(workspace(tmp_path), "a.py", "f", "b", "0"))["a.py"]
