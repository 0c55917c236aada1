"""Writes a change set into the repository, all of it or nothing, and takes one back.

Order of an apply: look at every file again, write every new content beside its place, keep the checkpoint, then put
one file after the other in place. What fails before the last step has changed nothing; what fails in it is taken back;
a kill in it leaves each file old or new, and a checkpoint that ``undo`` takes back.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.checkpoints import Checkpoint, Checkpoints
from khepri.edits.files import Staged, changed_since, mode_of, read_bytes, remove_leftovers, stage
from khepri.edits.guard import check_place, is_of_git
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.errors import is_disk_full
from khepri.repo.root import Repository
from khepri.repo.text import printable


def apply(repository: Repository, changes: ChangeSet, checkpoints: Checkpoints, now_s: float) -> int:
    """Write ``changes`` and return the number of the checkpoint that takes them back.

    Args:
        repository: Where to write; every path is looked at again for what hides or moves it.
        changes: What to write, with at least one file.
        checkpoints: Where the change is remembered.
        now_s: Seconds since 1970, for the record.

    Raises:
        EditRefusedError: A file has changed since it was read, may not be written, is hidden or lies outside the root,
            the disk is full, or another Khepri is writing. Nothing was changed.
        OSError: The system refused. Nothing was changed.
    """
    assert changes.files, "a change without files was to be applied"
    with _full_disk_told("no file was changed"), checkpoints.locked():
        targets = [_target(repository, change) for change in changes.files]
        changes = _with_modes(changes, targets)
        made: list[Path] = []
        staged: list[Staged] = []
        try:
            for target, change in zip(targets, changes.files, strict=True):
                made += _make_folders(target)
                staged.append(stage(target, change.after, change.mode))
            number = checkpoints.begin(changes, now_s)
            try:
                _commit(staged, changes.files)
            except BaseException as error:
                # What could not be given back stays for `undo`.
                if _are_untouched(targets, changes.files):
                    checkpoints.forget(number)
                elif isinstance(error, OSError) and is_disk_full(error):
                    raise _full_disk(error, f"khepri undo {number} takes back what was changed") from error
                raise
        except BaseException:
            _discard(staged)
            _remove_empty(made)
            raise
        _discard(staged)
        # Without the mark the change counts as broken off, which takes nothing from it.
        with contextlib.suppress(OSError):
            checkpoints.complete(number)
    repository.refresh()
    return number


def undo(repository: Repository, checkpoint: Checkpoint, checkpoints: Checkpoints) -> ChangeSet:
    """Give every file of a checkpoint the content that it had before, and forget the checkpoint.

    Returns:
        What was changed by it; a file that already has its old content is not among it.

    Raises:
        EditRefusedError: A file is neither what the change left nor what was there before: it has been changed since.
            Or the disk is full. Nothing was taken back.
        OSError: The system refused; nothing was taken back.
    """
    with _full_disk_told("nothing was taken back"), checkpoints.locked():
        back = reverse(repository, checkpoint)
        targets = [_target(repository, change) for change in back.files]
        staged: list[Staged] = []
        made: list[Path] = []
        try:
            for target, change in zip(targets, back.files, strict=True):
                made += _make_folders(target)
                staged.append(stage(target, change.after, change.mode))
            _commit(staged, back.files)
        except BaseException:
            _discard(staged)
            _remove_empty(made)
            raise
        _discard(staged)
        with _full_disk_told("the files are taken back all the same"):
            checkpoints.mark_undone(checkpoint.number)
    for target in targets:
        _remove_empty_parents(target.parent, repository.root)
    repository.refresh()
    return back


def reverse(repository: Repository, checkpoint: Checkpoint) -> ChangeSet:
    """Return what takes a checkpoint back, as the files are now.

    Raises:
        EditRefusedError: A file has been changed since.
    """
    back = []
    for change in checkpoint.changes.files:
        current = read_bytes(_place(repository, change.path))
        if current == change.before:
            continue
        if current != change.after:
            happened = "is gone" if current is None else "has been changed"
            raise EditRefusedError(
                Refusal.CHANGED_ON_DISK,
                f"{printable(change.path)} {happened} since change {checkpoint.number} was applied; "
                "nothing was taken back",
                f"take your later changes back first, or work with the patch: "
                f"khepri undo {checkpoint.number} --dry-run | git apply",
            )
        back.append(FileChange(change.path, current, change.before, change.mode))
    return change_set(f"undo {checkpoint.changes.title}", back)


@contextlib.contextmanager
def _full_disk_told(kept: str) -> Iterator[None]:
    """Refuse a change for which the disk has no room, in words of which file it was."""
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            raise _full_disk(error, kept) from error
        raise


def _full_disk(error: OSError, kept: str) -> EditRefusedError:
    place = printable(str(error.filename2 or error.filename))
    return EditRefusedError(
        Refusal.DISK_FULL,
        f"the disk is full: {place} cannot be written ({error.strerror}); {kept}",
        "free some space and do it again",
    )


def _commit(staged: Sequence[Staged], files: Sequence[FileChange]) -> None:
    """Put every file in its place; when one fails, give those before it back what they had."""
    done: list[tuple[Path, FileChange]] = []
    try:
        for each, change in zip(staged, files, strict=True):
            # Noted before it is done: what fails may have been done all the same.
            done.append((each.target, change))
            each.commit(change.before)
    except BaseException:
        for target, change in reversed(done):
            # A file that cannot be given back has its content in the checkpoint.
            with contextlib.suppress(OSError, EditRefusedError):
                _give_back(target, change)
        raise


def _give_back(target: Path, change: FileChange) -> None:
    if read_bytes(target) != change.after:
        return
    staged = stage(target, change.before, change.mode)
    try:
        staged.commit(change.after)
    finally:
        staged.discard()


def _discard(staged: Sequence[Staged]) -> None:
    for each in staged:
        each.discard()


def _are_untouched(targets: Sequence[Path], files: Sequence[FileChange]) -> bool:
    try:
        return all(read_bytes(target) == change.before for target, change in zip(targets, files, strict=True))
    except EditRefusedError:
        return False


def _target(repository: Repository, change: FileChange) -> Path:
    """Return the real path to write, after every reason not to was looked for."""
    target = _place(repository, change.path)
    remove_leftovers(target.parent, is_locked=True)
    if read_bytes(target) != change.before:
        raise changed_since(target)
    if change.before is not None:
        mode = os.stat(target).st_mode
        if not mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH) or not os.access(target, os.W_OK):
            raise EditRefusedError(
                Refusal.READ_ONLY,
                f"{printable(change.path)} is read-only",
                "make it writable (chmod u+w) and ask again",
            )
    return target


def _with_modes(changes: ChangeSet, targets: Sequence[Path]) -> ChangeSet:
    """Note the permission bits of every file that goes, for the day on which it comes back."""
    files = [
        replace(change, mode=mode_of(target)) if change.after is None else change
        for target, change in zip(targets, changes.files, strict=True)
    ]
    return change_set(changes.title, files)


def _place(repository: Repository, path: str) -> Path:
    """Return the real path of a file that may be changed or made.

    Raises:
        EditRefusedError: It lies outside the root, or is hidden.
    """
    real = Path(os.path.realpath(repository.root / path))
    if not real.is_relative_to(repository.root) or real == repository.root:
        raise EditRefusedError(
            Refusal.OUTSIDE, f"{printable(path)} is outside the repository", "name a path from the repository's root"
        )
    relative = repository.relative(real)
    if is_of_git(relative):
        raise EditRefusedError(Refusal.HIDDEN, f"{printable(path)} belongs to git and is never written")
    check_place(relative)
    if repository.is_hidden(relative) or repository.is_hidden(path):
        raise EditRefusedError(
            Refusal.HIDDEN, f"{printable(path)} is never written: it may hold secrets, or .khepriignore hides it"
        )
    return real


def _make_folders(target: Path) -> list[Path]:
    """Make the folders above a new file; return those that were made, the outermost first."""
    missing = []
    folder = target.parent
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        each.mkdir()
    return missing[::-1]


def _remove_empty(folders: Sequence[Path]) -> None:
    for folder in reversed(folders):
        with contextlib.suppress(OSError):
            folder.rmdir()


def _remove_empty_parents(folder: Path, root: Path) -> None:
    while folder != root and folder.is_relative_to(root):
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent
