"""Lines become a function of their own only where it does what they did."""

import contextlib
import io
from pathlib import Path

import pytest

from khepri.edits.moving.refactor import extract
from khepri.edits.refusal import EditRefusedError
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


def output(text: str) -> str:
    """Return what a Python text prints."""
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        exec(text, {"__name__": "m"})
    return written.getvalue()


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        (
            4,
            5,
            "n = 0\ndef f():\n    global n\n    n = 5\n    x = n + 1\n    return x\nprint(f(), n)\n",
        ),
        (
            5,
            6,
            "def o():\n"
            "    n = 0\n"
            "    def f():\n"
            "        nonlocal n\n"
            "        n = 5\n"
            "        x = n + 1\n"
            "        return x\n"
            "    return f(), n\n"
            "print(o())\n",
        ),
        (
            4,
            5,
            "class A:\n"
            "    def g(self, n):\n"
            "        def h(k):\n"
            "            x = self.q + k + n\n"
            "            y = x * 2\n"
            "            return y\n"
            "        return h(1)\n"
            "    q = 3\n"
            "print(A().g(4))\n",
        ),
        (
            5,
            6,
            "class A:\n"
            "    q = 3\n"
            "    @property\n"
            "    def g(self):\n"
            "        x = self.q\n"
            "        y = x * 2\n"
            "        return y\n"
            "print(A().g)\n",
        ),
        (
            5,
            6,
            "class A:\n"
            "    q = 3\n"
            "    @classmethod\n"
            "    def g(cls, a):\n"
            "        x = cls.q * a\n"
            "        y = x * 2\n"
            "        return y\n"
            "class B(A):\n"
            "    q = 4\n"
            "print(A.g(1), B.g(2), B().g(3))\n",
        ),
        (
            5,
            6,
            "class A:\n"
            "    q = 3\n"
            "    @classmethod\n"
            "    def g(cls, a):\n"
            "        x = 3 * a\n"
            "        y = x * 2\n"
            "        return y, cls\n"
            "print(A.g(1)[0])\n",
        ),
        (
            2,
            3,
            "def o(a, /, b=2, *c, d=4, **e):\n"
            "    x = (a, b, c, d, e)\n"
            "    y = x + (1,)\n"
            "    return y\n"
            "print(o(1, 2, 3, d=5, f=6))\n",
        ),
        (
            2,
            3,
            "def o(a):\n    if (n := len(a)) > 1:\n        print(n)\n    return n\nprint(o([1,2]))\n",
        ),
        (
            2,
            7,
            "def f(p):\n"
            "    try:\n"
            "        a = int(p)\n"
            "    except ValueError:\n"
            "        a = 0\n"
            "    else:\n"
            "        a += 1\n"
            "    return a\n"
            "print(f('0'), f('x'))\n",
        ),
        (
            2,
            6,
            "def f(p):\n"
            "    match p:\n"
            "        case [x, *_]:\n"
            "            a = x\n"
            "        case _:\n"
            "            a = 0\n"
            "    return a\n"
            "print(f([1]), f(0))\n",
        ),
        (
            2,
            5,
            "def f(p):\n    if p:\n        a = 1\n    else:\n        raise ValueError\n    return a\nprint(f(1))\n",
        ),
        (
            2,
            3,
            "def f(p):\n    q = p + 1\n    return q * 2\nprint(f(1))\n",
        ),
        (
            6,
            7,
            "def f(p):\n"
            "    try:\n"
            "        a = int(p)\n"
            "    except ValueError:\n"
            "        a = 3\n"
            "    with open('/dev/null') as h:\n"
            "        b = h.read()\n"
            "    return a, b\n"
            "print(f('1'), f('q'))\n",
        ),
        (
            4,
            4,
            "def f(p):\n"
            "    a = 0\n"
            "    try:\n"
            "        a = int(p)\n"
            "    except ValueError:\n"
            "        pass\n"
            "    return a\n"
            "print(f('1'), f('q'))\n",
        ),
        (
            3,
            4,
            "def f(p):\n"
            "    n = 1\n"
            "    a = [(k, v) for k, v in p if k]\n"
            "    b = len(a) + sum(map(lambda q: q + n, [1]))\n"
            "    return [k + v for k, v in a], b, {q: f'{k}{v}' for q, (k, v) in enumerate(a)}\n"
            "print(f([(0, 1), (2, 3)]))\n",
        ),
        (
            5,
            6,
            "def f(x):\n"
            "    try:\n"
            "        return 1 / x\n"
            "    except ZeroDivisionError as error:\n"
            "        if error.args:\n"
            "            print(error)\n"
            "        return str(error)\n"
            "print(f(0))\n",
        ),
        (
            3,
            4,
            "def f(x):\n"
            "    import os.path\n"
            "    name = os.path.join('a', x)\n"
            "    print(name)\n"
            "    return name, os.sep\n"
            "print(f('b'))\n",
        ),
        (
            2,
            3,
            "def f(x):\n"
            "    from os import path as p\n"
            "    name = p.join('a', x)\n"
            "    return name, p.sep\n"
            "print(f('b'))\n",
        ),
        (
            3,
            5,
            "def f(x):\n    n = 1\n    def g(y=n):\n        return y + x\n    z = g()\n    return z\nprint(f(3))\n",
        ),
        (
            3,
            3,
            "def f(a):\n"
            "    n = 1\n"
            "    text = f'x \"{a!r}\" {{a}}{a} ${a} {n:>3}'  # a ${n}\n"
            "    return text + str(n)\n"
            "print(f(2))\n",
        ),
    ],
)
def test_the_function_does_what_the_lines_did(tmp_path: Path, first: int, last: int, text: str) -> None:
    (tmp_path / "m.py").write_text(text)
    (change,) = extract(Workspace(Repository.open(tmp_path)), "m.py", first, last, "calc").changes.files
    assert output(change.new_text) == output(text) != ""


