"""A class that is called with types, ``Box[int](1)``, is called like any other."""

from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

HEAD = "from dataclasses import dataclass\nfrom typing import Generic, TypeVar\n\nT = TypeVar('T')\n\n\n"
BOX = f"""{HEAD}class Base:
    def __init__(self): ...


class Box(Base, Generic[T]):
    def __init__(self, a, size=0):
        pass
"""
FIELD = f"{HEAD}@dataclass\nclass Box(Generic[T]):\n    size: int = 0\n"
USE = """import box
from box import Box

x: Box[int] = Box[int](0, size=1)
y = box.Box[dict[str, "int"]](
    2, size=2
)
z = Box
(x)


class Low(Box[int]): ...


Low(1, size=3)
"""


def workspace_of(root: Path, text: str) -> Workspace:
    (root / "box.py").write_text(text, encoding="utf-8")
    (root / "use.py").write_text(USE, encoding="utf-8")
    return Workspace(Repository.open(root))


@pytest.mark.parametrize("text", [BOX, FIELD])
def test_what_is_passed_to_a_class_with_types_is_renamed(tmp_path: Path, text: str) -> None:
    workspace = workspace_of(tmp_path, text)
    if text == BOX:
        done = rename_parameter(workspace, "box.py", "Box.__init__", "size", "width")
    else:
        done = rename(workspace, "box.py", "Box.size", "width")
    assert {each.path: each.new_text for each in done.changes.files} == {
        "box.py": text.replace("size", "width"),
        "use.py": USE.replace("size", "width"),
    }


def test_what_is_passed_to_a_class_with_types_is_removed(tmp_path: Path) -> None:
    done = remove_parameter(workspace_of(tmp_path, BOX), "box.py", "Box.__init__", "size")
    use = USE.replace(", size=1", "").replace(", size=2\n", "").replace(", size=3", "")
    assert {each.path: each.new_text for each in done.changes.files}["use.py"] == use


def test_a_constructor_below_a_class_with_types_keeps_what_it_takes(tmp_path: Path) -> None:
    own = "\n\nclass Own(Box[int]):\n    def __init__(self, size): ...\n\n\nOwn(size=4)\n"
    done = rename_parameter(workspace_of(tmp_path, BOX + own), "box.py", "Box.__init__", "size", "width")
    assert done.changes.files[0].new_text == BOX.replace("size", "width") + own
