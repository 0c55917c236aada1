"""What an unfinished change has come to is found again, unless anything is not what it was."""

from collections.abc import Callable
from pathlib import Path

import pytest

from khepri.agent.events import StepFinished
from khepri.agent.plan_store import PlanStore
from khepri.agent.protocol import ToolCall
from khepri.edits.change import FileChange, change_set
from khepri.edits.refusal import Refusal
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

CALLS = (ToolCall("rename", {"path": "a.py", "symbol": "x", "new_name": "y"}), ToolCall("rewrite", {"path": "b.py"}))

STEPS = (StepFinished(1, 2, "no", True, Refusal.NO_TARGET),)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "a.py").write_bytes(b"x = 1\n")
    return root


@pytest.fixture
def store(root: Path) -> PlanStore:
    store = PlanStore(root, root.parent / "plans")
    workspace = Workspace(Repository.open(root))
    workspace.take(change_set("t", [FileChange("a.py", b"x = 1\n", b"y = 1\n"), FileChange("new.py", None, b"\xff")]))
    store.save("t", CALLS, STEPS, ["look out"], workspace)
    return store


def test_a_plan_and_what_its_steps_propose_are_found_again(root: Path, store: PlanStore) -> None:
    found = store.load("t", Workspace(Repository.open(root)))
    assert found is not None
    assert (found.calls, found.steps, found.notices) == (CALLS, STEPS, ("look out",))
    assert {each.path: each.after for each in found.files} == {"a.py": b"y = 1\n", "new.py": b"\xff"}
    store.forget()
    assert store.load("t", Workspace(Repository.open(root))) is None


def _becomes_a_folder(root: Path) -> None:
    (root / "a.py").unlink()
    (root / "a.py").mkdir()


@pytest.mark.parametrize(
    "change",
    [
        lambda root: (root / "a.py").write_bytes(b"x = 2\n"),
        lambda root: (root / "a.py").unlink(),
        lambda root: (root / "new.py").write_bytes(b"mine\n"),
        _becomes_a_folder,
        lambda root: next((root.parent / "plans").iterdir()).write_bytes(b"[]"),
        lambda root: next((root.parent / "plans").iterdir()).write_bytes(b'{"task": "t", "calls"'),
    ],
)
def test_a_plan_for_other_files_than_are_there_is_none(
    root: Path, store: PlanStore, change: Callable[[Path], object]
) -> None:
    change(root)
    assert store.load("t", Workspace(Repository.open(root))) is None
    assert store.load("another task", Workspace(Repository.open(root))) is None
