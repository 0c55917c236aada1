import json
import threading
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from khepri.agent.protocol import CALL_END, TRIGGER, tool_grammar
from khepri.engine.buffer import JobState
from khepri.engine.constrain import Constraint, GrammarCompiler
from khepri.engine.generate import prefill_ahead
from khepri.engine.request import Request, SamplingParams, StopReason, ToolCallGrammar
from khepri.errors import ContextFullError, DecodeError, KhepriError
from khepri.tools.registry import Registry
from tests.support.decoding import BYTES, PROMPT
from tests.support.decoding import ScriptedEngine as Engine
from tests.support.scripted_backend import END, TOOL_CALL, ScriptedBackend

CALL = '\n{"name": "outline", "arguments": {"path": "src/app.py"}}\n' + CALL_END


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(BYTES)


def test_the_models_end_token_ends_the_answer_and_has_no_text(engine: Engine) -> None:
    engine.says("An answer.<|im_end|>and never this")
    generation = engine.run(Request(PROMPT, 50))
    assert generation.stop_reason is StopReason.END
    assert generation.text == "An answer."
    assert generation.tokens == (*BYTES.tokenize("An answer."), END)


@pytest.mark.parametrize("limit", [0, 1, 2, 9])
def test_the_budget_is_used_to_the_token_and_not_beyond(engine: Engine, limit: int) -> None:
    generation = engine.run(Request(PROMPT, limit))
    assert len(generation.tokens) == limit
    assert generation.stop_reason is StopReason.MAX_TOKENS
    # The last token's own pass would buy nothing.
    assert len(engine.backend.evaluated) == len(PROMPT) + max(0, limit - 1)


def test_an_answer_that_outgrows_the_context_ends_with_what_there_was_room_for() -> None:
    engine = Engine(ScriptedBackend(context_tokens=32))
    prompt = PROMPT[:20]
    engine.says("x" * 50, prompt)
    generation = engine.run(Request(prompt, 50))
    assert generation.stop_reason is StopReason.CONTEXT_FULL
    assert generation.text == "x" * 13
    assert engine.backend.sequence_length(0) == 32


def test_a_prompt_that_fills_the_context_is_refused_before_anything_is_touched() -> None:
    engine = Engine(ScriptedBackend(context_tokens=32))
    engine.run(Request(PROMPT[:10], 1))
    for length in (32, 33, 500):
        with pytest.raises(ContextFullError) as full:
            engine.run(Request((1,) * length, 1))
        assert (full.value.needed_tokens, full.value.context_tokens) == (length + 1, 32)
    assert engine.run(Request(PROMPT[:10], 1)).cached_tokens == 9


def test_the_longest_prompt_that_fits_gets_one_answer_token_after_it() -> None:
    engine = Engine(ScriptedBackend(context_tokens=32))
    generation = engine.run(Request((1,) * 31, 10))
    assert (len(generation.tokens), generation.stop_reason) == (2, StopReason.CONTEXT_FULL)


def test_an_empty_prompt_is_refused(engine: Engine) -> None:
    with pytest.raises(KhepriError):
        engine.run(Request((), 1))


def test_a_prompt_of_one_token_is_evaluated_every_time(engine: Engine) -> None:
    first = engine.run(Request((5,), 3))
    second = engine.run(Request((5,), 3))
    assert first.tokens == second.tokens
    assert second.cached_tokens == 0


def test_the_same_prompt_again_evaluates_one_token_of_it(engine: Engine) -> None:
    first = engine.run(Request(PROMPT, 5))
    engine.backend.evaluated.clear()
    second = engine.run(Request(PROMPT, 5))
    assert second.tokens == first.tokens
    assert (first.cached_tokens, second.cached_tokens) == (0, len(PROMPT) - 1)
    assert engine.backend.evaluated == [PROMPT[-1], *second.tokens[:-1]]


