"""Files that are encoded otherwise, or are no text at all, stand in the way of what means them and of nothing else."""

from pathlib import Path

import pytest

from khepri.edits.inlining.inlining import inline
from khepri.edits.moving.refactor import move
from khepri.edits.parameters.parameters import rename_parameter
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


def workspace_of(root: Path, other: bytes) -> Workspace:
    (root / "a.py").write_text("def old(x):\n    return x\n\n\ny = old(2)\n")
    (root / "other.py").write_bytes(other)
    (root / "c.py").write_text("")
    return Workspace(Repository.open(root))


def test_a_file_keeps_the_encoding_that_it_declares(tmp_path: Path) -> None:
    text = "# -*- coding: {0} -*-\nfrom a import old\n\ns = 'あい'\nold(s)\n".replace("{0}", "shift_jis")
    done = rename(workspace_of(tmp_path, text.encode("shift_jis")), "a.py", "old", "new")
    assert done.changes.files[1].after == text.replace("old", "new").encode("shift_jis")


def test_a_character_that_a_file_cannot_hold_is_refused_with_the_file(tmp_path: Path) -> None:
    other = "from a import old\n\ns = 'é'\n".encode("latin-1")
    with pytest.raises(EditRefusedError, match=r"other\.py is latin-1, which cannot hold 'ж'") as refused:
        rename(workspace_of(tmp_path, other), "a.py", "old", "ж")
    assert refused.value.reason is Refusal.ENCODING


@pytest.mark.parametrize("kind", ["rename", "parameter", "move", "inline"])
def test_what_is_no_text_stands_in_no_way_though_it_holds_the_name(tmp_path: Path, kind: str) -> None:
    workspace = workspace_of(tmp_path, b"\0\1\2\3 from a import old\n")
    match kind:
        case "rename":
            done = rename(workspace, "a.py", "old", "new")
            assert "old may be used in what is no valid Python, and was left there: other.py" in done.notes
        case "parameter":
            done = rename_parameter(workspace, "a.py", "old", "x", "z")
        case "move":
            done = move(workspace, "a.py", "old", "c.py")
        case _:
            done = inline(workspace, "a.py", "old")
    assert "other.py" not in [change.path for change in done.changes.files]
