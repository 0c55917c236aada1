"""What is sampled with speculation is distributed like what is sampled without, on a real (tiny) model.

The expected distribution is not sampled: all continuations are enumerated with the probabilities that the model gives.
An answer is long enough for drafts of two tokens, and every test holds that there were such drafts.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from khepri.engine.backend import LoadOptions
from khepri.engine.backends.llama_cpp import LlamaCppBackend
from khepri.engine.buffer import TokenBuffer
from khepri.engine.cascade import Cascade
from khepri.engine.constrain import Constraint, GrammarCompiler
from khepri.engine.draft.drafter import Draft, Drafter
from khepri.engine.draft.model import ModelDrafter
from khepri.engine.draft.suffix import SuffixDrafter
from khepri.engine.generate import Engine, generate
from khepri.engine.horizon import Horizon
from khepri.engine.naive_prefix import NaivePrefixCache
from khepri.engine.pass_cost import PassCosts
from khepri.engine.request import DraftMode, Request, SamplingParams, ToolCallGrammar
from khepri.engine.sampling import Distribution, transform
from khepri.engine.speculate import verify
from tests.support.decoding import FunctionDrafter
from tests.support.remembered_backend import RememberedBackend
from tests.support.statistics import deviation
from tests.support.tiny_model import write_tiny_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DRAWS = 20_000
LENGTH = 4
OF_ANOTHER = 0.05
SETTINGS = [
    SamplingParams(0.8, top_k=3),
    SamplingParams(1.5, top_k=5, top_p=0.7),
    SamplingParams(1.0, top_k=6, top_p=0.5, min_p=0.3),
]
LARK = 'start: (/[ab]/ | "the") "return" /[xyz]/'
Outcome = tuple[int, ...]
MakeConstraint = Callable[[], Constraint | None]


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RememberedBackend]:
    backend = load(tmp_path_factory.mktemp("target"), seed=7)
    yield backend
    backend.close()


@pytest.fixture
def drafter_model(tmp_path: Path) -> RememberedBackend:
    """A model whose opinion differs from the target's in everything; its drafter closes it."""
    return load(tmp_path, seed=8)


@pytest.fixture
def kindred_model(tmp_path: Path) -> RememberedBackend:
    """A model that often agrees with the target, but gives its tokens other probabilities."""
    return load(tmp_path, seed=7, of_another=OF_ANOTHER)


def load(folder: Path, seed: int, of_another: float = 0.0) -> RememberedBackend:
    path = write_tiny_model(folder / "tiny.gguf", seed=seed, of_another=of_another)
    return RememberedBackend(LlamaCppBackend(LoadOptions(path, 768, threads=1, batch_tokens=512)))


def prompt_of(target: RememberedBackend) -> Outcome:
    return tuple(target.vocabulary.tokenize("def name(a): return a\ndef name(a): return"))


def prompt_of_everything(target: RememberedBackend) -> Outcome:
    """Return a prompt in which something follows every token, so that the suffix drafter always has a guess."""
    said = [token for token in range(target.vocabulary.size) if token not in target.vocabulary.end_ids]
    return (*said, *prompt_of(target))


def probabilities(
    target: RememberedBackend,
    params: SamplingParams,
    length: int,
    make_constraint: MakeConstraint,
    prompt: Outcome,
) -> dict[Outcome, float]:
    """Return every continuation of at most ``length`` tokens of a prompt with its probability."""
    found: dict[Outcome, float] = {}
    open_: list[tuple[Outcome, float]] = [((), 1.0)]
    while open_:
        said, probability = open_.pop()
        constraint = make_constraint()
        for token in said:
            if constraint is not None:
                constraint.commit(token)
        is_complete = constraint is not None and constraint.is_complete
        if len(said) == length or is_complete or (said and said[-1] in target.vocabulary.end_ids):
            found[said] = probability
            continue
        row = target.row((*prompt, *said))
        p = transform(row if constraint is None else constraint.restrict(row), params)
        open_ += [((*said, int(t)), probability * float(x)) for t, x in zip(p.ids, p.probabilities, strict=True)]
    return found


@dataclass
class Sample:
    """What was said, and what came of the drafts."""

    counts: Counter[Outcome] = field(default_factory=Counter)
    widest: int = 0
    """Most tokens that were drafted for one pass."""
    accepted: int = 0
    refused: int = 0


class Watched(Cascade):
    """A cascade that notes how wide its drafts are."""

    widest = 0

    def propose(self, *arguments: Any, **named: Any) -> Draft | None:  # noqa: ANN401 - passed on as they are
        draft = super().propose(*arguments, **named)
        self.widest = max(self.widest, len(draft.tokens) if draft else 0)
        return draft


def sample(
    target: RememberedBackend,
    drafters: Sequence[Drafter],
    params: SamplingParams,
    prompt: Outcome,
    *,
    length: int = LENGTH,
    make_constraint: MakeConstraint = lambda: None,
    draft: DraftMode = DraftMode.ALL,
    draws: int = DRAWS,
) -> Sample:
    costs = PassCosts()
    target.sequence_remove(0, 0)
    cascade = Watched(drafters, Horizon(costs), lambda: 0.0)
    engine = Engine(target, NaivePrefixCache(target), cascade, costs, 128, lambda: 0.0)
    found = Sample()
    for seed in range(draws):
        sampling = SamplingParams(params.temperature, params.top_k, params.top_p, params.min_p, seed)
        request = Request(prompt, length, sampling, draft=draft, gamma=2)
        generation = generate(engine, request, make_constraint, TokenBuffer())
        found.counts[generation.tokens] += 1
        found.accepted += generation.accepted_tokens
        found.refused += generation.drafted_tokens - generation.accepted_tokens
    cascade.close()
    found.widest = cascade.widest
    return found