@pytest.mark.parametrize(
    ("first", "last", "why", "text"),
    [
        (
            4,
            5,
            "a function inside o uses t as well",
            "def o():\n    t = 1\n    def show(): return t\n    t = 2\n    y = show()\n    return y, t\nprint(o())\n",
        ),
        (
            6,
            7,
            "a function inside o uses t as well",
            "def o():\n"
            "    t = 1\n"
            "    def inc():\n"
            "        nonlocal t\n"
            "        t += 1\n"
            "    inc()\n"
            "    y = t + 1\n"
            "    return y\n"
            "print(o())\n",
        ),
        (
            3,
            4,
            "delete a",
            "def o(n):\n"
            "    a = n\n"
            "    b = a + 1\n"
            "    del a\n"
            "    try: print(a)\n"
            "    except NameError: print('no')\n"
            "    return b\n"
            "print(o(1), o(0))\n",
        ),
        (
            4,
            6,
            "e may have no value before",
            "def o(n):\n"
            "    if n:\n"
            "        e = 3\n"
            "    x = 1\n"
            "    if n:\n"
            "        x = e\n"
            "    return x\n"
            "print(o(1), o(0))\n",
        ),
        (
            2,
            3,
            "locals() means",
            "def o(n):\n    a = n\n    b = sorted(locals())\n    return a, b\nprint(o(1), o(0))\n",
        ),
        (
            3,
            4,
            "__new__ is called on the class",
            "class A:\n"
            "    def __new__(cls, a):\n"
            "        x = object.__new__(cls)\n"
            "        x.y = a\n"
            "        return x\n"
            "print(A(1).y)\n",
        ),
        (
            4,
            4,
            "__init_subclass__ is called on",
            "class A:\n"
            "    def __init_subclass__(cls, **kw):\n"
            "        super().__init_subclass__()\n"
            "        cls.y = kw['a']\n"
            "class B(A, a=1): pass\n"
            "print(B.y)\n",
        ),
        (
            4,
            6,
            "p may have no value at the end",
            "def o(n):\n"
            "    t = 0\n"
            "    for i in range(n):\n"
            "        if i:\n"
            "            p = i\n"
            "        t += i\n"
            "        if i > 1:\n"
            "            t += p\n"
            "    return t\n"
            "print(o(5))\n",
        ),
        (
            4,
            5,
            "a is needed where an error",
            "def o(n):\n"
            "    a = 0\n"
            "    try:\n"
            "        a = int(n)\n"
            "        b = 1 / a\n"
            "    except ZeroDivisionError:\n"
            "        pass\n"
            "    return a\n"
            "print(o('0'), o('2'))\n",
        ),
        (
            4,
            5,
            "a is needed where an error",
            "def o(n):\n"
            "    a = 9\n"
            "    try:\n"
            "        a = int(n)\n"
            "        b = 1 / a\n"
            "    except ZeroDivisionError:\n"
            "        return 3\n"
            "    finally:\n"
            "        print(a)\n"
            "    return b\n"
            "print(o('0'), o('2'))\n",
        ),
        (
            3,
            4,
            "uses t, which changes after",
            "def o():\n    t = 1\n    cb = lambda: t\n    z = cb()\n    t = 2\n    return cb(), z\nprint(o())\n",
        ),
        (
            3,
            5,
            "extra may have no value at the end",
            "def f(flag):\n"
            "    value = 1\n"
            "    if flag:\n"
            "        value = 2\n"
            "        extra = 5\n"
            "    return value, extra\n"
            "print(f(True))\n",
        ),
        (
            3,
            4,
            "a is needed where an error",
            "def f(p):\n"
            "    try:\n"
            "        a = int(p)\n"
            "        b = 1 / a\n"
            "    except ZeroDivisionError:\n"
            "        return ('zero', a)\n"
            "    return b\n"
            "print(f('0'))\n",
        ),
        (
            3,
            4,
            "a may have no value at the end",
            "import contextlib\n"
            "def f(p):\n"
            "    with contextlib.suppress(ValueError):\n"
            "        a = int(p)\n"
            "    return a\n"
            "print(f('0'))\n",
        ),
    ],
)
def test_lines_that_would_do_something_else_stay(tmp_path: Path, first: int, last: int, why: str, text: str) -> None:
    output(text)
    (tmp_path / "m.py").write_text(text)
    with pytest.raises(EditRefusedError) as caught:
        extract(Workspace(Repository.open(tmp_path)), "m.py", first, last, "calc")
    assert why in str(caught.value)


