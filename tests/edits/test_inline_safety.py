import ast

import pytest

from khepri.edits.inline_safety import function_of, repeated_call, torn_call

SINGLE = "def single(x):\n    return x + 1\n"
PLAIN = "def plain(x):\n    return x\n"


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
    assert (None if function is None else torn_call(function, text)) == line


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
    assert (None if function is None else repeated_call(function, text)) == line
