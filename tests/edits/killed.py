"""Applies or takes back a change in a process of its own, and dies at a given system call. Run by the tests."""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

from khepri.edits.apply import apply, undo
from khepri.edits.change import FileChange, change_set
from khepri.edits.checkpoints import Checkpoints
from khepri.repo.root import Repository

WRITING = ("open", "replace", "link", "unlink", "fsync", "mkdir", "fchmod")
"""What an apply changes the disk with."""


def main() -> None:
    root, state, deadly_call, is_undo = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "undo"
    repository = Repository.open(root)
    changes = change_set(
        "all",
        [
            FileChange("a.py", b"old a\n", b"new a\n"),
            FileChange("b.py", b"old b\r\n", b"new b\r\n"),
            FileChange("made/c.py", None, b"new c\n"),
            FileChange("gone.py", b"old d\n", None),
        ],
    )
    checkpoints = Checkpoints(repository.root, state)
    calls = 0

    def deadly(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **keywords: object) -> object:
            nonlocal calls
            calls += 1
            if calls == deadly_call:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments, **keywords)

        return call

    for name in WRITING:
        setattr(os, name, deadly(getattr(os, name)))
    if is_undo:
        undo(repository, checkpoints.all()[0], checkpoints)
    else:
        apply(repository, changes, checkpoints, 0.0)


if __name__ == "__main__":
    main()
