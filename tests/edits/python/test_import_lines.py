"""Imports are taken out by their lines, and what is left is Python."""

import ast

import pytest

from khepri.edits.python.import_lines import without_imports


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("import a\nimport b\nx = 1\n", "x = 1\n"),
        (
            "import typing\nif typing.TYPE_CHECKING:\n    from a import b  # note\n    from c import d\nx = 1\n",
            "import typing\nx = 1\n",
        ),
        (
            "try:\n    import a\n    import b\nexcept ImportError:\n    a = None\n",
            "try:\n    import a\nexcept ImportError:\n    a = None\n",
        ),
        ("if x:\n    import a\n    import b\n    y = 1\n", "if x:\n    y = 1\n"),
        ("def f():\n    import a\n    from b import (\n        c,\n        d,\n    )\n", "def f():\n    import a\n"),
    ],
    ids=["module", "for type checkers", "tried", "beside other lines", "function"],
)
def test_no_block_is_left_empty(text: str, left: str) -> None:
    got = without_imports(text, lambda node, alias: alias.name != "typing")
    assert got == left
    ast.parse(got)
