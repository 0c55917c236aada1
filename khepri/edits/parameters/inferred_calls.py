"""Tells which calls behind a dot are of a method, or of one that overrides it, by what jedi infers of the object."""

from collections.abc import Collection, Iterator
from functools import cached_property

from khepri.edits.locate import Source, Target, read_source
from khepri.edits.python.calls import Call, calls_of
from khepri.edits.python.class_relations import Class
from khepri.edits.python.families import family_of
from khepri.edits.python.inference import Inference
from khepri.edits.python.signature import Definition
from khepri.edits.workspace import Workspace


class InferredCalls:
    """The calls of one method; of what is no method, nothing is inferred. One thread; for one refactoring."""

    def __init__(self, workspace: Workspace, target: Target, inference: Inference) -> None:
        """Say whose calls they are; nothing is read."""
        self._workspace, self._target, self._inference = workspace, target, inference

    @cached_property
    def _owners(self) -> set[Class]:
        if not Definition(self._target).is_method:
            return set()
        return {Class(each.path, each.symbol.rpartition(".")[0]) for each in family_of(self._workspace, self._target)}

    def is_meant(self, path: str, text: str, end: int) -> bool | None:
        """Tell if a call is one of them; None if nobody knows.

        Args:
            path: A Python file.
            text: What is proposed for it, line by line.
            end: Where the name of what is called ends in that text, in characters.
        """
        if not self._owners:
            return None
        return self._inference.is_member_of(self._owners, path, text, end, self._target.name)

    def behind_dots(self) -> Iterator[tuple[Source, Call]]:
        """Yield the calls of whatever has that name behind a dot."""
        name = self._target.name
        for path in self._workspace.files():
            if path.endswith(".py") and name.encode() in (self._workspace.read(path) or b""):
                source = read_source(self._workspace, path)
                yield from ((source, call) for call in calls_of(source.text, name) if call.is_method)

    def found(self, besides: Collection[tuple[str, int]]) -> set[tuple[str, int]]:
        """Return path and bracket of those that are of the method or of one that overrides it, besides known ones."""
        return {
            (source.path, call.opening)
            for source, call in self.behind_dots()
            if (source.path, call.opening) not in besides and self.is_meant(source.path, source.text, call.end)
        }
