"""A suffix automaton over token ids that grows with a conversation.

It knows, after every token, the longest end of the text that was there before, where it was last, and what followed
how often. What is done with that is decided in ``suffix.py``.

References:
    Blumer et al., "The smallest automaton recognizing the subwords of a text", 1985.
    Hu et al., "SAM Decoding: Speculative Decoding via Suffix Automaton", 2024.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

MOST_UPDATES: Final = 32
"""Ends of the text, the longest first, whose latest place and count are brought up to date by each token. A text of one
repeated token has as many ends as tokens; without a bound it would cost quadratic time."""
_ROOT: Final = 0
_NONE: Final = -1


class Match(NamedTuple):
    """The longest end of the text that also stands earlier in it."""

    length: int
    """Its tokens; 0 if the last token is new."""
    follows: int
    """Index in the text of the token after the latest earlier place."""


class Successor(NamedTuple):
    """A token that followed a match."""

    token: int
    occurrences: int
    """How often it did."""
    position: int
    """Index in the text of its latest place."""


class SuffixAutomaton:
    """All that occurs in a growing text, as a minimal automaton. Belongs to one thread.

    A token costs a few microseconds, amortised, and some 600 bytes. Nothing can be taken back; begin anew for that.

    Attributes:
        tokens: The text so far. Read it; ``push`` alone may extend it.
    """

    __slots__ = ("_count", "_earlier", "_end", "_latest", "_length", "_link", "_match", "_next", "tokens")

    def __init__(self, tokens: Iterable[int] = ()) -> None:
        self.tokens: list[int] = []
        # A state is a set of substrings that end at the same places; the longest one's length is the state's.
        self._next: list[dict[int, int]] = [{}]
        self._link = [_NONE]
        self._length = [0]
        self._latest = [_NONE]
        self._count = [0]
        self._end = self._earlier = _ROOT
        self._match = Match(0, 0)
        self.extend(tokens)

    def extend(self, tokens: Iterable[int]) -> None:
        """Append ``tokens``, in order."""
        for token in tokens:
            self.push(token)

    def push(self, token: int) -> None:
        """Append one token."""
        transitions, link, length, latest = self._next, self._link, self._length, self._latest
        index = len(self.tokens)
        self.tokens.append(token)
        end = self._add({}, _ROOT, index + 1, index, 1)
        state = self._end
        while state != _NONE and token not in transitions[state]:
            transitions[state][token] = end
            state = link[state]
        if state != _NONE:
            target = transitions[state][token]
            if length[target] != length[state] + 1:
                target = self._split(state, token, target)
            link[end] = target
        self._end, self._earlier = end, link[end]
        self._match = Match(length[self._earlier], latest[self._earlier] + 1)
        self._count_end(index)

    @property
    def match(self) -> Match:
        """The longest end of the text that was there before."""
        return self._match

    def successors(self) -> list[Successor]:
        """Return what has followed the match so far, in the order in which it first came."""
        if not self._match.length:
            return []
        return self._successors(self._earlier)

    def after(self, tokens: Iterable[int]) -> tuple[Match, list[Successor]]:
        """Return the match and its successors as they would be if ``tokens`` came next; the text stays as it is."""
        state, length = self._earlier, self._match.length
        for token in tokens:
            while state != _NONE and token not in self._next[state]:
                state = self._link[state]
                length = self._length[state] if state != _NONE else 0
            if state == _NONE:
                state, length = _ROOT, 0
            else:
                state, length = self._next[state][token], length + 1
        return Match(length, self._latest[state] + 1), self._successors(state) if length else []

    def _successors(self, state: int) -> list[Successor]:
        return [Successor(token, self._count[at], self._latest[at]) for token, at in self._next[state].items()]

    def _add(self, transitions: dict[int, int], link: int, length: int, latest: int, count: int) -> int:
        self._next.append(transitions)
        self._link.append(link)
        self._length.append(length)
        self._latest.append(latest)
        self._count.append(count)
        return len(self._length) - 1

    def _split(self, state: int, token: int, target: int) -> int:
        """Part the short substrings of ``target``, which from now on also end here, from the long ones."""
        transitions, link = self._next, self._link
        short = self._add(
            transitions[target].copy(),
            link[target],
            self._length[state] + 1,
            self._latest[target],
            self._count[target],
        )
        link[target] = short
        while state != _NONE and transitions[state].get(token) == target:
            transitions[state][token] = short
            state = link[state]
        return short

    def _count_end(self, index: int) -> None:
        link, latest, count = self._link, self._latest, self._count
        state = self._earlier
        for _ in range(MOST_UPDATES):
            if state == _ROOT:
                return
            latest[state] = index
            count[state] += 1
            state = link[state]
