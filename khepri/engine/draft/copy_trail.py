"""Follows a text that is copied with changes: past each change, and with the changes that were seen before.

A match of the end of the text is lost at every token that the model puts in another's place, just when a function is
edited. The trail remembers where the copy came from, looks for the place where it goes on, and expects that what was
replaced once is replaced again.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

Read = Callable[[int, int], list[int]]
"""Returns tokens of the source: from a position (first argument) on, at most so many (second)."""

MOST_REPLACEMENTS: Final = 16
"""Replacements that are remembered, the latest ones."""
LONGEST_REPLACEMENT: Final = 6
"""Tokens on either side of a replacement that is remembered: names and numbers, not rewritten lines."""
_REACH_TOKENS: Final = 48
"""How far behind the place where the copy was left its continuation is looked for. While no more than this was put in,
one token of the source is enough to guess that it goes on there."""
_LONGEST_CHANGE_TOKENS: Final = 320
"""So much may be put in between, a docstring or a new branch, before what follows counts as another text."""
_BACK_TOKENS: Final = 2
"""A line that is put in ends like the line before it, so that the source goes on where it was left."""
_RESUMED_EVIDENCE: Final = 3
"""What one token of the source after a change is worth: such a guess holds as often as a match of three tokens."""
_PROVEN_TOKENS: Final = 16
"""Who has copied so many tokens is copying; fewer may be a phrase that happened to come again."""
_SURE_TOKENS: Final = 2
"""Tokens of the source in a row that make it certain that a change is over."""


class Replacements:
    """What was put in the place of what, the latest first to be believed. Belongs to one thread."""

    def __init__(self) -> None:
        self._new: dict[tuple[int, ...], tuple[int, ...]] = {}

    def learn(self, old: Sequence[int], new: Sequence[int]) -> None:
        """Remember that ``new`` stands for ``old``, if both are short and not empty."""
        if 0 < len(old) <= LONGEST_REPLACEMENT and 0 < len(new) <= LONGEST_REPLACEMENT:
            self._new.pop(tuple(old), None)
            self._new[tuple(old)] = tuple(new)
            if len(self._new) > MOST_REPLACEMENTS:
                del self._new[next(iter(self._new))]

    def forget(self, old: Sequence[int]) -> None:
        """Expect nothing in the place of ``old`` any more."""
        self._new.pop(tuple(old), None)

    def find(self, source: Sequence[int], start: int = 0) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return the longest known (old, new) whose old stands in ``source`` at ``start``."""
        best = None
        for old, new in self._new.items():
            if tuple(source[start : start + len(old)]) == old and (best is None or len(old) > len(best[0])):
                best = old, new
        return best


class Guess(NamedTuple):
    """What follows if the copy goes on."""

    tokens: list[int]
    """Token ids, perhaps none."""
    evidence: int
    """How sure that is: as sure as a match of so many tokens."""


class _Resumption(NamedTuple):
    """A place where the source may go on, and how many of its tokens before it were just copied."""

    position: int
    copied: int


