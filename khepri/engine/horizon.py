"""How many drafted tokens are worth a check: gamma, chosen at every step and for every drafter.

A wider pass costs more on a CPU, so a draft is worth what it is likely to bring for each millisecond. The cost comes
from the table of passes, the likelihood from what followed earlier drafts with the same evidence. What a draft is made
of, and whether a token is kept, is decided elsewhere; there are no clocks and no chance in here.

References:
    Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023, section 3: with an acceptance
    alpha that is the same everywhere, a pass brings (1 - alpha^(gamma+1)) / (1 - alpha) tokens. Here alpha differs by
    position, so the sum is written out.
    Liu et al., "Optimizing Speculative Decoding for Serving Large Language Models Using Goodput", 2024: gamma is what
    maximises committed tokens per time, with gamma = 0 among the choices.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from khepri.engine.draft.drafter import Draft
from khepri.engine.pass_cost import PassCosts
from khepri.engine.request import DrafterName

# A draft has to promise this much more than plain decoding, as costs and acceptance are known to a few per cent only.
_MARGIN = 0.12
# Of widths that promise nearly as much, within this share, the narrowest is taken: less is lost if the draft is wrong.
_FLAT = 0.07
# A pass of more than so many times what it takes without a draft is a stutter if it commits one token; so the first
# token of such a draft has to be at least so likely.
_STUTTER = 1.4
_LIKELY_FIRST = 0.7
# How many drafts an estimate remembers, and how many its expectation counts for before the first of them.
_MEMORY_DRAFTS = 12.0
_PRIOR_DRAFTS = 4.0
# What the position before counts for, in outcomes, where a position has few of its own.
_CHAIN_OUTCOMES = 2.0
# What is expected of a match of 1, 2, 3-4, 5-8, 9-16 and more tokens, and of a drafter that has no evidence.
_SUFFIX_PRIORS = (0.2, 0.35, 0.5, 0.65, 0.85, 0.95)
_OTHER_PRIOR = 0.7
# So many tokens at most are checked of a kind of draft that was never followed: the expectation may be wrong, and a
# wide pass for nothing costs as much as many narrow ones.
_FIRST_REACH = 4
_DRAFT_COSTS_KEPT = 5
# A drafter that seems not to pay is tried for this share of the time, saved up for one trial at most; the first one is
# given in advance. A trial is a few steps in a row, because in the first of them the drafter has to catch up.
_TRIAL_SHARE = 0.01
_TRIAL_SAVINGS_PASSES = 3.0
_TRIAL_STEPS = 3
_TRIAL_GAMMA = 4


@dataclass(frozen=True)
class DrafterStatistics:
    """What came of one drafter's drafts so far."""

    asked: int
    """How often its gamma was chosen."""
    drafted: int
    """Tokens that were checked."""
    accepted: int
    """Those of them that held."""
    alpha: tuple[float, ...]
    """What is now estimated for each position, over all evidence: the chance of that token if all before it held. As
    many positions as were seen lately."""
    draft_ms: float | None
    """What drafting one token costs in milliseconds, d in the papers; None if it was not measured."""

    @property
    def mean_gamma(self) -> float:
        """The mean number of tokens that were checked when it was asked."""
        return self.drafted / self.asked if self.asked else 0.0

    @property
    def acceptance(self) -> float | None:
        """The share of the checked tokens that held; None without any."""
        return self.accepted / self.drafted if self.drafted else None


