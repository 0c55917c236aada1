"""What jedi is asked: uses on objects of which the code around them does not say what they are."""

import sys
from pathlib import Path

import pytest
from jedi import settings

from khepri.edits.change import FileChange, change_set
from khepri.edits.python.inference import Inference, Place
from khepri.edits.rename.rename import Refactoring, rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

BOX = "class Box:\n    def put(self, a): ...\n\n\nclass Pile:\n    def put(self, a): ...\n"


def workspace_of(root: Path, files: dict[str, str]) -> Workspace:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return Workspace(Repository.open(root))


def renamed(root: Path, use: str) -> tuple[str, Refactoring]:
    workspace = workspace_of(
        root, {"src/box/__init__.py": BOX, "src/box/use.py": f"from box import Box, Pile\n\n{use}"}
    )
    done = rename(workspace, "src/box/__init__.py", "Box.put", "add")
    texts = {change.path: change.new_text for change in done.changes.files}
    return texts.get("src/box/use.py", "").removeprefix("from box import Box, Pile\n\n"), done


@pytest.mark.parametrize(
    "use",
    [
        "class A:\n    def __init__(self, b: Box):\n        self.b = b\n\n    def f(self):\n        self.b.put(1)\n",
        "def f(boxes: list[Box]):\n    for box in boxes:\n        box.put(1)\n",
        "def f(boxes: dict[str, Box]):\n    [box.put(1) for box in boxes.values()]\n",
        "def f(boxes: list[Box]):\n    boxes[0].put(1)\n",
    ],
)
def test_what_can_be_inferred_is_renamed(tmp_path: Path, use: str) -> None:
    assert renamed(tmp_path / "a", use)[0] == use.replace(".put", ".add")
    text, done = renamed(tmp_path / "b", use.replace("Box", "Pile"))
    assert not text
    assert not any(".put" in note for note in done.notes)


@pytest.mark.parametrize(
    "use",
    [
        "def f(box):\n    box.put(1)\n\n\nf(Pile())\n",
        "def f(boxes: list[Box | Pile]):\n    boxes[0].put(1)\n",
        "def f(box: 'Box | Pile'):\n    box.put(1)\n",
    ],
)
def test_what_may_be_several_or_anything_is_told(tmp_path: Path, use: str) -> None:
    text, done = renamed(tmp_path, use)
    assert not text
    assert any("src/box/use.py:4" in note for note in done.notes)


def test_what_is_proposed_is_looked_at_and_not_what_is_on_the_disk(tmp_path: Path) -> None:
    workspace = workspace_of(tmp_path, {"a.py": BOX, "b.py": "import a\n\na.make()[0].put(1)\n"})
    new = BOX + "\n\ndef make() -> list[Pile]: ...\n"
    workspace.take(change_set("new", [FileChange("a.py", BOX.encode(), new.encode())]))
    with Inference(workspace) as inference:
        assert inference.places("b.py", 3, 12, "put") == {Place("a.py", 6)}


def test_nothing_that_khepri_does_not_read_is_looked_at(tmp_path: Path) -> None:
    files = {".gitignore": "hidden.py\n", "hidden.py": BOX, "b.py": "import hidden\n\nhidden.Box().put(1)\n"}
    with Inference(workspace_of(tmp_path, files)) as inference:
        assert not inference.places("b.py", 3, 13, "put")


def test_what_is_from_outside_has_no_path(tmp_path: Path) -> None:
    with Inference(workspace_of(tmp_path, {"b.py": "import io\n\nio.StringIO().write(1)\n"})) as inference:
        assert {place.path for place in inference.places("b.py", 3, 14, "write")} == {""}


def test_nothing_is_run_and_nothing_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(copies))
    before = settings.cache_directory, settings.dynamic_params, list(sys.path)
    trap = f"open({str(tmp_path / 'ran')!r}, 'w').close()\n"
    files = {"repo/a.py": trap + BOX, "repo/sitecustomize.py": trap, "repo/b.py": "import a\n\na.Box().put(1)\n"}
    workspace_of(tmp_path, files)
    with Inference(Workspace(Repository.open(tmp_path / "repo"))) as inference:
        assert inference.places("b.py", 3, 8, "put") == {Place("a.py", 3)}
        assert list(copies.iterdir())
    assert not list(copies.iterdir())
    assert not (tmp_path / "ran").exists()
    assert (settings.cache_directory, settings.dynamic_params, list(sys.path)) == before


def test_another_name_at_the_place_is_asked_nothing(tmp_path: Path) -> None:
    with Inference(workspace_of(tmp_path, {"b.py": "class A:\n    b = 1\n\n\nA().b\n"})) as inference:
        assert inference.places("b.py", 5, 4, "b") == {Place("b.py", 2)}
        assert not inference.places("b.py", 5, 3, "b")
        assert not inference.places("b.py", 9, 0, "b")
