"""A new parameter reaches every definition of a function and the methods that override it."""

import subprocess
import sys
from pathlib import Path

import pytest

from khepri.edits.parameters.new_parameter import add_parameter
from khepri.edits.refusal import EditRefusedError
from khepri.edits.rename.rename import Refactoring
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


@pytest.mark.parametrize(
    ("text", "symbol", "why"),
    [
        ("def f(): ...\n\n\nK = 1\n", "f", "K is made at line 4 only"),
        ("def f(): ...\n\n\ndef K(): ...\n", "f", "K is made at line 4 only"),
        ("class K:\n    def f(self): ...\n", "K.f", "K is made at line 2 only"),
        ("K = 1\n\n\nclass A:\n    def f(self): ...\n\n    K = 2\n", "A.f", "K is made at line 7 only"),
        (
            "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from x import K\n\n\ndef f(): ...\n",
            "f",
            "K is not",
        ),
        ("def g():\n    global K\n    K = 1\n\n\ndef f(): ...\n", "f", "K is made by a function only"),
        ("@K.x\ndef f(): ...\n\n\nK = 1\n", "f", "K is made at line 5 only"),
    ],
)
def test_a_default_that_is_not_there_yet_is_refused(tmp_path: Path, text: str, symbol: str, why: str) -> None:
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    with pytest.raises(EditRefusedError, match=why):
        add_parameter(workspace(tmp_path), "a.py", symbol, "p", "K")
    with pytest.raises(EditRefusedError, match=why):
        add_parameter(workspace(tmp_path), "a.py", symbol, "p", "None", "list[K]")


@pytest.mark.parametrize(
    ("text", "symbol", "default", "annotation"),
    [
        ("K = 1\n\n\ndef f(): ...\n", "f", "K", "K"),
        ("try:\n    import K\nexcept ImportError:\n    K = None\n\n\ndef f(): ...\n", "f", "K", ""),
        ("class A:\n    K = 2\n\n    def f(self): ...\n", "A.f", "K", ""),
        ("class A:\n    def f(self): ...\n\n    def list(self): ...\n", "A.f", "None", "list[int]"),
        ("from x import *\n\n\ndef f():\n    return K\n", "f", "K", ""),
        ("def f(): ...\n\n\nK = 1\n", "f", "lambda: K", "'K'"),
        ("from __future__ import annotations\n\n\ndef f(): ...\n\n\nclass K: ...\n", "f", "None", "K"),
    ],
)
def test_a_default_that_is_there_is_added(
    tmp_path: Path, text: str, symbol: str, default: str, annotation: str
) -> None:
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    written = f"p: {annotation} = {default}" if annotation else f"p={default}"
    assert written in texts(add_parameter(workspace(tmp_path), "a.py", symbol, "p", default, annotation))["a.py"]


def test_a_method_that_overrides_stays_where_the_default_is_made_further_down(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("K = 1\n\n\nclass A:\n    def f(self): ...\n", encoding="utf-8")
    far = "import a\n\n\nclass B(a.A):\n    def f(self): ...\n\n\nfrom a import K\n"
    (tmp_path / "b.py").write_text(far, encoding="utf-8")
    done = add_parameter(workspace(tmp_path), "a.py", "A.f", "p", "K")
    assert set(texts(done)) == {"a.py"}
    assert any("b.py B.f of the same family stays without p" in note for note in done.notes)
