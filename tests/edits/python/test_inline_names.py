"""A body is put only where its names and its arguments mean what they meant, and what it does stays in order."""

import ast
from pathlib import Path

import pytest

from khepri.edits.inlining.inline_order import displaced_call
from khepri.edits.inlining.inline_safety import function_of
from khepri.edits.inlining.inlining import inline
from khepri.edits.python.inline_names import clashing_call
from khepri.edits.refusal import EditRefusedError
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

RATED = "def f(a):\n    return a * rate\n"
LOCAL = "def f(a):\n    t = a * 2\n    return t\n"
SAID = "def f(a):\n    print('called')\n    return a\n"
SUM = "def f(a, b):\n    return b - a\n"


def every_call(text: str) -> set[tuple[int, int]]:
    """Return where the name ``f`` ends wherever it is called."""
    called = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    return {(each.end_lineno or 0, each.end_col_offset or 0) for each in called if ast.unparse(each) == "f"}


@pytest.mark.parametrize(
    ("definition", "text", "found"),
    [
        (RATED, "def g(rate):\n    return f(rate)\n", (2, "rate")),
        (RATED, "def g():\n    rate = 1\n    def h():\n        return f(2)\n", (4, "rate")),
        (RATED, "z = [f(1) for rate in x]\n", (1, "rate")),
        (RATED, "z = lambda rate: f(1)\n", (1, "rate")),
        (RATED, "class A:\n    rate = 1\n    z = f(1)\n", (3, "rate")),
        (RATED, "class A:\n    rate = 1\n    def g(self):\n        return f(1)\n", None),
        (RATED, "def g():\n    global rate\n    rate = 1\n    return f(1)\n", None),
        (RATED, "def g(x):\n    return f(x)\n", None),
        ("def f(a):\n    return len(a)\n", "def g(len):\n    return f(len)\n", (2, "len")),
        ("def f(a):\n    return a.rate\n", "def g(rate):\n    return f(rate)\n", None),
        (LOCAL, "def g():\n    t = 5\n    return f(t), t\n", (3, "t")),
        (LOCAL, "def g():\n    r = f(1)\n    return r, t\n", (2, "t")),
        (LOCAL, "def g():\n    t = 5\n    return f(1), t\n", None),
        ("def f(a):\n    return [a for i in a]\n", "z = f(i)\n", (1, "i")),
        ("def f(a):\n    return lambda i: a + i\n", "z = f(i)\n", (1, "i")),
    ],
)
def test_a_name_that_would_stand_for_something_else_is_found(
    definition: str, text: str, found: tuple[int, str] | None
) -> None:
    function = function_of(definition)
    assert function is not None
    assert clashing_call(function, text, every_call(text)) == found


@pytest.mark.parametrize(
    ("definition", "text", "line"),
    [
        (SUM, "z = f(e(1), e(2))\n", 1),
        (SUM, "z = f(e(1), 2)\n", None),
        ("def f(a, b):\n    return a - b\n", "z = f(e(1), e(2))\n", None),
        ("def f(a, b):\n    return a - b\n", "z = f(b=e(1), a=e(2))\n", 1),
        ("def f(a, b):\n    return b and a\n", "z = f(e(1), 2)\n", 1),
        ("def f(a, b):\n    if b:\n        print(a)\n", "f(e(1), 2)\n", 1),
        ("def f(a):\n    return g(a)\n", "z = f(e(1))\n", None),
        ("def f(a):\n    return g() + a\n", "z = f(e(1))\n", 1),
        ("def f(s, a):\n    s.x = 1\n    return a\n", "z = f(s, e(1))\n", 1),
        (SAID, "z = f(e(1))\n", 1),
        (SAID, "z = f(1)\n", None),
        (SAID, "print(f(1))\n", None),
        (SAID, "z = y and f(1)\n", 1),
        (SAID, "z = f(1) and y\n", None),
        (SAID, "z = 1 if y else f(1)\n", 1),
        (SAID, "z = e(1) + f(1)\n", 1),
        (SAID, "while f(1):\n    pass\n", 1),
        (SAID, "if y:\n    pass\nelif f(1):\n    pass\n", 3),
        (SAID, "if f(1):\n    pass\n", None),
        (SAID, "if y: f(1)\n", 1),
        (SAID, "y = 1; f(1)\n", 1),
        (SAID, "z = lambda: f(1)\n", 1),
        (SAID, "z = [f(1) for y in x]\n", 1),
        (SAID, "with y, f(1):\n    pass\n", 1),
    ],
)
def test_what_would_run_at_another_time_is_found(definition: str, text: str, line: int | None) -> None:
    function = function_of(definition)
    assert function is not None
    assert displaced_call(function, text, every_call(text)) == line


@pytest.mark.parametrize("own", ["rate = 7\n", "from c import rate\n"])
def test_what_another_module_calls_the_same_is_refused_unless_it_is_the_same(tmp_path: Path, own: str) -> None:
    (tmp_path / "c.py").write_text("rate = 4\n")
    (tmp_path / "m.py").write_text("rate = 3\n\n\ndef f(a):\n    return a * rate\n")
    (tmp_path / "t.py").write_text(f"from m import f\n{own}z = f(10)\n")
    with pytest.raises(EditRefusedError, match=r"rate would stand for something else with the body of f at t.py:3"):
        inline(Workspace(Repository.open(tmp_path)), "m.py", "f")
    (tmp_path / "m.py").write_text("from c import rate\n\n\ndef f(a):\n    return a * rate\n")
    (tmp_path / "t.py").write_text("from m import f\nfrom c import rate\nz = f(10)\n")
    done = inline(Workspace(Repository.open(tmp_path)), "m.py", "f")
    assert "z = 10 * rate" in done.changes.files[1].new_text


def test_what_the_function_around_both_binds_is_no_clash(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(
        "def o():\n    x = 3\n    def f(a):\n        return a + x\n    y = f(2)\n    return y\n"
    )
    done = inline(Workspace(Repository.open(tmp_path)), "m.py", "o.f")
    assert "y = 2 + x" in done.changes.files[0].new_text
