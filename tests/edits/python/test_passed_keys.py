"""What a call passes by name is read from it, behind ``**`` too."""

import ast

import pytest

from khepri.edits.python.passed_keys import may_pass, passed_places


@pytest.mark.parametrize(
    ("call", "count", "is_open"),
    [
        ("f(n=1)", 1, False),
        ("f('é', **{'n': 1, **dict(n=2)})", 2, True),
        ("f(**{'m': 1})", 0, False),
        ("f(**{m: 1})", 0, True),
        ("f(**dict(m=1, **x))", 0, True),
        ("f(**dict(x))", 0, True),
        ("f(**{'''n''': 1})", 0, True),
        ("g(n=1)(**{'n': 2})", 1, True),
    ],
)
def test_what_a_call_passes_by_a_name(call: str, count: int, is_open: bool) -> None:
    places = passed_places(call, {call.rindex("(**") if call.startswith("g") else 1}, "n")
    assert len(places) == count
    assert all(call[place] == "n" for place in places)
    (node,) = (each.value for each in ast.parse(call).body if isinstance(each, ast.Expr))
    assert isinstance(node, ast.Call)
    assert may_pass(node, "n") is is_open


def test_what_is_no_python_passes_nothing() -> None:
    assert passed_places("f(n=1", {1}, "n") == []
