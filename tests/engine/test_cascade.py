from collections.abc import Sequence

from khepri.engine.cascade import Cascade
from khepri.engine.draft.drafter import Draft, Drafter
from khepri.engine.horizon import Horizon
from khepri.engine.pass_cost import PassCosts
from khepri.engine.request import DrafterName, DraftMode, Request
from tests.support.decoding import FunctionDrafter

PROMPT = (1, 2, 3)


class CostlyDrafter(Drafter):
    """Proposes a fixed text, and takes ten milliseconds of the clock for each token."""

    name = DrafterName.MODEL
    is_costly = True

    def __init__(self, clock: "Clock") -> None:
        self._clock = clock
        self.asked_for: list[int] = []
        self.calls: list[str] = []
        self.is_closed = False

    def start(self, request: Request) -> None:
        self.tokens = list(request.prompt)

    def commit(self, tokens: Sequence[int]) -> None:
        self.tokens.extend(tokens)

    def propose(self, limit: int, after: Sequence[int] = ()) -> Draft | None:
        self.asked_for.append(limit)
        self._clock.now_s += 0.01 * limit
        return Draft((8,) * limit, self.name)

    def interrupt(self) -> None:
        self.calls.append("interrupt")

    def resume(self) -> None:
        self.calls.append("resume")

    def close(self) -> None:
        self.is_closed = True


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def costs() -> PassCosts:
    """Passes that cost the same whatever their width."""
    table = PassCosts()
    table.measure(lambda rows: 20.0, 0)
    return table


def cascade(guess: Sequence[int], costs: PassCosts) -> tuple[Cascade, FunctionDrafter, CostlyDrafter]:
    clock = Clock()
    suffix, model = FunctionDrafter(lambda tokens: guess), CostlyDrafter(clock)
    return Cascade([suffix, model], Horizon(costs), clock), suffix, model


def test_the_first_drafter_with_a_draft_that_pays_is_taken() -> None:
    asked, _, model = cascade([7, 7], costs())
    asked.start(Request(PROMPT, 50, draft=DraftMode.ALL))
    draft = asked.propose(1, 3, 9)
    assert draft is not None
    assert (draft.drafter, draft.tokens) == (DrafterName.SUFFIX, (7, 7))
    assert model.asked_for == []


def test_the_next_drafter_is_asked_where_the_first_has_nothing() -> None:
    asked, _, model = cascade([], costs())
    asked.start(Request(PROMPT, 50, draft=DraftMode.ALL, gamma=2))
    draft = asked.propose(1, 3, 9)
    assert draft is not None
    assert (draft.drafter, draft.tokens) == (DrafterName.MODEL, (8, 8))
    assert model.asked_for == [2]
    assert asked.horizon.statistics[DrafterName.MODEL].draft_ms == 10.0


def test_only_the_drafters_that_a_request_admits_are_told_and_asked() -> None:
    for mode, told in (
        (DraftMode.OFF, (False, False)),
        (DraftMode.SUFFIX, (True, False)),
        (DraftMode.ALL, (True, True)),
    ):
        asked, suffix, model = cascade([7], costs())
        model.tokens = []
        asked.start(Request(PROMPT, 50, draft=mode, gamma=1))
        assert asked.is_active == any(told)
        asked.commit([4])
        assert (suffix.tokens == [*PROMPT, 4], model.tokens == [*PROMPT, 4]) == told
        assert (asked.propose(1, 3, 9) is not None) == any(told)


def test_without_room_nobody_is_asked() -> None:
    asked, _, model = cascade([7], costs())
    asked.start(Request(PROMPT, 50, draft=DraftMode.ALL, gamma=4))
    assert asked.propose(1, 3, 0) is None
    assert model.asked_for == []


def test_a_draft_that_does_not_pay_is_watched_all_the_same() -> None:
    # With nothing measured, every row of a pass is taken to cost a pass of its own.
    asked, _, _ = cascade([7, 7], PassCosts())
    asked.start(Request(PROMPT, 50))
    before = asked.horizon.alpha(DrafterName.SUFFIX, 4, 1)
    for _ in range(20):
        assert asked.propose(1, 3, 9) is None
        asked.commit([7])
    assert asked.horizon.alpha(DrafterName.SUFFIX, 4, 1) > before


def test_what_was_forced_is_no_evidence_for_a_draft_that_matches_it() -> None:
    asked, _, _ = cascade([7, 7], costs())
    asked.start(Request(PROMPT, 50))
    asked.commit([4, 5, 6, 7, 8], [True, False, True, True, False])
    draft = asked.propose(1, 3, 9)
    assert draft is not None
    # The drafter speaks of a match of four tokens, of which two could have been others.
    assert draft.evidence == 2
    asked.start(Request(PROMPT, 50))
    draft = asked.propose(1, 3, 9)
    assert draft is not None
    assert draft.evidence == 4


def test_interrupt_and_close_reach_every_drafter() -> None:
    asked, suffix, model = cascade([7], costs())
    asked.interrupt()
    asked.resume()
    assert model.calls == ["interrupt", "resume"]
    asked.close()
    assert suffix.is_closed
    assert model.is_closed


def test_a_draft_goes_on_from_what_a_constraint_makes_likely_and_is_its_own_kind() -> None:
    asked, _, _ = cascade([7, 7], costs())
    asked.start(Request(PROMPT, 50, draft=DraftMode.SUFFIX))
    draft = asked.propose(1, 3, 9, likely=(5,))
    assert draft is not None
    assert (draft.drafter, draft.tokens) == (DrafterName.GRAMMAR, (5, 7, 7))
    nothing, _, _ = cascade([], costs())
    nothing.start(Request(PROMPT, 50, draft=DraftMode.SUFFIX))
    alone = nothing.propose(1, 3, 9, likely=(5,))
    assert alone is not None
    assert alone.tokens == (5,)
    assert nothing.propose(1, 3, 9) is None
