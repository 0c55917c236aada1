import ast

import pytest

from khepri.edits.inlining.inline_safety import (
    function_of,
    repeated_call,
    tied,
    torn_results,
    torn_values,
    with_plain_names,
)
from khepri.edits.python.inline_calls import calls_of, end_of, passed

SINGLE = "def single(x):\n    return x + 1\n"
NAMES = ("single", "plain", "double", "pair", "shown", "send", "Session", "f")
PLAIN = "def plain(x):\n    return x\n"


def every_call(text: str) -> set[tuple[int, int]]:
    """Return where those names end that are called in a text and stand for the function."""
    called = [node.func for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call)]
    names = (func for func in called if (func.id if isinstance(func, ast.Name) else func.attr) in NAMES)  # type: ignore[attr-defined]
    return {(func.end_lineno or 0, func.end_col_offset or 0) for func in names}


@pytest.mark.parametrize(
    ("definition", "text", "line"),
    [
        (SINGLE, "y = 2\nz = single(y) * 2\n", 2),
        (SINGLE, "z = -single(y)\n", 1),
        (SINGLE, "z = single(y).real\n", 1),
        (SINGLE, "z = single(y)\nreturned = f(single(1), k=single(2), m=[single(3)])\n", None),
        (PLAIN, "z = plain(y) * 2\n", None),
        (PLAIN, "z = plain(y + 1)\n", None),
        ("def double(x):\n    return f(x * 2)\n", "z = double(y + 1)\n", 1),
        ("def double(x):\n    return f(x * 2)\n", "z = double(y) * 3\n", None),
        ("def pair(a, b):\n    return (a << 32) | b\n", "z = [pair(y, y[-1] + 1)]\n", None),
        ("def pair(a, b):\n    return (a << 32) | b\n", "z = [pair(y | 1, y)]\n", 1),
        ("def pair(a, b):\n    return (a << 32) | b\n", "z = [pair(a=y, b=y if y else 1)]\n", 1),
        ("def shown(x):\n    return x + 'x'\n", "z = shown('\\\\d' if y else 'x')\n", 1),
        ("def send(self, x):\n    return x or self\n", "ok = not talk.send(1)\n", 1),
        ("class Session:\n    pass\n", "s = Session() * 2\n", None),
    ],
)
def test_a_call_is_torn_where_the_body_would_need_brackets(definition: str, text: str, line: int | None) -> None:
    assert ast.parse(text)
    function = function_of(definition)
    torn = []
    for call, _ in calls_of(text, every_call(text)) if function is not None else ():
        assert function is not None
        if torn_results(function, text, {end_of(call.func)}) or torn_values(function, passed(function, call)):
            torn.append(call.lineno)
    assert (torn[0] if torn else None) == line


@pytest.mark.parametrize(
    ("definition", "text", "line"),
    [
        ("def f(x):\n    return x + x\n", "y = f(1)\nz = f(take())\n", 2),
        ("def f(x):\n    return x + x\n", "z = f(y.size)\n", None),
        ("def f(x):\n    return x + x\n", "z = f(x=take())\n", 1),
        ("def f(x):\n    return g(x)\n", "z = f(take())\n", None),
        ("def f(x):\n    return g([x for y in z])\n", "z = f(take())\n", 1),
        ("def f(x):\n    return 1\n", "z = f(take())\n", 1),
        ("def f(x):\n    return 1\n", "z = f([])\n", None),
        ("def f(x):\n    return g(x, x)\n", "z = f([])\n", 1),
        ("def f(self, x):\n    return g(x, self.a)\n", "z = s.f(take())\n", None),
        ("def f(self, x):\n    return g(x, self.a, self.b)\n", "z = s().f(1)\n", 1),
        ("def f(x, y):\n    return g(x, y, y)\n", "z = f(take(), 1)\n", None),
        ("class f:\n    pass\n", "z = f(take())\n", None),
    ],
)
def test_what_is_passed_is_evaluated_once_before_and_after(definition: str, text: str, line: int | None) -> None:
    function = function_of(definition)
    assert (None if function is None else repeated_call(function, text, every_call(text))) == line


@pytest.mark.parametrize(
    ("definition", "why"),
    [
        ("def f(x):\n    yield x\n", "it is a generator"),
        ("def f(x):\n    if x:\n        return\n    g()\n", "it returns before its end"),
        ("def f(x):\n    if x:\n        return 1\n    else:\n        return 2\n", "it returns before its end"),
        ("def f(x):\n    g()\n    return x\n", ""),
        ("@cache\ndef f(x):\n    return x\n", "@cache would be lost"),
        ("def f(x, y=[]):\n    return y\n", "its default [] is made once for all calls"),
        ("def f(x, *, y=now()):\n    return y\n", "its default now() is made once for all calls"),
        ("def f(x, b):\n    b = x + b\n    return b\n", "it assigns its own parameter b"),
        ("def f(x):\n    for x in g():\n        pass\n", "it assigns its own parameter x"),
        ("def f():\n    global n\n    n = 1\n", "it assigns n of another scope"),
        ("def f(self):\n    return super().f()\n", "super() means the function that it stands in"),
        ("@staticmethod\ndef f(x, y=None):\n    z = (yes for yes in x)\n    return lambda: (yield 1)\n", ""),
    ],
)
def test_a_body_that_means_something_else_elsewhere_stays(definition: str, why: str) -> None:
    function = function_of(definition)
    assert function is not None
    assert tied(function) == why


def test_names_that_the_library_gives_are_ones_that_people_would_give() -> None:
    before = "total_2 = __0__kept = 1\n"
    after = "total_2 = __0__kept = 1\n__1__total = 1\nprint(__1__total)\n"
    expected = "total_2 = __0__kept = 1\ntotal_3 = 1\nprint(total_3)\n"
    assert with_plain_names(before, after) == expected
