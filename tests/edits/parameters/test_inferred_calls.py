"""Calls of methods on objects whose class only an inference finds."""

from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.refusal import EditRefusedError
from khepri.edits.rename.rename import Refactoring
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

SHAPES = """class Box:
    def put(self, a, deep=False): ...


class Wide(Box):
    def put(self, a, deep=False): ...


class Pile:
    def put(self, a, deep=False): ...
"""


def text_and_notes(root: Path, use: str, change: str, name: str = "deep") -> tuple[str, str]:
    (root / "shapes.py").write_text(SHAPES)
    (root / "use.py").write_text(f"from shapes import Box, Pile, Wide\n\n\n{use}")
    workspace = Workspace(Repository.open(root))
    if change == "remove":
        done: Refactoring = remove_parameter(workspace, "shapes.py", "Box.put", name)
    else:
        done = rename_parameter(workspace, "shapes.py", "Box.put", name, "far")
    texts = {each.path: each.new_text for each in done.changes.files}
    return texts.get("use.py", "").removeprefix("from shapes import Box, Pile, Wide\n\n\n"), "\n".join(done.notes)


@pytest.mark.parametrize("cls", ["Box", "Wide"])
@pytest.mark.parametrize(
    "use",
    [
        "def f(boxes: list[Box]):\n    for box in boxes:\n        box.put(1, deep=True)\n",
        "def f(boxes: dict[str, list[Box]]):\n    boxes['a'][0].put(1, deep=True)\n",
        "class A:\n    box: Box\n\n    def f(self):\n        self.box.put(1, deep=True)\n",
    ],
)
def test_a_call_on_what_is_inferred_passes_the_new_name_or_nothing(tmp_path: Path, use: str, cls: str) -> None:
    own = use.replace("Box", cls)
    text, notes = text_and_notes(tmp_path, own, "rename")
    assert text == own.replace("deep", "far")
    assert "left" not in notes
    text, notes = text_and_notes(tmp_path, own, "remove")
    assert text == own.replace(", deep=True", "")
    assert "passes deep" not in notes


def test_what_is_passed_by_its_place_goes_as_well(tmp_path: Path) -> None:
    use = "def f(boxes: list[Box]):\n    boxes[0].put(1, True)\n"
    assert text_and_notes(tmp_path, use, "remove") == (use.replace(", True", ""), "")


@pytest.mark.parametrize("change", ["rename", "remove"])
def test_a_call_on_something_else_is_left_without_a_word(tmp_path: Path, change: str) -> None:
    use = "def f(piles: list[Pile]):\n    piles[0].put(1, deep=True)\n    piles[0].put(1, True)\n"
    assert text_and_notes(tmp_path, use, change) == ("", "")


@pytest.mark.parametrize("change", ["rename", "remove"])
def test_a_call_on_one_or_the_other_is_told(tmp_path: Path, change: str) -> None:
    use = "def f(many: list[Box | Pile]):\n    many[0].put(1, deep=True)\n"
    text, notes = text_and_notes(tmp_path, use, change)
    assert not text
    assert "use.py:5" in notes


def test_a_call_that_hides_what_it_passes_refuses_the_removal(tmp_path: Path) -> None:
    use = "def f(boxes: list[Box], more):\n    boxes[0].put(1, **more)\n"
    with pytest.raises(EditRefusedError, match=r"use.py:5 passes \* or \*\*"):
        text_and_notes(tmp_path, use, "remove")
