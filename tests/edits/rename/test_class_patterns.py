"""A renamed attribute is followed into class patterns and into the lists of names that a class keeps."""

import contextlib
import io
from pathlib import Path

import pytest

from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

NODE = """class Node:
    __slots__ = ("kind", 'left')
    __match_args__: tuple[str, ...] = ("kind",)

    def __init__(self, first, left=None):
        self.kind = first
        self.left = left


class Leaf(Node):
    __slots__ = ()


class Other:
    kind = "é"


def seen(node):
    match node:
        case Leaf(kind="é" | "leaf"):
            return "a leaf"
        case [Node(kind="é", left=(Node(kind = ("x")))), Other(kind=kind)]:
            return f"two {kind}"
        case Node("add"):
            return "added"
    return None


print(seen(Leaf("leaf")), seen([Node("é", Node("x")), Other()]), seen(Node("add")))
"""
POINT = """from dataclasses import dataclass


@dataclass
class Point:
    kind: int = 0


def seen(point):
    match point:
        case Point(kind=1):
            return 1
    return None


print(seen(Point(1)), seen(Point(kind=2)))
"""


def output(text: str) -> str:
    """Return what a Python text prints."""
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        exec(text, {"__name__": "m"})
    return written.getvalue()


@pytest.mark.parametrize(("text", "symbol"), [(NODE, "Node.kind"), (POINT, "Point.kind")])
def test_patterns_and_lists_of_names_follow_an_attribute(tmp_path: Path, text: str, symbol: str) -> None:
    (tmp_path / "m.py").write_text(text)
    done = rename(Workspace(Repository.open(tmp_path)), "m.py", symbol, "tag")
    assert output(done.changes.files[0].new_text) == output(text) != ""
    assert "tag=" in done.changes.files[0].new_text


def test_a_pattern_in_another_file_follows_and_one_of_another_class_stays(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("class Node:\n    def __init__(self, first):\n        self.kind = first\n")
    use = "from m import Node\n\nmatch y:\n    case Node(kind=1) | Node(kind=2):\n        pass\n"
    (tmp_path / "t.py").write_text(use)
    (tmp_path / "u.py").write_text("from x import Other\n\nmatch y:\n    case Other(kind=1):\n        pass\n")
    done = rename(Workspace(Repository.open(tmp_path)), "m.py", "Node.kind", "tag")
    assert [change.path for change in done.changes.files] == ["m.py", "t.py"]
    assert "case Node(tag=1) | Node(tag=2):" in done.changes.files[1].new_text