class CopyTrail:
    """Where in a source the text goes on, while it copies that source. Belongs to one thread.

    Attributes:
        copied: Tokens of the source in a row, up to the last change, those of the match it began with included.
        most_copied: The same, before any of the changes.
    """

    def __init__(
        self, read: Read, position: int, copied: int, replacements: Replacements, text_end: int | None = None
    ) -> None:
        """Begin where a match goes on.

        Args:
            read: The source.
            position: Where it goes on after the match.
            copied: Tokens of the match.
            replacements: What is known of the changes, and where to note more.
            text_end: Where the next token of the text will stand in the source, if the text copies itself; None if the
                source is another one.
        """
        self.copied = self.most_copied = copied
        self._read = read
        self._position = position
        self._replacements = replacements
        self._text_end = text_end
        self._changed: list[int] = []

    @property
    def is_changing(self) -> bool:
        """True from the first token that is not the source's until it is certain where the copy goes on."""
        return bool(self._changed)

    @property
    def is_lost(self) -> bool:
        """True if so much was put in that the text is no copy any more."""
        return len(self._changed) > _LONGEST_CHANGE_TOKENS

    def commit(self, token: int) -> None:
        """Note the next token of the text."""
        if self._text_end is not None:
            self._text_end += 1
        if not self._changed:
            ahead = self._read(self._position, LONGEST_REPLACEMENT)
            if ahead[:1] == [token]:
                expected = self._replacements.find(ahead)
                if expected is not None:
                    self._replacements.forget(expected[0])
                self._position += 1
                self.copied += 1
                self.most_copied = max(self.most_copied, self.copied)
                return
        self._changed.append(token)
        self._settle()

    def propose(self, limit: int) -> Guess:
        """Return at most ``limit`` tokens that follow if the copy goes on; none if nobody knows where."""
        if not self._changed:
            return Guess(self._copy(self._position, limit), self.copied)
        expected = self._expected()
        if expected is not None:
            old, new = expected
            rest = list(new[len(self._changed) :])
            return Guess((rest + self._copy(self._position + len(old), limit))[:limit], self.copied)
        resumption = self._resumption()
        if resumption is None or len(self._changed) > _REACH_TOKENS:
            return Guess([], 0)
        is_likely = resumption.copied and self.most_copied >= _PROVEN_TOKENS
        evidence = _RESUMED_EVIDENCE if is_likely else 1
        return Guess(self._copy(resumption.position, limit), evidence)

    def _settle(self) -> None:
        """End the change if it is a known one, or if the source goes on for certain."""
        expected = self._expected()
        if expected is not None:
            old, new = expected
            if len(new) == len(self._changed):
                self._position += len(old)
                self.copied += len(new)
                self.most_copied = max(self.most_copied, self.copied)
                self._changed.clear()
            return
        resumption = self._resumption()
        if resumption is not None and resumption.copied >= _SURE_TOKENS:
            gap = resumption.position - resumption.copied - self._position
            if gap > 0:
                self._replacements.learn(self._read(self._position, gap), self._changed[: -resumption.copied])
            self._position, self.copied = resumption
            self.most_copied = max(self.most_copied, self.copied)
            self._changed.clear()

    def _expected(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Return the known replacement that the change looks like so far."""
        found = self._replacements.find(self._read(self._position, LONGEST_REPLACEMENT))
        if found is None or list(found[1][: len(self._changed)]) != self._changed:
            return None
        return found

    def _resumption(self) -> _Resumption | None:
        """Return where the source most probably goes on after the change."""
        changed = self._changed
        start = max(0, self._position - _BACK_TOKENS)
        reach = self._position - start + _REACH_TOKENS
        if self._text_end is not None:  # the change itself is no place to go on from
            reach = max(0, min(reach, self._text_end - len(changed) - start))
        window = self._read(start, reach)
        best, best_key = None, (0, 0)
        for index, token in enumerate(window):
            if token != changed[-1]:
                continue
            copied = 1
            while copied < min(len(changed), index + 1) and window[index - copied] == changed[-1 - copied]:
                copied += 1
            position = start + index + 1
            key = (copied, -abs(position - self._position - 1))
            if best is None or key > best_key:
                best, best_key = _Resumption(position, copied), key
        if best is None and len(changed) == 1:
            return _Resumption(self._position + 1, 0)
        return best

    def _copy(self, position: int, limit: int) -> list[int]:
        """Return ``limit`` tokens of the source, with the known replacements made."""
        source = self._read(position, limit + LONGEST_REPLACEMENT)
        copy: list[int] = []
        index = 0
        while index < len(source) and len(copy) < limit:
            found = self._replacements.find(source, index)
            if found is None:
                copy.append(source[index])
                index += 1
            else:
                copy.extend(found[1])
                index += len(found[0])
        return copy[:limit]
