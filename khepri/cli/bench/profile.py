"""What a step of the decode loop is made of besides the pass: the answers, replayed through each part by itself.

The engine notes only the sum, as clocks between the parts would belong to what is measured. No model runs here.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from khepri.cli.bench.corpus import Item
from khepri.engine.backend import Logits, Vocabulary
from khepri.engine.constrain import GrammarCompiler
from khepri.engine.detokenize import Detokenizer
from khepri.engine.draft.suffix import SuffixDrafter
from khepri.engine.horizon import Horizon
from khepri.engine.pass_cost import PassCosts
from khepri.engine.request import Request, SamplingParams
from khepri.engine.sampling import draw, transform


@dataclass(frozen=True)
class Profile:
    """Medians in milliseconds, over all answers; 0 for what did not occur."""

    drafting: float
    """Finding a match and its continuation, and taking in the token that came; each step."""
    horizon: float
    """Choosing gamma and learning from what came; each step with a draft."""
    sampling: float
    """Choosing a token from a row of logits; each row that is looked at."""
    text: float
    """Turning a token into text; each token."""
    grammar: float
    """Restricting a row and taking in the token that came; each token of a tool call."""


def profile(
    vocabulary: Vocabulary, items: Sequence[Item], answers: Mapping[str, Sequence[int]], clock: Callable[[], float]
) -> Profile:
    """Replay ``answers`` and return what each part takes. Takes a second or two.

    Args:
        vocabulary: The target's tokens.
        items: The work.
        answers: The tokens of an answer to each item, by its name; items without one are left out.
        clock: Monotonic seconds.

    Raises:
        KhepriError: The backend is closed, or the grammar cannot be made.
    """
    answered = [(item, answers[item.name]) for item in items if item.name in answers]
    watch = _Watch(clock)
    rows = np.random.default_rng(0).standard_normal((4, vocabulary.size), dtype=np.float32)
    for item, tokens in answered:
        _replay_drafts(watch, item, tokens)
        _replay_choices(watch, vocabulary, tokens, rows)
    _replay_grammar(watch, vocabulary, answered, rows)
    return Profile(**{part: watch.median_ms(part) for part in ("drafting", "horizon", "sampling", "text", "grammar")})


class _Watch:
    """Times parts one after another: a lap belongs to the part that is named at its end."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._laps_ms: dict[str, list[float]] = {}
        self._last_s = 0.0

    def start(self) -> None:
        self._last_s = self._clock()

    def lap(self, part: str) -> None:
        now_s = self._clock()
        self._laps_ms.setdefault(part, []).append(1000 * (now_s - self._last_s))
        self._last_s = now_s

    def median_ms(self, part: str) -> float:
        return median(self._laps_ms.get(part, [0.0]))


def _replay_drafts(watch: _Watch, item: Item, tokens: Sequence[int]) -> None:
    drafter, horizon = SuffixDrafter(), Horizon(PassCosts())
    drafter.start(Request(item.prompt, item.max_tokens))
    horizon.start()
    for index, token in enumerate(tokens):
        watch.start()
        draft = drafter.propose(horizon.most)
        drafter.commit([token])
        watch.lap("drafting")
        if draft is not None:
            depth = len(item.prompt) + index
            gamma = horizon.choose(draft.drafter, draft.evidence, len(draft.tokens), 1, depth, horizon.most)
            horizon.follow(draft, gamma)
            horizon.commit([token])
            watch.lap("horizon")


def _replay_choices(watch: _Watch, vocabulary: Vocabulary, tokens: Sequence[int], rows: Logits) -> None:
    detokenizer, random, greedy = Detokenizer(vocabulary), np.random.default_rng(0), SamplingParams()
    for index, token in enumerate(tokens):
        watch.start()
        draw(transform(rows[index % len(rows)], greedy), random)
        watch.lap("sampling")
        detokenizer.push(token)
        watch.lap("text")


def _replay_grammar(
    watch: _Watch, vocabulary: Vocabulary, answered: Sequence[tuple[Item, Sequence[int]]], rows: Logits
) -> None:
    constrained = [(item.grammar, tokens) for item, tokens in answered if item.grammar is not None]
    if not constrained:
        return
    compiler = GrammarCompiler(vocabulary)
    for grammar, tokens in constrained:
        constraint = compiler.start(grammar)
        for index, token in enumerate(tokens):
            if token in vocabulary.end_ids:
                break
            watch.start()
            constraint.restrict(rows[index % len(rows)])
            constraint.commit(token)
            watch.lap("grammar")
