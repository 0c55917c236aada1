"""rope reads code as Python does: names in the body of a class, scopes, and brackets in texts."""

from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.rename.rename import Refactoring, rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


def texts(done: Refactoring) -> dict[str, str]:
    return {change.path: change.new_text for change in done.changes.files}


BODY = """import parts


class Whole:
    def __init__(self):
        self.parts = self.Small = 1


class Inherits(Whole):
    one = parts.Small(size=1)


class Sets:
    one = parts.Small(size=1)

    def __init__(self):
        self.parts = {}
"""
BINDS = """import parts


class Binds:
    class parts:
        def Small(size): ...

    one = parts.Small(size=1)
"""


def test_what_a_class_inherits_or_sets_is_no_name_in_its_body(tmp_path: Path) -> None:
    (tmp_path / "parts.py").write_text("class Small:\n    def __init__(self, size): ...\n", encoding="utf-8")
    (tmp_path / "whole.py").write_text(BODY, encoding="utf-8")
    workspace = Workspace(Repository.open(tmp_path))
    done = texts(rename(workspace, "parts.py", "Small", "Tiny"))
    assert done["whole.py"] == BODY.replace("parts.Small", "parts.Tiny")
    (tmp_path / "binds.py").write_text(BINDS, encoding="utf-8")
    workspace = Workspace(Repository.open(tmp_path))
    done = texts(rename_parameter(workspace, "parts.py", "Small.__init__", "size", "width"))
    assert done["whole.py"] == BODY.replace("size=", "width=")
    assert "binds.py" not in done


@pytest.mark.parametrize(
    "before",
    [
        "text = f'({1}'\n",
        "text = f'{{({1}'\n",
        'text = rf"""[{dict(a={1: 2})}\n{{"""\n',
        "class Meta(type): ...\n\n\nclass Other(metaclass=Meta):\n    def __init__(self): ...\n",
        "\u3161 = \ufb01nd = 1\n\n\nclass Odd:\n    def \ufb01t(self): ...\n",
    ],
)
def test_what_stands_before_a_definition_does_not_hide_it(tmp_path: Path, before: str) -> None:
    home = "class Box:\n    def {0}(self, {1}=1): ...\n\n    def use(self):\n        self.{0}({1}=2)\n"
    (tmp_path / "home.py").write_text(before + home.format("put", "size"), encoding="utf-8")
    workspace = Workspace(Repository.open(tmp_path))
    done = rename(workspace, "home.py", "Box.put", "store")
    assert texts(done) == {"home.py": before + home.format("store", "size")}
    done = rename_parameter(workspace, "home.py", "Box.put", "size", "width")
    assert texts(done) == {"home.py": before + home.format("put", "width")}
    done = remove_parameter(workspace, "home.py", "Box.put", "size")
    assert texts(done) == {"home.py": before + home.format("put", "size").replace(", size=1", "").replace("size=2", "")}


@pytest.mark.parametrize(
    "use",
    [
        "def h(f={0}):\n    return f\n",
        "def h(f: {0} = 1, *, g: list[{0}] = {0}.b) -> {0}:\n    return f\n",
        "class D({0}, key={0}):\n    f = 1\n    g = f\n",
        "g = [f for f in {0}.b if f], {{f: 1 for f in {0}}}, list(f for f in {0} for f in f)\n",
    ],
)
def test_what_stands_in_a_head_is_read_around_it(tmp_path: Path, use: str) -> None:
    text = f"class {{0}}:\n    b = ()\n\n\n{use}"
    (tmp_path / "a.py").write_text(text.format("f"), encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "a.py", "f", "renamed")
    assert texts(done) == {"a.py": text.format("renamed")}
