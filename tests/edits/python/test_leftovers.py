"""Where a name still stands after a rename: in strings and comments, and nowhere else."""

import pytest

from khepri.edits.python.leftovers import Leftover, leftovers

TEXT = '''"""A Widget."""
from textual import Widget, WidgetBase

CSS = """
Widget {
    Widget.inner: "MyWidget"
}
"""
NAME = getattr(module, "Widget")  # the Widget


def of(x=Widget):
    # Widgets are none
    """Return a Widget."""
    return f"{Widget} is a Widget"
'''


def test_strings_docstrings_and_comments_are_told_by_line_and_code_is_not() -> None:
    in_f_string = Leftover(15, False)
    found = [each for each in leftovers(TEXT, "Widget") if each != in_f_string]
    assert found == [
        Leftover(1, True),
        Leftover(5, False),
        Leftover(6, False),
        Leftover(9, False),
        Leftover(9, True),
        Leftover(14, True),
    ]
    assert in_f_string in leftovers(TEXT, "Widget")


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('getattr(x, "get")', 1),
        ('x = "pkg.get"', 1),
        ('x = "pkg.cli:get"', 1),
        ('patch("get.url.of")', 0),
        ("# `get` and get() of it", 2),
        ('x = "get the url"', 0),
        ("# get it, forget() it", 0),
        ("x.get()", 0),
        ('x = """\n    >>> [each.get for each in x]\n    ... # or x().get, x[0].get\n"""', 2),
        ('x = """\n    >>> get = index\n    it is file.get\n"""', 0),
    ],
)
def test_a_name_that_is_a_word_counts_only_where_it_looks_like_a_name(text: str, count: int) -> None:
    assert len(leftovers(text, "get")) == count


def test_a_module_counts_at_the_beginning_of_a_path_as_well() -> None:
    text = 'patch("get.url.of", "forget.url", "get.url or")'
    assert len(leftovers(text, "get", is_module=True)) == 1


def test_text_that_is_no_python_is_read_as_far_as_it_goes() -> None:
    assert leftovers('x = "Widget"\ny = (', "Widget") == (Leftover(1, False),)
