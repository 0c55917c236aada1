"""The files of a repository as a change sees them: those on the disk, and on top of them what was proposed before.

Steps that build on one another each see what the steps before them made, while nothing is written. What all of them
come to is one change set.
"""

from collections.abc import Mapping

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.files import changed_since, mode_of, read_bytes
from khepri.edits.namespaces import namespace_folders
from khepri.repo.root import Repository


class Workspace:
    """A repository with proposed changes laid over it. One thread; nothing is written."""

    def __init__(self, repository: Repository) -> None:
        """Begin with the files as they are on the disk."""
        self.repository = repository
        self._first: dict[str, bytes | None] = {}
        self._proposed: dict[str, bytes | None] = {}
        self._namespaces: frozenset[str] | None = None

    @property
    def namespaces(self) -> frozenset[str]:
        """The folders that are packages without an ``__init__.py``; looked for once."""
        if self._namespaces is None:
            self._namespaces = namespace_folders(self)
        return self._namespaces

    @property
    def proposed(self) -> Mapping[str, bytes | None]:
        """The proposed content of each file that changes; None for one that goes."""
        return self._proposed

    def files(self) -> tuple[str, ...]:
        """Return the paths of all visible files, new ones included and those that go left out, sorted.

        Raises:
            ToolError: The folder cannot be listed.
        """
        on_disk = self.repository.files()
        if not self._proposed:
            return on_disk
        gone = {path for path, data in self._proposed.items() if data is None}
        new = self._proposed.keys() - gone - set(on_disk)
        return tuple(sorted((*(path for path in on_disk if path not in gone), *new)))

    def read(self, path: str) -> bytes | None:
        """Return the content of a file by its path from the root, links resolved; None if there is none.

        Raises:
            EditRefusedError: It cannot be read.
        """
        return self._proposed[path] if path in self._proposed else read_bytes(self.repository.root / path)

    def take(self, changes: ChangeSet) -> None:
        """Lay a change over the files; it must have been made on what ``read`` returned.

        Raises:
            EditRefusedError: A file on the disk is not what it was then, or cannot be read any more.
        """
        for change in changes.files:
            if self.read(change.path) != change.before:
                assert change.path not in self._proposed, f"{change.path} was changed from something else"
                raise changed_since(self.repository.root / change.path)
            self._first.setdefault(change.path, change.before)
            self._proposed[change.path] = change.after
        self._namespaces = None

    def fork(self) -> "Workspace":
        """Return another one with the same proposals, which go separate ways from here on."""
        forked = Workspace(self.repository)
        forked._first.update(self._first)
        forked._proposed.update(self._proposed)
        forked._namespaces = self._namespaces
        return forked

    def drop(self, path: str) -> None:
        """Forget what was proposed for a file."""
        self._first.pop(path, None)
        self._proposed.pop(path, None)
        self._namespaces = None

    def changes(self, title: str) -> ChangeSet:
        """Return everything that was proposed as one change of the files on the disk."""
        files = [
            FileChange(path, self._first[path], after, mode_of(self.repository.root / path) if after is None else None)
            for path, after in self._proposed.items()
        ]
        return change_set(title, files)