def test_a_conversation_that_grows_evaluates_only_what_is_new(engine: Engine) -> None:
    first = engine.run(Request(PROMPT, 5))
    engine.backend.evaluated.clear()
    following = (*PROMPT, *first.tokens, *b" next")
    second = engine.run(Request(following, 1))
    # The last generated token was never evaluated.
    assert second.cached_tokens == len(PROMPT) + 4
    assert engine.backend.evaluated == list(following[second.cached_tokens :])


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=20), min_size=1, max_size=5),
    st.integers(1, 9),
    st.booleans(),
    st.sampled_from([0.0, 1.0]),
)
def test_what_the_cache_holds_never_changes_an_answer(
    prompts: list[list[int]], batch_tokens: int, can_remove_tail: bool, temperature: float
) -> None:
    engine = Engine(ScriptedBackend(can_remove_tail=can_remove_tail), batch_tokens)
    for prompt in prompts:
        request = Request(tuple(prompt), 6, SamplingParams(temperature, seed=3))
        assert engine.run(request).tokens == Engine().run(request).tokens


@pytest.mark.parametrize("position", [0, 3, 8, len(PROMPT) - 1, len(PROMPT), len(PROMPT) + 3])
def test_a_failed_pass_is_raised_and_the_next_run_is_as_good_as_new(engine: Engine, position: int) -> None:
    expected = Engine().run(Request(PROMPT, 6)).tokens
    engine.backend.fail_at[position] = DecodeError("the pass failed")
    with pytest.raises(DecodeError):
        engine.run(Request(PROMPT, 6))
    assert engine.run(Request(PROMPT, 6)).tokens == expected


@pytest.mark.parametrize("can_remove_tail", [True, False])
@pytest.mark.parametrize("position", [1, 8, len(PROMPT) - 1, len(PROMPT), len(PROMPT) + 4])
def test_a_cancelled_run_returns_what_it_has_and_spoils_nothing(position: int, can_remove_tail: bool) -> None:
    expected = Engine().run(Request(PROMPT, 6)).tokens
    engine = Engine(ScriptedBackend(can_remove_tail=can_remove_tail, interrupt_at={position}))
    generation = engine.run(Request(PROMPT, 6))
    assert generation.stop_reason is StopReason.CANCELLED
    assert generation.tokens == expected[: len(generation.tokens)]
    assert len(generation.tokens) < 6
    engine.backend.resume()
    assert engine.run(Request(PROMPT, 6)).tokens == expected


def test_cancelling_from_another_thread_ends_a_slow_prefill_at_once() -> None:
    engine = Engine(ScriptedBackend(seconds_per_token=0.5))
    timer = threading.Timer(0.1, engine.backend.interrupt)
    timer.start()
    generation = engine.run(Request(PROMPT, 6))
    timer.join()
    assert generation.stop_reason is StopReason.CANCELLED
    assert generation.tokens == ()
    assert engine.backend.sequence_length(0) < 2


def test_text_that_ends_inside_a_character_waits_for_its_rest_and_is_flushed_at_the_end(engine: Engine) -> None:
    engine.says([*"né🐞".encode(), 0xF0, 0x9F, END])
    generation = engine.run(Request(PROMPT, 50))
    assert generation.text == "né🐞\ufffd"
    assert engine.buffer.read(0)[0] == generation.text
    assert [piece for piece in engine.buffer.shown if piece] == ["n", "é", "🐞", "\ufffd"]


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_budget_that_ends_inside_a_character_says_so(engine: Engine, limit: int) -> None:
    engine.says(list("🐞".encode()))
    assert engine.run(Request(PROMPT, limit)).text == "\ufffd"


def test_progress_is_published_in_order_and_in_full(engine: Engine) -> None:
    engine.run(Request(PROMPT[:8], 1))
    generation = engine.run(Request(PROMPT, 4))
    snapshots = engine.buffer.snapshots
    prefill = [s.prefilled_tokens for s in snapshots if s.state is JobState.PREFILL]
    assert prefill == [8, 16, len(PROMPT)]
    assert {s.cached_tokens for s in snapshots} == {8} == {generation.cached_tokens}
    counts = [s.completion_tokens for s in snapshots if s.state is JobState.DECODE]
    assert counts == sorted(counts)
    assert counts[-1] == 4
    assert [s.state for s in snapshots] == sorted((s.state for s in snapshots), key=list(JobState).index)


