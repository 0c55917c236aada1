"""A parameter that goes takes along what was passed for it, and nothing else, however the function is called."""

import contextlib
import io
from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import remove_parameter
from khepri.edits.refusal import EditRefusedError
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

FAMILY = """class A:
    def go(self, a, b=5, c=3): return (a, c)
class B(A):
    def go(self, a, b=6, c=4): return super().go(a, 7, c)
class C(B):
    def go(self, a, b=6, c=4): return super().go(a, 7, c)
class D(C): pass
x = B()
print(A().go(1, 2, 3), A.go(x, 1, 2, 3), B().go(1, 2), B.go(x, 1, 2), C().go(1, 2, 3))
print(D.go(D(), 1, 2, 8), D().go(1, b=3, c=4))
"""
BUILT = """class A:
    def __init__(self, a, b, c): self.x = (a, c)
class B(A):
    def __init__(self): A.__init__(self, 1, 2, 3)
class C(A):
    def __init__(self): super().__init__(1, 2, 3)
print(A(1, 2, 3).x, B().x, C().x)
"""
PLAIN = """class A:
    @classmethod
    def made(cls, a, b, c): return (a, c)
    @staticmethod
    def free(a, b, c): return (a, c)
def f(a, b): return a
print(A.made(1, 2, 3), A().made(1, 2, 3), A.free(1, 2, 3), A().free(1, 2, 3), f(f(1, 2), f(3, 4)))
"""


def output(text: str) -> str:
    """Return what a Python text prints."""
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        exec(text, {"__name__": "m"})
    return written.getvalue()


@pytest.mark.parametrize(
    ("text", "symbol"),
    [(FAMILY, "A.go"), (FAMILY, "C.go"), (BUILT, "A.__init__"), (PLAIN, "A.made"), (PLAIN, "A.free"), (PLAIN, "f")],
)
def test_what_is_passed_by_place_goes_once_and_from_the_right_place(tmp_path: Path, text: str, symbol: str) -> None:
    (tmp_path / "m.py").write_text(text)
    (change,) = remove_parameter(Workspace(Repository.open(tmp_path)), "m.py", symbol, "b").changes.files
    assert output(change.new_text) == output(text) != ""
    assert change.new_text != text


def test_calls_on_unknown_objects_that_may_pass_it_by_place_are_told(tmp_path: Path) -> None:
    head = "class A:\n    def go(self, a, b, c):\n        return (a, c)\n\n\n"
    (tmp_path / "m.py").write_text(f"{head}def f(q):\n    return q.go(1, 2, 3), q.go(1), A().go(1, 2, 3)\n")
    done = remove_parameter(Workspace(Repository.open(tmp_path)), "m.py", "A.go", "b")
    assert done.notes == ("m.py:7 may pass b by its place, on objects of unknown type: not changed",)


def test_a_call_of_methods_that_have_it_in_different_places_is_refused(tmp_path: Path) -> None:
    head = "class A:\n    def go(self, a, b): ...\n\n\n"
    (tmp_path / "m.py").write_text(f"{head}class B(A):\n    def go(self, b, a):\n        return super().go(1, 2)\n")
    with pytest.raises(EditRefusedError, match=r"m.py:7 may be of methods that have b in different places"):
        remove_parameter(Workspace(Repository.open(tmp_path)), "m.py", "A.go", "b")
