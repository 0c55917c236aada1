"""A change is laid over what it was made on, and nothing else."""

from pathlib import Path

import pytest

from khepri.edits.change import FileChange, change_set
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


@pytest.mark.parametrize("now", ["mine\n", None])
def test_a_file_that_is_saved_while_a_change_is_made_is_refused(tmp_path: Path, now: str | None) -> None:
    path = tmp_path / "a.py"
    path.write_text("old\n", encoding="utf-8")
    workspace = Workspace(Repository.open(tmp_path))
    if now is None:
        path.unlink()
    else:
        path.write_text(now, encoding="utf-8")
    with pytest.raises(EditRefusedError, match=r"a\.py has changed on disk since it was read") as caught:
        workspace.take(change_set("x", [FileChange("a.py", b"old\n", b"new\n")]))
    assert caught.value.reason is Refusal.CHANGED_ON_DISK
    assert not workspace.proposed
