"""The suffix drafter: what followed the last time, in this conversation or in the repository.

Nothing is learned from weights and nothing is evaluated, so that a draft costs microseconds.

References:
    Oliaro et al., "SuffixDecoding: Extreme Speculative Decoding for Emerging AI Applications", 2024.
    Hu et al., "SAM Decoding: Speculative Decoding via Suffix Automaton", 2024.
"""

from collections.abc import Callable, Sequence
from typing import Final

from khepri.engine.draft.copy_trail import CopyTrail, Guess, Replacements
from khepri.engine.draft.drafter import Draft, Drafter
from khepri.engine.draft.repository_index import DEPTH_TOKENS, RepositoryIndex
from khepri.engine.draft.suffix_automaton import SuffixAutomaton
from khepri.engine.request import DrafterName, Request

_CERTAIN_TOKENS: Final = 16
"""A match in the conversation of so many tokens holds nearly always; the repository is not asked for a longer one."""
_LEAST_TRAIL_TOKENS: Final = 8
"""A shorter match is no copy whose place would be worth remembering past a change."""
_CHANCE_TOKENS: Final = 3
"""In millions of tokens, matches are longer by chance: one in the repository is worth so many tokens less than one in
the conversation."""
_STRANGE_TOKENS: Final = 4
"""While a copy is being changed, a match of more tokens than this shows that the text goes on elsewhere."""


class SuffixDrafter(Drafter):
    """Proposes what followed the longest match of the end of the text. One thread.

    The conversation is asked first; the repository's match has to be longer. Among the continuations of a match the
    most frequent wins, of equals the latest. A source that is copied is followed past its changes, see ``CopyTrail``.

    A prompt costs 3 ms for each thousand tokens that are new, a committed token some microseconds, a draft about 0.1 ms
    and about 0.2 ms more when the repository is asked.
    """

    def __init__(self, repository: Callable[[], RepositoryIndex | None] = lambda: None) -> None:
        """Begin with nothing seen.

        Args:
            repository: Returns the index of the repository as it is now, or None while there is none. Asked for every
                draft.
        """
        self._repository = repository
        self._seen = SuffixAutomaton()
        self._replacements = Replacements()
        self._trail: CopyTrail | None = None

    @property
    def name(self) -> DrafterName:
        """Who this is."""
        return DrafterName.SUFFIX

    def start(self, request: Request) -> None:
        """Begin a generation; of a prompt that extends the text so far, only the rest is read."""
        prompt, known = request.prompt, len(self._seen.tokens)
        if list(prompt[:known]) == self._seen.tokens:
            self._seen.extend(prompt[known:])
            self._trail = None
        else:
            self.close()
            self._seen.extend(prompt)

    def commit(self, tokens: Sequence[int]) -> None:
        """Note tokens that the generation has really produced, in order."""
        for token in tokens:
            self._seen.push(token)
            if self._trail is not None:
                self._trail.commit(token)
                if self._trail.is_lost or (self._trail.is_changing and self._trail.most_copied < _LEAST_TRAIL_TOKENS):
                    self._trail = None

    def propose(self, limit: int, after: Sequence[int] = ()) -> Draft | None:
        """Return at most ``limit`` tokens that followed a place like this one, or None if there was none.

        The draft's evidence is the length of the match, or what comes up to it after a change in a copy. What would
        come after tokens that are not there yet is looked for in the conversation only.
        """
        if after:
            return self._after(after, limit)
        length = self._seen.match.length
        if self._trail is not None and length <= self._strange_length(self._trail):
            guess = self._trail.propose(limit)
            if guess.evidence >= _CERTAIN_TOKENS and guess.tokens:
                return _draft(guess)
        else:
            guess = Guess([], 0)
        from_repository = self._from_repository(max(length, guess.evidence), limit)
        if from_repository is not None:
            return _draft(from_repository)
        if guess.tokens:
            return _draft(guess)
        return _draft(self._from_conversation(limit)) if length else None

    def interrupt(self) -> None:
        """Do nothing: no draft takes time."""

    def resume(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Forget everything. Calling it twice is harmless."""
        self._seen = SuffixAutomaton()
        self._replacements = Replacements()
        self._trail = None

    def _after(self, tokens: Sequence[int], limit: int) -> Draft | None:
        match, successors = self._seen.after(tokens)
        if not successors:
            return None
        best = max(successors, key=lambda each: (each.occurrences, each.position))
        return _draft(Guess(self._seen.tokens[best.position : best.position + limit], match.length))

    def _from_conversation(self, limit: int) -> Guess:
        best = max(self._seen.successors(), key=lambda each: (each.occurrences, each.position))
        seen = self._seen
        trail = CopyTrail(self._read, best.position, seen.match.length, self._replacements, len(seen.tokens))
        self._follow(trail)
        return trail.propose(limit)

    def _from_repository(self, shorter: int, limit: int) -> Guess | None:
        """Return what the repository says, if its match is longer than ``shorter``."""
        index = self._repository() if shorter < _CERTAIN_TOKENS else None
        if index is None:
            return None
        found = index.follow(self._seen.tokens[-DEPTH_TOKENS:], limit)
        if found is None or found.match - _CHANCE_TOKENS <= shorter:
            return None
        trail = CopyTrail(index.read, found.position, found.match - _CHANCE_TOKENS, self._replacements)
        self._follow(trail)
        # Where the occurrences part, the draft ends.
        return trail.propose(len(found.tokens))

    def _follow(self, trail: CopyTrail) -> None:
        """Follow a new source, unless a change in the one before may still end."""
        if self._trail is None or not self._trail.is_changing or trail.copied > _STRANGE_TOKENS:
            self._trail = trail

    def _strange_length(self, trail: CopyTrail) -> int:
        """Return the longest match that does not speak against ``trail``."""
        return _STRANGE_TOKENS if trail.is_changing else trail.copied

    def _read(self, position: int, count: int) -> list[int]:
        """Return tokens of the conversation; a copy that reaches its own end goes on with its beginning."""
        tokens = self._seen.tokens[position : position + count]
        while tokens and len(tokens) < count:
            tokens += tokens[: count - len(tokens)]
        return tokens


def _draft(guess: Guess) -> Draft:
    return Draft(tuple(guess.tokens), DrafterName.SUFFIX, guess.evidence)