class Horizon:
    """Chooses gamma and learns from what followed. Belongs to the thread that decodes.

    It lives as long as the model: what one answer taught holds for the next. A step of the loop is ``choose``, then
    ``follow`` for every draft that there is (checked or not), then ``commit``; each takes well under a millisecond.
    """

    def __init__(self, costs: PassCosts, most: int = 32) -> None:
        """Choose by ``costs``, which the loop keeps up to date, and never more than ``most`` tokens."""
        self._costs = costs
        self._gamma: int | None = None
        self._most = most
        self._learners: dict[DrafterName, _Learner] = {}
        self._open: list[_Followed] = []
        self._step: _Step | None = None
        self._savings_passes = _TRIAL_SAVINGS_PASSES
        self._trial_steps_left = 0

    @property
    def most(self) -> int:
        """The largest gamma that can be chosen."""
        return self._most

    def start(self, gamma: int | None = None) -> None:
        """Begin a generation; drafts that nothing followed are forgotten, what was learnt is not.

        Args:
            gamma: None lets the horizon choose; a number is obeyed as far as there are tokens and room.
        """
        self._gamma = gamma
        self._open.clear()
        self._step = None
        for learner in self._learners.values():
            learner.missed_ms = 0.0

    def choose(
        self,
        drafter: DrafterName,
        evidence: int,
        available: int,
        pending_rows: int,
        depth: int,
        room: int,
        setup_ms: float = 0.0,
        certain: Sequence[bool] = (),
    ) -> int:
        """Return how many tokens of a draft are worth a check; 0 if plain decoding is the better bet.

        A drafter whose drafts cost time is asked for after this, for as many tokens as were chosen.

        Args:
            drafter: Who proposes.
            evidence: What speaks for the draft, as in ``Draft``.
            available: Tokens that are proposed, or can be.
            pending_rows: Rows that the next pass evaluates anyway, at least 1.
            depth: Tokens in the cache.
            room: Most drafted tokens that the pass, the context and the answer have room for.
            setup_ms: What the drafter would spend once before its first token. How long it would be used afterwards
                is unknown, so it is spent as soon as as much was lost by doing without: never more than twice the best
                that could have been done (the ski rental problem).
            certain: As in ``Draft``: such a token holds whenever those before it do.
        """
        learner = self._learner(drafter)
        learner.asked += 1
        self._step = self._step or _Step(pending_rows, depth)
        most = max(0, min(available, room, self._most))
        if self._gamma is not None or most == 0:
            return min(self._gamma or 0, most)
        is_certain = [*certain[:most], *[False] * (most - len(certain))]
        most = _reaching(learner.estimate(evidence).reach, is_certain)
        rates = self._rates(drafter, evidence, is_certain[:most], self._step)
        # What is forced behind the last guess gains nothing by being drafted, and is lost if the guess is wrong.
        ends = [gamma for gamma in range(most + 1) if gamma == 0 or not is_certain[gamma - 1]]
        if self.alpha(drafter, evidence, 1)[0] < _LIKELY_FIRST:
            longest_ms = _STUTTER * self._costs.cost_ms(pending_rows, depth)
            ends = [gamma for gamma in ends if self._costs.cost_ms(pending_rows + gamma, depth) <= longest_ms]
        best_rate = max(rates[gamma] for gamma in ends)
        best = next(gamma for gamma in ends if rates[gamma] >= (1.0 - _FLAT) * best_rate)
        if rates[best] > (1.0 + _MARGIN) * rates[0]:
            learner.missed_ms += 1.0 / rates[0] - 1.0 / rates[best]
            if learner.missed_ms < setup_ms:
                return 0
            learner.missed_ms = 0.0
            return best
        if drafter is DrafterName.MODEL and self._begins_trial():
            self._step.is_trial = True
            return max(range(1, min(most, _TRIAL_GAMMA) + 1), key=rates.__getitem__)
        return 0

    def observe_draft(self, drafter: DrafterName, tokens: int, ms: float, setup_ms: float = 0.0) -> None:
        """Note that drafting ``tokens`` tokens took ``ms``, and what had to be done before them ``setup_ms``."""
        if tokens > 0:
            self._learner(drafter).costs_ms.append(ms / tokens)
        if self._step is not None:
            self._step.draft_ms += ms + setup_ms

    def follow(self, draft: Draft, checked: int) -> None:
        """Watch what ``commit`` is told from now on, and learn from it about every token of ``draft``.

        A draft that is there anyway thus teaches for nothing, also if none or only a part of it is checked.

        Args:
            draft: The whole draft, as it was before it was shortened.
            checked: How many of its tokens the next pass checks.
        """
        learner = self._learner(draft.drafter)
        learner.drafted += draft.guessed(checked)
        if self._step is not None:
            self._step.checked += checked
        self._open.append(_Followed(draft, checked, learner, learner.estimate(draft.evidence)))

    def commit(self, tokens: Sequence[int]) -> None:
        """Note the tokens that the generation has really produced, in order, whoever proposed them."""
        for token in tokens:
            self._open = [followed for followed in self._open if followed.goes_on_with(token)]
        if self._step is not None:
            self._settle(self._step, len(tokens))
            self._step = None

    def alpha(self, drafter: DrafterName, evidence: int, positions: int) -> list[float]:
        """Return what is estimated for the first ``positions`` tokens of such a draft.

        Each value is the chance of that token if all before it held.
        """
        return self._learner(drafter).estimate(evidence).alpha(positions)

    @property
    def statistics(self) -> dict[DrafterName, DrafterStatistics]:
        """What came of each drafter that was asked or followed; a copy that another thread may keep."""
        return {name: learner.statistics() for name, learner in self._learners.items()}

    def _learner(self, drafter: DrafterName) -> "_Learner":
        if drafter not in self._learners:
            self._learners[drafter] = _Learner(_SUFFIX_PRIORS if drafter is DrafterName.SUFFIX else (_OTHER_PRIOR,))
        return self._learners[drafter]

    def _rates(self, drafter: DrafterName, evidence: int, is_certain: Sequence[bool], step: "_Step") -> list[float]:
        """Return E / (c(pending + gamma) + gamma d), the expected tokens per millisecond, for each gamma from 0 on.

        Only tokens that could be others count for E: what a constraint forces needs no pass of its own, it rides on the
        next one as a row. Such rows, those that are pending and those of the draft that will be kept, cost the same in
        whichever pass they are evaluated, so that their share of the cost is left out.
        """
        d = self._learner(drafter).draft_ms
        if d is None:
            d = self._costs.cost_ms(1, step.depth) if drafter is DrafterName.MODEL else 0.0
        rates, expected, reached = [], 1.0, 1.0
        riding = step.pending_rows - 1.0
        one_ms = self._costs.cost_ms(1, step.depth)
        alphas = iter(self.alpha(drafter, evidence, len(is_certain)))
        for gamma in range(len(is_certain) + 1):
            if gamma and is_certain[gamma - 1]:
                riding += reached
            elif gamma:
                reached *= next(alphas)
                expected += reached
            rows = step.pending_rows + gamma
            pass_ms = self._costs.cost_ms(rows, step.depth)
            row_ms = (pass_ms - one_ms) / max(1, rows - 1)
            rates.append(expected / (pass_ms - riding * row_ms + gamma * d))
        return rates

    def _begins_trial(self) -> bool:
        """Tell if a drafter that seems not to pay is tried now, be it the first step of a trial or a later one."""
        if self._trial_steps_left == 0:
            if self._savings_passes < _TRIAL_SAVINGS_PASSES:
                return False
            self._trial_steps_left = _TRIAL_STEPS
        self._trial_steps_left -= 1
        return True

    def _settle(self, step: "_Step", committed: int) -> None:
        """Save a share of the step's time for trials, and charge a trial what it cost above plain decoding."""
        row_ms = self._costs.cost_ms(1, step.depth)
        step_ms = self._costs.cost_ms(step.pending_rows + step.checked, step.depth) + step.draft_ms
        self._savings_passes += _TRIAL_SHARE * step_ms / row_ms
        if step.is_trial:
            plain_ms = self._costs.cost_ms(step.pending_rows, step.depth) + (committed - 1) * row_ms
            self._savings_passes -= (step_ms - plain_ms) / row_ms
        self._savings_passes = min(self._savings_passes, _TRIAL_SAVINGS_PASSES)