def test_a_comment_behind_the_lines_goes_along_once(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(a):\n    b = a + 1  # One more.\n    return b\n", encoding="utf-8")
    done = extract(Workspace(Repository.open(tmp_path)), "a.py", 2, 2, "more")
    assert done.changes.files[0].new_text.count("# One more.") == 1


def extracted(root: Path, text: str, first: int, last: int, **others: str) -> str:
    for name, other in others.items():
        (root / f"{name}.py").write_text(other, encoding="utf-8")
    (root / "a.py").write_text(text, encoding="utf-8")
    return extract(Workspace(Repository.open(root)), "a.py", first, last, "part").changes.files[0].new_text


LOOP = "def f(xs):\n    last = None\n    for x in xs:\n        {0}\n    return x\n"


@pytest.mark.parametrize(
    ("text", "first", "last", "why"),
    [
        (
            LOOP.format("if x:\n            print(last)\n        last = x").replace("    last = None\n", ""),
            3,
            5,
            "last",
        ),
        (LOOP.format("print(last)\n        y = x\n        last = y"), 5, 6, "last is needed in the next pass"),
        (
            "def f(n):\n    while n:\n        if n > 1:\n            print(m)\n        m = n\n        n -= 1\n",
            3,
            5,
            "m may",
        ),
    ],
)
def test_what_a_pass_leaves_for_the_next_one_stays(tmp_path: Path, text: str, first: int, last: int, why: str) -> None:
    with pytest.raises(EditRefusedError, match=why):
        extracted(tmp_path, text, first, last)


@pytest.mark.parametrize(
    ("body", "first", "last"),
    [
        ("x += 1\n        print(x)", 4, 5),
        ("y = x\n        print([y for y in xs], y)\n        last = y", 4, 5),
        ("if (n := x) > 1:\n            print(n)", 4, 5),
        ("try:\n            y = 1 / x\n        except ZeroDivisionError as e:\n            print(e)", 4, 7),
    ],
)
def test_what_every_pass_binds_anew_goes_along(tmp_path: Path, body: str, first: int, last: int) -> None:
    text = LOOP.format(body) + "print(f([0, 1, 2]))\n"
    assert output(extracted(tmp_path, text, first, last)) == output(text)


@pytest.mark.parametrize("use", ["from a import x\n", "import a\n\nprint(a.x)\n", "from a import *\n\nprint(x)\n"])
def test_lines_whose_names_another_file_has_stay_at_the_top_level(tmp_path: Path, use: str) -> None:
    with pytest.raises(EditRefusedError, match="x would be gone"):
        extracted(tmp_path, "x = 1\ny = 2\nprint(y)\n", 1, 2, b=use)
    with pytest.raises(EditRefusedError, match="__all__"):
        extracted(tmp_path, "__all__ = ['x']\nx = 1\ny = 2\nprint(y)\n", 2, 3, b="")


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        (3, 6, 'def f(a):\n    if a:\n        s = """one\ntwo\n  three"""\n        print(s)\nf(1)\n'),
        (
            8,
            9,
            'X = b"""\n    a\n"""\n\nclass A:\n    """A\n    B"""\n    def f(a):\n'
            '        print("""x\n  y""", X)\nA().f()\n',
        ),
        (3, 5, 'def f(a):\n\tif a:\n\t\ts = """one\n    two\n\tthree"""\n\t\tprint(s)\nf(1)\n'),
    ],
)
def test_a_string_over_several_lines_stays_what_it_is(tmp_path: Path, first: int, last: int, text: str) -> None:
    last += first == 8
    first += first == 8
    assert output(extracted(tmp_path, text, first, last)) == output(text)


def test_an_f_string_over_several_lines_that_would_be_shifted_stays(tmp_path: Path) -> None:
    text = 'def f(a):\n    if a:\n        s = f"""one\n          {a}\n          two"""\n        print(s)\n'
    with pytest.raises(EditRefusedError, match="another one there"):
        extracted(tmp_path, text, 3, 6)


def test_a_file_that_is_indented_by_tabs_gets_a_function_with_tabs(tmp_path: Path) -> None:
    aligned = "\tdef g(self):\n\t\tprint(self,\n\t\t      1)\n"
    lines = "\t\t\tz = 1\n\t\t\tif z:\n\t\t\t\tprint(z, a)\n"
    text = f"class A:\n{aligned}\n\tdef f(self, a):\n\t\tif a:\n{lines}\t\treturn 1\n"
    after = extracted(tmp_path, text, 8, 10)
    assert "\tdef part(self, a):\n\t\tz = 1\n\t\tif z:\n\t\t\tprint(z, a)\n" in after
    assert "\t\t\tself.part(a)\n\t\treturn 1\n" in after
    assert aligned in after
