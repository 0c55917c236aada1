"""What Khepri has changed in a repository, and the way back: for ``/diff`` and ``/undo``."""

from khepri import paths
from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.checkpoints import Checkpoints
from khepri.errors import UsageError
from khepri.repo.root import Repository


def own_changes(repository: Repository) -> ChangeSet:
    """Return what Khepri has changed in a repository, against the files as they are now.

    Raises:
        OSError: The system refused.
    """
    before: dict[str, bytes | None] = {}
    for checkpoint in reversed(Checkpoints(repository.root, paths.checkpoints_dir()).all()):
        for change in checkpoint.changes.files:
            before.setdefault(change.path, change.before)
    files = ((repository.root / path, path, old) for path, old in before.items())
    now = [FileChange(path, old, file.read_bytes() if file.is_file() else None) for file, path, old in files]
    return change_set("what Khepri has changed", now)


def undo_last(repository: Repository) -> ChangeSet:
    """Take the last change that Khepri made in a repository back, and return what that changed.

    Raises:
        UsageError: There is none.
        EditRefusedError: A file has been changed since; nothing was taken back.
        OSError: The system refused; nothing was taken back.
    """
    # What writes files is imported when it is called: a conversation is shown before.
    from khepri.edits.apply import undo

    checkpoints = Checkpoints(repository.root, paths.checkpoints_dir())
    made = checkpoints.all()
    if not made:
        raise UsageError("Khepri has changed nothing in this repository", "see your own changes: /diff")
    return undo(repository, max(made, key=lambda checkpoint: checkpoint.number), checkpoints)