def test_times_add_up(engine: Engine) -> None:
    generation = engine.run(Request(PROMPT, 4))
    assert len(generation.token_ms) == len(generation.tokens)
    assert all(latency > 0 for latency in generation.token_ms)
    assert generation.ttft_ms == pytest.approx(generation.prefill_ms + generation.token_ms[0])
    assert sum(generation.token_ms) <= generation.decode_ms


def constrained(compiler: GrammarCompiler, *, window: int = 8, forced: bool = False) -> Callable[[], Constraint | None]:
    lark = tool_grammar(Registry.load().manifests, ["src/app.py"], ["src"])
    return lambda: compiler.start(ToolCallGrammar(TRIGGER, lark, window, forced))


def test_a_call_ends_the_generation_when_it_is_complete(engine: Engine, compiler: GrammarCompiler) -> None:
    engine.says("Let me." + TRIGGER + CALL + " and never this")
    generation = engine.run(Request(PROMPT, 200), constrained(compiler))
    assert generation.stop_reason is StopReason.TOOL_CALL
    assert generation.text == "Let me." + TRIGGER + CALL


def test_a_forced_call_is_one_whatever_the_model_wants_to_say(engine: Engine, compiler: GrammarCompiler) -> None:
    engine.says("I would rather talk.<|im_end|>")
    generation = engine.run(Request(PROMPT, 2000), constrained(compiler, forced=True))
    text = generation.text.removesuffix(CALL_END)
    if generation.stop_reason is StopReason.TOOL_CALL:
        assert json.loads(text)["name"] in {manifest.name for manifest in Registry.load().manifests}
    assert not set(generation.tokens) & BYTES.end_ids


def test_an_end_token_cannot_leave_a_call_unfinished(engine: Engine, compiler: GrammarCompiler) -> None:
    half = BYTES.tokenize(CALL)[:30]
    engine.says([TOOL_CALL, *half, *[END] * 100])
    generation = engine.run(Request(PROMPT, 400), constrained(compiler))
    assert generation.tokens[: len(half) + 1] == (TOOL_CALL, *half)
    assert not set(generation.tokens) & BYTES.end_ids


def test_after_the_window_the_trigger_is_not_written(engine: Engine, compiler: GrammarCompiler) -> None:
    engine.says([*b"No call. ", *[TOOL_CALL] * 3, END])
    generation = engine.run(Request(PROMPT, 200), constrained(compiler, window=4))
    assert generation.stop_reason is StopReason.END
    assert generation.text.startswith("No call. ")
    assert TRIGGER not in generation.text


def test_the_constraint_is_made_after_the_prefill_and_its_failure_leaves_the_cache_in_order(engine: Engine) -> None:
    held: list[int] = []

    def fail() -> Constraint | None:
        held.append(engine.cache.length)
        raise KhepriError("no grammar")

    with pytest.raises(KhepriError, match="no grammar"):
        engine.run(Request(PROMPT, 5), fail)
    assert held == [len(PROMPT)]
    assert engine.run(Request(PROMPT, 5)).cached_tokens == len(PROMPT) - 1


def test_a_model_that_cannot_roll_back_reads_ahead_only_what_it_cannot_lose() -> None:
    engine = Engine(ScriptedBackend(1000, can_remove_tail=False))
    stable = tuple(range(60))
    prefill_ahead(engine.engine, (*stable, 1, 2, 3), len(stable), lambda end: True)
    first = engine.run(Request((*stable, 4), 2, stable_tokens=len(stable)))
    assert first.cached_tokens == len(stable)
    said = (*stable, 4, *first.tokens)
    prefill_ahead(engine.engine, (*said, *[5] * 40), len(stable), lambda end: True)
    assert engine.run(Request((*said, 6), 2, stable_tokens=len(stable))).cached_tokens == len(said) - 1
