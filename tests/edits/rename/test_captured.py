"""A parameter takes nothing for itself that was among ``**kwargs``, and stays where the head of a class passes it."""

from pathlib import Path

import pytest

from khepri.edits.parameters.new_parameter import add_parameter
from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.refusal import EditRefusedError
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

TEXT = """class C:
    def __init__(self, n=0, **kw): ...

    def go(self, n=0, **rest): ...

    def plain(self, n=0): ...


class D(C): ...


def f(n=0, *, k=1, **kw): ...


def use(d, x):
    f(z=1)
    D(z=1)
    C().go(z=1)
    x.plain(z=1)
"""


def workspace_of(root: Path, text: str) -> Workspace:
    (root / "a.py").write_text(text, encoding="utf-8")
    return Workspace(Repository.open(root))


@pytest.mark.parametrize(("symbol", "line"), [("f", 16), ("C.__init__", 17), ("C.go", 18)])
def test_a_name_that_a_call_passes_among_others_is_no_parameter(tmp_path: Path, symbol: str, line: int) -> None:
    workspace = workspace_of(tmp_path, TEXT)
    with pytest.raises(EditRefusedError, match=f"a.py:{line} passes z already"):
        add_parameter(workspace, "a.py", symbol, "z", "0")
    with pytest.raises(EditRefusedError, match=f"a.py:{line} passes z already"):
        rename_parameter(workspace, "a.py", symbol, "n", "z")
    assert add_parameter(workspace, "a.py", symbol, "y", "0").notes == ()


def test_a_function_without_them_takes_any_name(tmp_path: Path) -> None:
    assert add_parameter(workspace_of(tmp_path, TEXT), "a.py", "C.plain", "z", "0").notes == ()


def test_a_call_of_what_nobody_knows_and_one_that_passes_all_on_are_told(tmp_path: Path) -> None:
    text = "class C:\n    def go(self, **kw): ...\n\n\ndef use(x, d):\n    x.go(z=1)\n    C().go(**d)\n"
    notes = add_parameter(workspace_of(tmp_path, text), "a.py", "C.go", "z", "0").notes
    assert notes[0].startswith("a.py:6 may pass z as one of ** already")
    assert notes[1].startswith("a.py:7 passes ** on to a.py C.go")


HEADS = """class Base:
    def __init_subclass__(cls, tag='', unused=0, free=0): ...


class A(Base, tag='a', unused=1): ...


class B(A, tag='b'): ...


class Meta(type):
    def __new__(mcs, name, bases, ns, label=''):
        return super().__new__(mcs, name, bases, ns)

    def __init__(cls, name, bases, ns, label=''): ...


class M(metaclass=Meta): ...


class N(M, label='n'): ...
"""


@pytest.mark.parametrize(
    ("symbol", "name", "line"),
    [("Base.__init_subclass__", "tag", 5), ("Meta.__new__", "label", 21), ("Meta.__init__", "label", 21)],
)
def test_what_the_head_of_a_class_passes_keeps_its_name(tmp_path: Path, symbol: str, name: str, line: int) -> None:
    with pytest.raises(EditRefusedError, match=f"at a.py:{line} passes it"):
        rename_parameter(workspace_of(tmp_path, HEADS), "a.py", symbol, name, "other")


def test_what_the_head_of_a_class_passes_stays_a_parameter(tmp_path: Path) -> None:
    workspace = workspace_of(tmp_path, HEADS)
    with pytest.raises(EditRefusedError, match=r"class A at a.py:5 passes it"):
        remove_parameter(workspace, "a.py", "Base.__init_subclass__", "unused")
    after = remove_parameter(workspace, "a.py", "Base.__init_subclass__", "free").changes.files[0].new_text
    assert after == HEADS.replace(", free=0", "")
