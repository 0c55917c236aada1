"""A call of what may be one of several functions is told, whichever of them has a parameter renamed."""

from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import rename_parameter
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

TWO = """def f(size=0):
    return size


def g(size=0):
    return size


"""


def renamed(root: Path, text: str, symbol: str) -> tuple[str, ...]:
    (root / "m.py").write_text(text, encoding="utf-8")
    return rename_parameter(Workspace(Repository.open(root)), "m.py", symbol, "size", "width").notes


@pytest.mark.parametrize(
    ("use", "symbol"),
    [
        ("for one in (f, g):\n    one(size=1)\n", "f"),
        ("one = f\nif one:\n    one = g\nprint(one, one(size=1))\n", "g"),
        ("BOTH = {'f': f, 'g': g}\nBOTH['g'](size=1)\n", "f"),
    ],
)
def test_a_call_of_what_a_variable_may_hold_is_told(tmp_path: Path, use: str, symbol: str) -> None:
    line = (TWO + use).split("(size=1)")[0].count("\n") + 1
    note = f"m.py:{line} passes width to what may be m.py {symbol} or something else: see that it takes it"
    assert note in renamed(tmp_path, TWO + use, symbol)


def test_another_name_for_a_function_is_changed_without_a_word(tmp_path: Path) -> None:
    assert renamed(tmp_path, f"{TWO}one = f\none(size=1)\n\n\ndef use(one):\n    one = 1\n", "f") == ()


def test_a_class_in_a_table_is_told(tmp_path: Path) -> None:
    text = "class A:\n    def __init__(self, size=0): ...\n\n\nALL = {'a': A}\n\n\n"
    text += "def make(kind):\n    ALL[kind](size=1)\n"
    assert renamed(tmp_path, text, "A.__init__") == (
        "m.py:9 passes size to what may be A or a class below it, and was left",
    )
