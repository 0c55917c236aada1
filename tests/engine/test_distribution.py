"""What is sampled with speculation is distributed like what is sampled without, on a real (tiny) model.

The expected distribution is not sampled: all continuations are enumerated with the probabilities that the model gives.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from khepri.engine.backend import LoadOptions
from khepri.engine.backends.llama_cpp import LlamaCppBackend
from khepri.engine.buffer import TokenBuffer
from khepri.engine.cascade import Cascade
from khepri.engine.constrain import Constraint, GrammarCompiler
from khepri.engine.draft.drafter import Drafter
from khepri.engine.draft.model import ModelDrafter
from khepri.engine.draft.suffix import SuffixDrafter
from khepri.engine.generate import Engine, generate
from khepri.engine.horizon import Horizon
from khepri.engine.naive_prefix import NaivePrefixCache
from khepri.engine.pass_cost import PassCosts
from khepri.engine.request import DraftMode, Request, SamplingParams, ToolCallGrammar
from khepri.engine.sampling import transform
from tests.support.decoding import FunctionDrafter
from tests.support.remembered_backend import RememberedBackend
from tests.support.statistics import deviation
from tests.support.tiny_model import write_tiny_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

DRAWS = 20_000
LENGTH = 3
SETTINGS = [
    SamplingParams(0.8, top_k=4),
    SamplingParams(1.5, top_k=6, top_p=0.7),
    SamplingParams(1.0, top_k=5, min_p=0.3),
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


def load(folder: Path, seed: int) -> RememberedBackend:
    path = write_tiny_model(folder / "tiny.gguf", seed=seed)
    return RememberedBackend(LlamaCppBackend(LoadOptions(path, 256, threads=1, batch_tokens=128)))


def prompt_of(target: RememberedBackend) -> tuple[int, ...]:
    return tuple(target.vocabulary.tokenize("def name(a): return a\ndef name(a): return"))


def probabilities(
    target: RememberedBackend, params: SamplingParams, length: int, make_constraint: MakeConstraint
) -> dict[Outcome, float]:
    """Return every continuation of at most ``length`` tokens with its probability."""
    prompt = prompt_of(target)
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


def sample(
    target: RememberedBackend,
    drafters: Sequence[Drafter],
    params: SamplingParams,
    *,
    length: int = LENGTH,
    make_constraint: MakeConstraint = lambda: None,
    draft: DraftMode = DraftMode.ALL,
    draws: int = DRAWS,
) -> Counter[Outcome]:
    costs = PassCosts()
    target.sequence_remove(0, 0)
    cascade = Cascade(drafters, Horizon(costs), lambda: 0.0)
    engine = Engine(target, NaivePrefixCache(target), cascade, costs, 128, lambda: 0.0)
    counts: Counter[Outcome] = Counter()
    for seed in range(draws):
        sampling = SamplingParams(params.temperature, params.top_k, params.top_p, params.min_p, seed)
        request = Request(prompt_of(target), length, sampling, draft=draft, gamma=2)
        generation = generate(engine, request, make_constraint, TokenBuffer())
        counts[generation.tokens] += 1
    cascade.close()
    return counts


def bad_guess(tokens: Sequence[int]) -> Sequence[int]:
    """Propose what hardly ever comes, and never the same."""
    return [(sum(tokens) * 7 + position) % 200 for position in range(3)]


def no_constraint() -> None:
    return None


@pytest.mark.parametrize("params", SETTINGS, ids=str)
@pytest.mark.parametrize("drafter", ["suffix", "bad"])
def test_speculation_leaves_the_distribution_as_it_is(
    target: RememberedBackend, params: SamplingParams, drafter: str
) -> None:
    drafters: dict[str, Drafter] = {"suffix": SuffixDrafter(), "bad": FunctionDrafter(bad_guess)}
    counts = sample(target, [drafters[drafter]], params)
    assert deviation(counts, probabilities(target, params, LENGTH, no_constraint)) < 5


@pytest.mark.parametrize("params", SETTINGS, ids=str)
def test_a_drafting_model_leaves_the_distribution_as_it_is(
    target: RememberedBackend, drafter_model: RememberedBackend, params: SamplingParams
) -> None:
    drafter = ModelDrafter(drafter_model, target.vocabulary, 128, lambda: 0.0)
    counts = sample(target, [drafter], params)
    assert deviation(counts, probabilities(target, params, LENGTH, no_constraint)) < 5


@pytest.mark.parametrize("draft", [DraftMode.OFF, DraftMode.ALL])
def test_forced_tokens_and_masks_leave_the_constrained_distribution_as_it_is(
    target: RememberedBackend, drafter_model: RememberedBackend, draft: DraftMode
) -> None:
    compiler = GrammarCompiler(target.vocabulary)
    grammar = ToolCallGrammar("<tool_call>", LARK, 0, forced=True)
    params = SamplingParams(1.3)
    drafters = [SuffixDrafter(), ModelDrafter(drafter_model, target.vocabulary, 128, lambda: 0.0)]
    counts = sample(target, drafters, params, length=40, make_constraint=lambda: compiler.start(grammar), draft=draft)
    assert deviation(counts, probabilities(target, params, 40, lambda: compiler.start(grammar))) < 5


def test_this_test_would_notice_a_loop_that_keeps_every_draft(
    target: RememberedBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("khepri.engine.generate.verify", lambda p, drafted, q, random: drafted)
    params = SETTINGS[0]
    counts = sample(target, [FunctionDrafter(lambda tokens: [5, 6])], params, draws=DRAWS // 10)
    assert deviation(counts, probabilities(target, params, LENGTH, no_constraint)) > 100
