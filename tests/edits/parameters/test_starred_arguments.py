"""A parameter that another function takes among ``**`` and looks for by a text is followed, refused or told."""

from pathlib import Path

import pytest

from khepri.edits.parameters.new_parameter import add_parameter
from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.refusal import EditRefusedError
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

FAMILY = """class Page:
    def write(self, text=""):
        return self


class Loud(Page):
    def write(self, **kw):
        if "text" in kw and kw.get("text"):
            kw.setdefault('text', "é")
        return super().write(text=kw.pop("text") + kw["text"]) or kw["other"]


Loud().write(text="a")
"""
DECORATED = """import functools


def loud(function):
    @functools.wraps(function)
    def inner(*args, **kw):
        kw["size"] = 2
        return function(*args, **kw)

    return inner


@loud
def box(size=0):
    return 1
"""
OPEN = """def box(a, size=0, **kw):
    return kw.pop("width", 1)
"""


def workspace_of(root: Path, text: str) -> Workspace:
    (root / "m.py").write_text(text, encoding="utf-8")
    return Workspace(Repository.open(root))


def test_an_override_looks_for_a_renamed_parameter_by_its_new_name(tmp_path: Path) -> None:
    done = rename_parameter(workspace_of(tmp_path, FAMILY), "m.py", "Page.write", "text", "words")
    assert done.changes.files[0].new_text == FAMILY.replace("text", "words")


def test_a_parameter_that_an_override_looks_for_does_not_go(tmp_path: Path) -> None:
    with pytest.raises(EditRefusedError, match=r"Loud\.write looks for text among its \*\* at line 8"):
        remove_parameter(workspace_of(tmp_path, FAMILY), "m.py", "Page.write", "text")


def test_a_decorator_that_passes_a_renamed_parameter_by_a_text_is_told(tmp_path: Path) -> None:
    done = rename_parameter(workspace_of(tmp_path, DECORATED), "m.py", "box", "size", "width")
    assert done.notes == ("m.py box is handed on to @loud: see that nothing passes size there",)


def test_no_parameter_takes_what_the_function_looks_for_among_its_others(tmp_path: Path) -> None:
    workspace = workspace_of(tmp_path, OPEN)
    with pytest.raises(EditRefusedError, match=r"m\.py box looks for width among its \*\* at line 2"):
        rename_parameter(workspace, "m.py", "box", "size", "width")
    with pytest.raises(EditRefusedError, match=r"m\.py box looks for width among its \*\* at line 2"):
        add_parameter(workspace, "m.py", "box", "width", "1")


def test_a_removed_parameter_that_may_be_asked_for_by_locals_is_told(tmp_path: Path) -> None:
    text = "def box(a, size=0):\n    return '{a} {size}'.format(**locals())\n"
    done = remove_parameter(workspace_of(tmp_path, text), "m.py", "box", "size")
    assert done.notes == ("m.py box looks at its names with locals(): see that nothing asks for size there",)
