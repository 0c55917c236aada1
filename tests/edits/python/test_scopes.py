"""Names of Python files: what binds them, and whether a rename leaves what they stand for."""

from collections.abc import Sequence

import pytest

from khepri.edits.python.scopes import Clash, Names, clash, line_of, names_of


def read(text: str) -> Names:
    names = names_of(text)
    assert names is not None
    return names


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("print(len, __file__, __name__)\n", []),
        ("print(gone)\n", ["gone"]),
        ("def f():\n    return later\n\n\nlater = 1\n", []),
        ("def f():\n    global n\n    n += 1\n", ["n"]),
        ("n = 0\n\n\ndef f():\n    global n\n    n += 1\n", []),
        ("def f(S=S):\n    return S\n", ["S"]),
        ("class A:\n    x = 1\n\n    def f(self):\n        return x\n", ["x"]),
        ("from __future__ import annotations\n\n\ndef f(a: Gone) -> int: ...\n", ["Gone"]),
        ("from os import *\nprint(gone)\n", []),
        ("import os.path as p, sys\nprint((p for each in sys.argv), each)\n", ["each"]),
        ("try:\n    import a\nexcept ImportError:\n    a = None\nprint(a)\n", []),
        ('x = "\\d"\n', []),
    ],
)
def test_a_name_is_unresolved_that_nothing_at_the_top_level_binds(text: str, missing: Sequence[str]) -> None:
    assert sorted(read(text).unresolved) == missing


def test_what_stands_in_annotations_that_are_read_later_is_not_needed() -> None:
    text = "def f(a: Gone) -> None:\n    return lost\n"
    assert read(text).needed == {"Gone": 0, "lost": 1}
    assert read(f"from __future__ import annotations\n{text}").needed == {"lost": 2}


@pytest.mark.parametrize(
    ("text", "doubled"),
    [
        ("def f(): ...\ndef f(): ...\n", {("f",): 2}),
        ("import f\nclass f: ...\n", {("f",): 2}),
        ("f = 1\nf = 2\n", {}),
        ("import a.b\nimport a.c\nimport a.b\n", {}),
        ("class A:\n    def x(self): ...\n    x = property(x)\n", {("A", "x"): 2}),
        ("def f():\n    def g(): ...\n    def g(): ...\n", {}),
        ("def f(): ...\nx = [f for f in []]\n", {}),
    ],
)
def test_what_is_defined_and_bound_again_is_counted(text: str, doubled: dict[tuple[str, ...], int]) -> None:
    assert read(text).doubled == doubled


@pytest.mark.parametrize("text", ["def f(:\n", "x = '\0'\n", "(" * 10_000])
def test_what_is_no_python_has_no_names(text: str) -> None:
    assert names_of(text) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(): ...\nf()\n", "def g(): ...\ng()\n"),
        ("def f(): ...\ndef h(f): return f\n", "def g(): ...\ndef h(f): return f\n"),
        ("def f(): ...\ndef h(g): return g\n", "def g(): ...\ndef h(g): return g\n"),
        ("class f:\n    def __x(self): return self.__x, __y\n", "class g:\n    def __x(self): return self.__x, __y\n"),
        ("class A:\n    f = 1\n\nf = A.f\n", "class A:\n    g = 1\n\nf = A.g\n"),
        ("class f: ...\nclass A:\n    f = f\n", "class g: ...\nclass A:\n    f = g\n"),
        ("from a import f as x\nx()\n", "from a import g as x\nx()\n"),
        ("from a import *\nf()\n", "from a import *\ng()\n"),
        ("def h():\n    global f\n    f = 1\n", "def h():\n    global g\n    g = 1\n"),
        (
            "def f(): ...\ndef h(): return lambda: [f for x in f()]\n",
            "def g(): ...\ndef h(): return lambda: [g for x in g()]\n",
        ),
    ],
)
def test_a_right_rename_has_no_clash(before: str, after: str) -> None:
    assert clash(read(before), read(after), "f", "g") is None


@pytest.mark.parametrize(
    ("before", "after", "line", "is_taken"),
    [
        (
            "def f(): ...\ndef h():\n    g = 2\n    return f() + g\n",
            "def g(): ...\ndef h():\n    g = 2\n    return g() + g\n",
            3,
            True,
        ),
        (
            "def f(): ...\ndef h(g):\n    return lambda: f(g)\n",
            "def g(): ...\ndef h(g):\n    return lambda: g(g)\n",
            3,
            True,
        ),
        ("from a import f\ng = 5\nf(g)\n", "from a import g\ng = 5\ng(g)\n", 2, True),
        ("def f(x): return x\n\nmax(g(1))\n", "def g(x): return x\n\nmax(g(1))\n", 3, True),
        ("def f(): ...\ndef h(): return g\n", "def g(): ...\ndef h(): return g\n", 2, True),
        (
            "def f(): ...\ndef h():\n    global g\n    g = 1\n",
            "def g(): ...\ndef h():\n    global g\n    g = 1\n",
            3,
            True,
        ),
        ("class f: ...\ndef h(f=f): return f\n", "class g: ...\ndef h(f=f): return f\n", 2, False),
        ("class f: ...\ndef h(): return f\n", "class g: ...\ndef h(): return f\n", 2, False),
    ],
)
def test_a_name_that_falls_apart_or_becomes_another_is_a_clash(
    before: str, after: str, line: int, is_taken: bool
) -> None:
    assert clash(read(before), read(after), "f", "g") == Clash(line, is_taken=is_taken)


def test_the_first_line_of_a_name_is_found_in_every_form() -> None:
    text = "import os as a\nfrom b import c\ndef d(e):\n    global f\n    return [a, c]\n"
    assert [line_of(text, name) for name in "acdefx"] == [1, 2, 3, 3, 4, 1]
    assert line_of(text, "a", 2) == 5