@dataclass
class _Step:
    """What is known of the step that is under way."""

    pending_rows: int
    depth: int
    checked: int = 0
    draft_ms: float = 0.0
    is_trial: bool = False


class _Estimate:
    """Acceptance by position for one drafter and one class of evidence, which fades with every further draft.

    A position leans on the one before it until it has outcomes of its own: past the first few tokens of a copy that
    held, the next ones mostly hold as well, and pooling all positions would hide it.
    """

    def __init__(self, prior: float) -> None:
        self.tried = [_PRIOR_DRAFTS]
        self.held = [_PRIOR_DRAFTS * prior]

    def note(self, position: int, held: bool) -> None:
        """Note whether the token at ``position`` held, all before it having held."""
        if position == 0:
            fade = 1.0 - 1.0 / _MEMORY_DRAFTS
            self.tried = [fade * n for n in self.tried]
            self.held = [fade * n for n in self.held]
        if position == len(self.tried):
            self.tried.append(0.0)
            self.held.append(0.0)
        self.tried[position] += 1.0
        self.held[position] += held

    @property
    def reach(self) -> int:
        """How far a draft is trusted: twice as far as one of this kind was ever followed to."""
        return max(_FIRST_REACH, 2 * len(self.tried))

    def alpha(self, positions: int) -> list[float]:
        values = [self.held[0] / self.tried[0]]
        for tried, held in zip(self.tried[1:positions], self.held[1:positions], strict=True):
            values.append((_CHAIN_OUTCOMES * values[-1] + held) / (_CHAIN_OUTCOMES + tried))
        return (values + values[-1:] * positions)[:positions]