def bad_guess(tokens: Sequence[int]) -> Sequence[int]:
    """Propose what hardly ever comes, and never the same."""
    return [(sum(tokens) * 7 + position) % 200 for position in range(3)]


def likely_guess(target: RememberedBackend) -> Callable[[Sequence[int]], Sequence[int]]:
    """Return a drafter's function that proposes what is most likely, which holds about every other time."""

    def guess(tokens: Sequence[int]) -> Sequence[int]:
        first = int(target.row(tuple(tokens)).argmax())
        return [first, int(target.row((*tokens, first)).argmax())]

    return guess


def no_constraint() -> None:
    return None


@pytest.mark.parametrize("params", SETTINGS, ids=str)
@pytest.mark.parametrize("drafter", ["suffix", "likely", "bad"])
def test_speculation_leaves_the_distribution_as_it_is(
    target: RememberedBackend, params: SamplingParams, drafter: str
) -> None:
    drafters: dict[str, Drafter] = {
        "suffix": SuffixDrafter(),
        "likely": FunctionDrafter(likely_guess(target)),
        "bad": FunctionDrafter(bad_guess),
    }
    prompt = (prompt_of_everything if drafter == "suffix" else prompt_of)(target)
    found = sample(target, [drafters[drafter]], params, prompt)
    assert deviation(found.counts, probabilities(target, params, LENGTH, no_constraint, prompt)) < 5
    assert found.widest == 2
    assert found.refused > DRAWS / 10
    assert found.accepted > DRAWS / 10 or drafter != "likely"


@pytest.mark.parametrize("params", SETTINGS, ids=str)
def test_a_drafting_model_leaves_the_distribution_as_it_is(
    target: RememberedBackend, kindred_model: RememberedBackend, params: SamplingParams
) -> None:
    drafter = ModelDrafter(kindred_model, target.vocabulary, 128, lambda: 0.0)
    found = sample(target, [drafter], params, prompt_of(target))
    assert deviation(found.counts, probabilities(target, params, LENGTH, no_constraint, prompt_of(target))) < 5
    assert found.widest == 2
    assert found.refused > DRAWS / 10
    assert found.accepted > DRAWS / 10


@pytest.mark.parametrize("draft", [DraftMode.OFF, DraftMode.ALL])
def test_forced_tokens_and_masks_leave_the_constrained_distribution_as_it_is(
    target: RememberedBackend, drafter_model: RememberedBackend, draft: DraftMode
) -> None:
    compiler = GrammarCompiler(target.vocabulary)
    grammar = ToolCallGrammar("<tool_call>", LARK, 0, forced=True)
    params = SamplingParams(1.3)
    drafters = [SuffixDrafter(), ModelDrafter(drafter_model, target.vocabulary, 128, lambda: 0.0)]
    found = sample(
        target,
        drafters,
        params,
        prompt_of(target),
        length=40,
        make_constraint=lambda: compiler.start(grammar),
        draft=draft,
    )
    expected = probabilities(target, params, 40, lambda: compiler.start(grammar), prompt_of(target))
    assert deviation(found.counts, expected) < 5
    if draft is DraftMode.ALL:
        assert found.widest == 2
        assert found.refused > DRAWS / 10


def test_this_test_would_notice_a_loop_that_keeps_every_draft(
    target: RememberedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("khepri.engine.generate.verify", lambda p, drafted, q, random: drafted)
    params = SETTINGS[0]
    # Whatever is kept could have been said: only how often gives the loop away.
    found = sample(target, [FunctionDrafter(likely_guess(target))], params, prompt_of(target), draws=DRAWS // 10)
    expected = probabilities(target, params, LENGTH, no_constraint, prompt_of(target))
    assert 100 < deviation(found.counts, expected) < float("inf")


# Under the third, what a model drafts and the target could say is as likely for both.
@pytest.mark.parametrize("params", SETTINGS[:2], ids=str)
def test_this_test_would_notice_a_loop_that_keeps_what_a_model_drafts_wherever_the_target_could_have_said_it(
    target: RememberedBackend,
    kindred_model: RememberedBackend,
    params: SamplingParams,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def keep_possible(p: Distribution, drafted: int, q: Distribution | None, random: np.random.Generator) -> int:
        return drafted if drafted in p.ids else verify(p, drafted, q, random)

    monkeypatch.setattr("khepri.engine.generate.verify", keep_possible)
    drafter = ModelDrafter(kindred_model, target.vocabulary, 128, lambda: 0.0)
    found = sample(target, [drafter], params, prompt_of(target), draws=DRAWS // 10)
    expected = probabilities(target, params, LENGTH, no_constraint, prompt_of(target))
    assert 20 < deviation(found.counts, expected) < float("inf")


def test_this_test_would_notice_a_loop_that_checks_the_first_token_of_a_draft_only(
    target: RememberedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    checked: list[int] = []

    def check_first(p: Distribution, drafted: int, q: Distribution | None, random: np.random.Generator) -> int:
        is_first = not checked
        checked.append(drafted)
        return verify(p, drafted, q, random) if is_first else drafted

    class Forgetful(FunctionDrafter):
        def propose(self, limit: int, after: Sequence[int] = ()) -> Draft | None:
            checked.clear()
            return super().propose(limit)

    monkeypatch.setattr("khepri.engine.generate.verify", check_first)
    params = SETTINGS[0]
    found = sample(target, [Forgetful(likely_guess(target))], params, prompt_of(target), draws=DRAWS // 10)
    expected = probabilities(target, params, LENGTH, no_constraint, prompt_of(target))
    assert 20 < deviation(found.counts, expected) < float("inf")
