import ast

import pytest

from khepri.edits.inline_safety import torn_call

SINGLE = "def single(x):\n    return x + 1\n"
PLAIN = "def plain(x):\n    return x\n"


@pytest.mark.parametrize(
    ("definition", "name", "text", "line"),
    [
        (SINGLE, "single", "y = 2\nz = single(y) * 2\n", 2),
        (SINGLE, "single", "z = -single(y)\n", 1),
        (SINGLE, "single", "z = single(y).real\n", 1),
        (SINGLE, "single", "z = single(y)\nreturned = f(single(1), k=single(2), m=[single(3)])\n", None),
        (PLAIN, "plain", "z = plain(y) * 2\n", None),
        (PLAIN, "plain", "z = plain(y + 1)\n", None),
        ("def double(x):\n    return f(x * 2)\n", "double", "z = double(y + 1)\n", 1),
        ("def double(x):\n    return f(x * 2)\n", "double", "z = double(y) * 3\n", None),
        ("def send(self, x):\n    return x or self\n", "send", "ok = not talk.send(1)\n", 1),
        ("class Session:\n    pass\n", "Session", "s = Session() * 2\n", None),
    ],
)
def test_a_call_is_torn_where_the_body_would_need_brackets(
    definition: str, name: str, text: str, line: int | None
) -> None:
    assert ast.parse(text)
    assert torn_call(definition, name, text) == line
