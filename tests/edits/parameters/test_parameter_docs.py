"""What describes a parameter is renamed with it, and what only has the word is not."""

from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import rename_parameter
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


def workspace_of(root: Path, text: str) -> Workspace:
    (root / "a.py").write_text(text, encoding="utf-8")
    return Workspace(Repository.open(root))


@pytest.mark.parametrize(
    "line",
    [
        "{0}: What data it is.",
        "{0} (bytes): What.",
        "{0} : bytes",
        ":param {0}: What data.",
        ":type {0}: x",
        "Sends `{0}`.",
    ],
)
def test_a_docstring_describes_the_parameter_by_its_new_name(tmp_path: Path, line: str) -> None:
    text = 'def send({0}):\n    """Send data.\n\n    Args:\n        ' + line + '\n    """\n    return {0}\n'
    other = 'def get(data):\n    """Get.\n\n    Args:\n        data: What.\n    """\n'
    done = rename_parameter(workspace_of(tmp_path, text.replace("{0}", "data") + other), "a.py", "send", "data", "body")
    assert done.changes.files[0].new_text == text.replace("{0}", "body") + other
    assert not done.notes


def test_where_a_parameter_is_still_spoken_of_is_told(tmp_path: Path) -> None:
    text = 'def send(max_size):\n    """Send at most {0}."""\n    # max_size counts.\n    return {0}\n'
    done = rename_parameter(workspace_of(tmp_path, text.replace("{0}", "max_size")), "a.py", "send", "max_size", "most")
    assert done.changes.files[0].new_text == text.replace("{0}", "most").replace("send(max_size", "send(most")
    assert done.notes == ("max_size also stands in comments or docstrings at a.py:3, which were left",)


def test_an_argument_is_no_use_of_an_attribute(tmp_path: Path) -> None:
    made = "from dataclasses import dataclass\n\n\n@dataclass\n"
    text = "class P:\n    name: int = 0\n\n\nclass Q:\n    def name(self): ...\n\n\n"
    text += "def f(o, m):\n    o.name\n    m(name=1)\n"
    done = rename(workspace_of(tmp_path, text), "a.py", "P.name", "title")
    assert done.notes == ("1 use of .name may mean something else and was left: a.py:10",)
    done = rename(workspace_of(tmp_path, made + text), "a.py", "P.name", "title")
    assert "name is passed by name to what nobody knows at a.py:15, and was left there" in done.notes


def test_what_a_doctest_passes_by_name_is_renamed(tmp_path: Path) -> None:
    text = (
        '"""Sends.\n\n>>> send({0}=1)\n>>> other(data=1)\n"""\n\n\n'
        'def send({0}):\n    """Send.\n\n    >>> send(1, {0}=2)\n    """\n\n\n'
        'class A:\n    """An A.\n\n    >>> A({1}=1)\n    """\n\n    def __init__(self, {1}): ...\n'
    )
    workspace = workspace_of(tmp_path, text.format("data", "size"))
    done = rename_parameter(workspace, "a.py", "send", "data", "body")
    assert done.changes.files[0].new_text == text.format("body", "size")
    done = rename_parameter(workspace, "a.py", "A.__init__", "size", "width")
    assert done.changes.files[0].new_text == text.format("data", "width")


def test_what_a_doctest_runs_is_renamed_and_other_words_are_not(tmp_path: Path) -> None:
    text = (
        'def {0}(x):\n    """Add, to add.\n\n    >>> from a import {0}\n    >>> y = map({0}, [1])\n'
        '    >>> y.add(add=1, b=\'add\')\n    """\n'
    )
    done = rename(workspace_of(tmp_path, text.format("add")), "a.py", "add", "plus")
    assert done.changes.files[0].new_text == text.format("plus")
