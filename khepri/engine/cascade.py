"""Asks the drafters one after another for tokens that are worth a check.

The first drafter of whose draft the horizon finds a token worth it is the one that is checked. What a draft is made of
belongs to the drafters, how much of it pays to the horizon, whether it holds to the target.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from khepri.engine.constrain import Completion
from khepri.engine.draft.drafter import Draft, Drafter
from khepri.engine.horizon import Horizon
from khepri.engine.request import DrafterName, DraftMode, Request

_DRAFTERS = {
    DraftMode.OFF: frozenset[DrafterName](),
    DraftMode.SUFFIX: frozenset({DrafterName.SUFFIX}),
    DraftMode.MODEL: frozenset({DrafterName.MODEL}),
    DraftMode.ALL: frozenset({DrafterName.SUFFIX, DrafterName.MODEL}),
}


Completer = Callable[[Sequence[int], int], Completion]


def as_it_is(tokens: Sequence[int], limit: int) -> Completion:
    """Return a draft as no constraint changes it."""
    return Completion(tuple(tokens[:limit]))


class Cascade:
    """The drafters of one engine, in the order in which they are asked. The engine's thread only."""

    def __init__(self, drafters: Sequence[Drafter], horizon: Horizon, clock: Callable[[], float]) -> None:
        """Ask ``drafters`` in order; ``clock`` returns seconds and only goes forward."""
        self._drafters = drafters
        self._horizon = horizon
        self._clock = clock
        self._active: list[Drafter] = []
        self._was_forced: list[bool] = []

    @property
    def horizon(self) -> Horizon:
        """What chooses gamma."""
        return self._horizon

    @property
    def is_active(self) -> bool:
        """True if there is a drafter that the running generation admits."""
        return bool(self._active)

    def start(self, request: Request) -> None:
        """Begin a generation with the drafters that the request admits."""
        self._active = [drafter for drafter in self._drafters if drafter.name in _DRAFTERS[request.draft]]
        self._was_forced.clear()
        self._horizon.start(request.gamma)
        for drafter in self._active:
            drafter.start(request)

    def commit(self, tokens: Sequence[int], was_forced: Sequence[bool] = ()) -> None:
        """Note tokens that the generation has really produced, in order.

        Args:
            tokens: Token ids.
            was_forced: For each, whether a constraint left no other one; empty if that is true of none.
        """
        self._was_forced += was_forced or [False] * len(tokens)
        if self._active:
            self._horizon.commit(tokens)
        for drafter in self._active:
            drafter.commit(tokens)

    def propose(
        self,
        pending_rows: int,
        depth: int,
        room: int,
        complete: Completer = as_it_is,
        likely: Sequence[int] = (),
    ) -> Draft | None:
        """Return the tokens to check in the next pass, or None if plain decoding is the better bet.

        Args:
            pending_rows: Tokens that the next pass evaluates anyway, at least 1.
            depth: Tokens in the cache.
            room: Most drafted tokens that there is room for.
            complete: Returns what a constraint makes of a draft, of so many tokens at most: what it does not allow is
                left out, what it forces is filled in. A draft that was drawn is not completed, because what is not
                allowed in it has to be refused.
            likely: Tokens that a constraint makes likely to come first: drafts that cost nothing go on from there.
        """
        if room < 1:
            return None
        for drafter in self._active:
            if drafter.is_costly:
                draft = self._bought(drafter, pending_rows, depth, room)
            else:
                draft = self._offered(drafter, pending_rows, depth, room, complete, likely)
            if draft is not None:
                return draft
        return None

    def _offered(
        self,
        drafter: Drafter,
        pending_rows: int,
        depth: int,
        room: int,
        complete: Completer,
        likely: Sequence[int],
    ) -> Draft | None:
        """Let the drafter propose first, as it costs next to nothing, and then decide how much of it to check."""
        most = min(room, self._horizon.most)
        guess = drafter.propose(most, likely)
        if likely:
            guess = Draft((*likely, *(guess.tokens if guess is not None else ())), DrafterName.GRAMMAR)
        completion = complete(guess.tokens, most) if guess is not None else None
        if guess is None or completion is None or not completion.tokens:
            return None
        # That the text matches where it could not be otherwise says nothing for what follows.
        evidence = guess.evidence - sum(self._was_forced[-guess.evidence :]) if guess.evidence else 0
        whole = replace(guess, tokens=completion.tokens, certain=completion.certain, evidence=evidence)
        gamma = self._horizon.choose(
            whole.drafter, whole.evidence, len(whole.tokens), pending_rows, depth, room, certain=whole.certain
        )
        self._horizon.follow(whole, gamma)
        return whole.shortened(gamma) if gamma else None

    def _bought(self, drafter: Drafter, pending_rows: int, depth: int, room: int) -> Draft | None:
        """Decide first how many tokens to check, as proposing them takes passes of the drafter's own."""
        available, setup_ms = self._horizon.most, drafter.setup_ms
        gamma = self._horizon.choose(drafter.name, 0, available, pending_rows, depth, room, setup_ms)
        if not gamma:
            return None
        started_s = self._clock()
        draft = drafter.propose(gamma)
        if draft is None:
            return None
        draft_ms = (self._clock() - started_s) * 1000
        self._horizon.observe_draft(drafter.name, len(draft.tokens), max(0.0, draft_ms - setup_ms), setup_ms)
        self._horizon.follow(draft, len(draft.tokens))
        return draft

    def interrupt(self) -> None:
        """Make the running and every later draft raise ``CancelledError`` until ``resume``. Any thread."""
        for drafter in self._drafters:
            drafter.interrupt()

    def resume(self) -> None:
        """Allow drafts again after ``interrupt``. Any thread."""
        for drafter in self._drafters:
            drafter.resume()

    def close(self) -> None:
        """Free what the drafters hold. Calling it twice is harmless."""
        for drafter in self._drafters:
            drafter.close()