class _Learner:
    """What is known of one drafter."""

    def __init__(self, priors: Sequence[float]) -> None:
        self._estimates = [_Estimate(prior) for prior in priors]
        self.costs_ms: deque[float] = deque(maxlen=_DRAFT_COSTS_KEPT)
        self.asked = self.drafted = self.accepted = 0
        self.missed_ms = 0.0

    def estimate(self, evidence: int) -> _Estimate:
        """Return the estimate for 1, 2, 3-4, 5-8, 9-16, ... matched tokens, as far as they are told apart."""
        return self._estimates[min(max(evidence - 1, 0).bit_length(), len(self._estimates) - 1)]

    @property
    def draft_ms(self) -> float | None:
        return median(self.costs_ms) if self.costs_ms else None

    def statistics(self) -> DrafterStatistics:
        positions = max(len(estimate.tried) for estimate in self._estimates)
        alpha = []
        for i in range(positions):
            estimates = [estimate for estimate in self._estimates if i < len(estimate.tried)]
            alpha.append(sum(e.held[i] for e in estimates) / sum(e.tried[i] for e in estimates))
        return DrafterStatistics(self.asked, self.drafted, self.accepted, tuple(alpha), self.draft_ms)


@dataclass
class _Followed:
    """A draft that is compared with what really comes."""

    draft: Draft
    checked: int
    learner: _Learner
    estimate: _Estimate
    position: int = 0

    def goes_on_with(self, token: int) -> bool:
        """Compare the next token; return False once there is nothing left to learn."""
        held = token == self.draft.tokens[self.position]
        if not self.draft.is_certain(self.position):
            self.estimate.note(self.draft.guessed(self.position), held)
            self.learner.accepted += held and self.position < self.checked
        self.position += 1
        return held and self.position < len(self.draft.tokens)


def _reaching(guesses: int, is_certain: Sequence[bool]) -> int:
    """Return how many tokens of a draft come before the guess that follows so many ``guesses``."""
    for position, certain in enumerate(is_certain):
        guesses -= not certain
        if guesses < 0:
            return position
    return len(is_certain)
