"""The decode loop with drafts: whatever is proposed, the tokens are those of plain decoding."""

import json
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from khepri.agent.protocol import CALL_END, TRIGGER, tool_grammar
from khepri.engine.constrain import Constraint, GrammarCompiler
from khepri.engine.request import (
    DraftCount,
    DrafterName,
    DraftMode,
    Request,
    SamplingParams,
    StopReason,
    ToolCallGrammar,
)
from khepri.errors import DecodeError
from khepri.tools.registry import Registry
from tests.support.decoding import BYTES, PROMPT, FunctionDrafter, ScriptedEngine
from tests.support.scripted_backend import END, TOOL_CALL, ScriptedBackend

CALL = '\n{"name": "outline", "arguments": {"path": "src/app.py"}}\n' + CALL_END
Guess = Callable[[Sequence[int]], Sequence[int]]


def prophet(reply: Sequence[int], *, wrong_every: int = 0) -> Guess:
    """Return a guess that knows the reply, but for every so many of its tokens."""

    def guess(tokens: Sequence[int]) -> Sequence[int]:
        said = len(tokens) - len(PROMPT)
        return [
            token + 1 if wrong_every and place % wrong_every == 0 else token
            for place, token in enumerate(reply[said:], start=said)
        ]

    return guess


def constrained(compiler: GrammarCompiler, *, window: int = 8, forced: bool = False) -> Callable[[], Constraint | None]:
    lark = tool_grammar(Registry.load().manifests, ["src/app.py"], ["src"])
    return lambda: compiler.start(ToolCallGrammar(TRIGGER, lark, window, forced))


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(BYTES)


@settings(deadline=None, max_examples=150)
@given(
    wrong_every=st.integers(0, 6),
    gamma=st.one_of(st.none(), st.integers(0, 9)),
    max_tokens=st.integers(0, 30),
    batch_tokens=st.integers(1, 12),
    context_tokens=st.integers(len(PROMPT) + 1, 64),
    can_remove_tail=st.booleans(),
)
def test_no_draft_changes_what_is_said(
    wrong_every: int, gamma: int | None, max_tokens: int, batch_tokens: int, context_tokens: int, can_remove_tail: bool
) -> None:
    plain = ScriptedEngine(ScriptedBackend(context_tokens)).run(Request(PROMPT, max_tokens, draft=DraftMode.OFF))
    backend = ScriptedBackend(context_tokens, batch_tokens, can_remove_tail=can_remove_tail)
    drafter = FunctionDrafter(prophet(plain.tokens, wrong_every=wrong_every))
    engine = ScriptedEngine(backend, batch_tokens, [drafter])
    generation = engine.run(Request(PROMPT, max_tokens, gamma=gamma))
    assert generation.tokens == plain.tokens
    assert generation.text == plain.text
    assert generation.stop_reason == plain.stop_reason
    assert drafter.tokens == [*PROMPT, *plain.tokens] or not max_tokens
    assert len(generation.token_ms) == len(generation.tokens)


@pytest.mark.parametrize("gamma", [1, 2, 5, 9])
@pytest.mark.parametrize("wrong_every", [0, 3])
def test_every_token_of_a_pass_is_chosen_among_what_the_constraint_allows(
    compiler: GrammarCompiler, gamma: int, wrong_every: int
) -> None:
    # What the backend likes best is hardly ever allowed, neither at the first token of a pass nor later.
    constraint = constrained(compiler, forced=True)
    plain = ScriptedEngine().run(Request(PROMPT, 80, draft=DraftMode.OFF), constraint)
    drafter = FunctionDrafter(prophet(plain.tokens, wrong_every=wrong_every))
    generation = ScriptedEngine(batch_tokens=12, drafters=[drafter]).run(Request(PROMPT, 80, gamma=gamma), constraint)
    assert generation.tokens == plain.tokens
    assert generation.accepted_tokens >= 10


@pytest.mark.parametrize("room", range(1, 30))
@pytest.mark.parametrize("max_tokens", [3, 60])
def test_what_is_forced_ends_where_the_context_ends(compiler: GrammarCompiler, room: int, max_tokens: int) -> None:
    constraint = constrained(compiler, forced=True)
    context_tokens = len(PROMPT) + room
    plain = ScriptedEngine(ScriptedBackend(context_tokens)).run(
        Request(PROMPT, max_tokens, draft=DraftMode.OFF), constraint
    )
    drafter = FunctionDrafter(prophet(plain.tokens))
    ahead = ScriptedEngine(ScriptedBackend(context_tokens), drafters=[drafter]).run(
        Request(PROMPT, max_tokens), constraint
    )
    assert (ahead.tokens, ahead.stop_reason) == (plain.tokens, plain.stop_reason)


def test_no_more_is_drafted_than_the_answer_has_room_for_besides_the_token_of_the_target() -> None:
    drafter = FunctionDrafter(lambda tokens: [7] * 32)
    engine = ScriptedEngine(batch_tokens=64, drafters=[drafter])
    engine.run(Request(PROMPT, 6, gamma=32))
    assert drafter.limits[0] == 4
    assert max(drafter.limits) == 4


def test_right_drafts_save_passes_and_are_counted() -> None:
    reply = [*b"twelve bytes", END]
    engine = ScriptedEngine(batch_tokens=8, drafters=[FunctionDrafter(prophet(reply))])
    engine.says(reply)
    generation = engine.run(Request(PROMPT, 50, gamma=3))
    # The prefill gives the first token, each pass then four of the other twelve.
    assert len(generation.passes_ms) == 3
    assert len(generation.overheads_ms) == 3
    assert generation.drafts == {DrafterName.SUFFIX: DraftCount(9, 9)}
    assert (generation.drafted_tokens, generation.accepted_tokens) == (9, 9)
    assert engine.buffer.snapshot.accepted_tokens == 9


def test_what_is_refused_counts_as_drafted() -> None:
    reply = [*b"twelve bytes", END]
    engine = ScriptedEngine(drafters=[FunctionDrafter(lambda tokens: b"!!!")])
    engine.says(reply)
    generation = engine.run(Request(PROMPT, len(reply), gamma=3))
    # Each of the twelve passes after the prefill is drafted for, as far as the answer has room besides the last token.
    assert generation.drafts == {DrafterName.SUFFIX: DraftCount(9 * 3 + 2 + 1, 0)}


def test_a_draft_that_runs_past_the_end_of_the_answer_is_cut_there() -> None:
    reply = [*b"short", END]
    engine = ScriptedEngine(drafters=[FunctionDrafter(prophet([*reply, *b"never this"]))])
    engine.says(reply)
    generation = engine.run(Request(PROMPT, 50, gamma=7))
    assert generation.text == "short"
    assert generation.tokens[-1] == END
    assert generation.stop_reason is StopReason.END
    assert generation.drafts == {DrafterName.SUFFIX: DraftCount(7, 5)}
    # Nothing of the rest of the draft stays behind: the next turn finds what was said and no more.
    assert engine.backend.sequence_length(0) == len(PROMPT) + len(reply)


def test_a_refused_tail_leaves_no_half_character_behind() -> None:
    reply = [*"é🐞x".encode(), END]
    wrong = [*"é".encode(), 0xF0, 0x9F, 0x98, 0x80]
    engine = ScriptedEngine(drafters=[FunctionDrafter(lambda tokens: wrong[len(tokens) - len(PROMPT) :])])
    engine.says(reply)
    assert engine.run(Request(PROMPT, 50, gamma=7)).text == "é🐞x"


@pytest.mark.parametrize("position", [len(PROMPT), len(PROMPT) + 2, len(PROMPT) + 5])
@pytest.mark.parametrize("failure", ["interrupt", "error"])
def test_a_pass_that_breaks_off_inside_a_draft_leaves_the_engine_as_good_as_new(position: int, failure: str) -> None:
    reply = ScriptedEngine().run(Request(PROMPT, 12)).tokens
    engine = ScriptedEngine(drafters=[FunctionDrafter(prophet(reply))])
    if failure == "interrupt":
        engine.backend.interrupt_at = {position}
        generation = engine.run(Request(PROMPT, 12, gamma=4))
        assert generation.stop_reason is StopReason.CANCELLED
        assert generation.tokens == reply[: len(generation.tokens)]
        engine.backend.resume()
    else:
        engine.backend.fail_at = {position: DecodeError("the pass failed")}
        with pytest.raises(DecodeError):
            engine.run(Request(PROMPT, 12, gamma=4))
    assert engine.run(Request(PROMPT, 12, gamma=4)).tokens == reply


def test_a_model_that_cannot_take_back_a_tail_is_not_drafted_for() -> None:
    reply = [*b"some words", END]
    engine = ScriptedEngine(ScriptedBackend(can_remove_tail=False), drafters=[FunctionDrafter(prophet(reply))])
    engine.says(reply)
    generation = engine.run(Request(PROMPT, 50, gamma=4))
    assert generation.text == "some words"
    assert generation.drafted_tokens == 0


def test_a_request_without_drafts_asks_no_drafter() -> None:
    drafter = FunctionDrafter(lambda tokens: [1])
    ScriptedEngine(drafters=[drafter]).run(Request(PROMPT, 5, draft=DraftMode.OFF))
    assert drafter.tokens == []


@pytest.mark.parametrize("opening", ["", "Let me see. ", "Let me see what is in there, all of it. "])
@pytest.mark.parametrize("wrong_every", [0, 3, 5])
def test_a_call_is_the_same_with_forced_tokens_and_drafts_as_without(
    compiler: GrammarCompiler, opening: str, wrong_every: int
) -> None:
    reply = BYTES.tokenize(opening + TRIGGER + CALL, special=True)
    make = constrained(compiler, window=100)
    plain = ScriptedEngine()
    plain.says(reply)
    expected = plain.run(Request(PROMPT, 200, draft=DraftMode.OFF), make)
    engine = ScriptedEngine(drafters=[FunctionDrafter(prophet(reply, wrong_every=wrong_every))])
    engine.says(reply)
    generation = engine.run(Request(PROMPT, 200, gamma=3), make)
    assert generation.tokens == expected.tokens
    assert generation.stop_reason is StopReason.TOOL_CALL
    forced = generation.drafts[DrafterName.FORCED]
    assert forced.accepted == forced.drafted > 20
    assert engine.buffer.snapshot.forced_tokens == forced.accepted
    assert generation.decided_tokens == len(generation.tokens) - 1 - forced.accepted
    assert len(generation.passes_ms) < len(expected.passes_ms) / 2


@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 10_000), max_tokens=st.integers(1, 120), batch_tokens=st.integers(1, 8))
def test_a_forced_call_of_a_model_with_any_opinion_is_the_same_with_forced_tokens_as_without(
    seed: int, max_tokens: int, batch_tokens: int
) -> None:
    compiler = GrammarCompiler(BYTES)
    prompt = (*PROMPT, *seed.to_bytes(2, "little"))
    make = constrained(compiler, forced=True)
    backend = ScriptedBackend(batch_tokens=batch_tokens)
    generation = ScriptedEngine(backend, batch_tokens).run(Request(prompt, max_tokens), make)
    plain = ScriptedEngine(ScriptedBackend(), 8).run(Request(prompt, max_tokens, draft=DraftMode.OFF), make)
    assert generation.tokens == plain.tokens
    assert generation.stop_reason == plain.stop_reason
    if generation.stop_reason is StopReason.TOOL_CALL:
        assert json.loads(generation.text.removesuffix(CALL_END))["name"]


def test_a_draft_of_the_trigger_after_the_window_is_refused(compiler: GrammarCompiler) -> None:
    engine = ScriptedEngine(drafters=[FunctionDrafter(lambda tokens: [TOOL_CALL] * 3)])
    engine.says([*b"No call. ", *[TOOL_CALL] * 3, END])
    generation = engine.run(Request(PROMPT, 200, gamma=3), constrained(compiler, window=0))
    assert TRIGGER not in generation.text
    assert generation.text.startswith("No call. ")


def test_several_conversations_one_after_another_are_each_what_they_are_alone() -> None:
    prompts = [(*PROMPT, *tail) for tail in (b"", b" and more", b" or less", b"")]
    alone = [ScriptedEngine().run(Request(prompt, 8)).tokens for prompt in prompts]
    flattened = [token for reply in alone for token in reply]
    engine = ScriptedEngine(drafters=[FunctionDrafter(lambda tokens: flattened[len(tokens) % 7 :])])
    for prompt, reply in zip(prompts, alone, strict=True):
        assert engine.run(Request(prompt, 8, gamma=5)).tokens == reply


def test_the_time_of_a_pass_is_shared_by_its_tokens() -> None:
    reply = [*b"twelve bytes", END]
    engine = ScriptedEngine(drafters=[FunctionDrafter(prophet(reply))])
    engine.says(reply)
    generation = engine.run(Request(PROMPT, 50, gamma=3))
    assert len(set(generation.token_ms[1:5])) == 1
    assert sum(generation.token_ms) <= generation.decode_ms
    assert sum(generation.passes_ms) + sum(generation.overheads_ms) == pytest.approx(sum(generation.token_ms[1:]))


@pytest.mark.parametrize("seed", range(5))
def test_a_seed_gives_the_same_answer_however_it_is_drafted(seed: int) -> None:
    sampling = SamplingParams(1.0, top_k=6, seed=seed)
    expected = ScriptedEngine().run(Request(PROMPT, 30, sampling, draft=DraftMode.OFF)).tokens
    assert ScriptedEngine().run(Request(PROMPT, 30, sampling, draft=DraftMode.OFF)).tokens == expected
    for wrong_every in (0, 2, 5):
        for gamma in (None, 1, 4, 7):
            engine = ScriptedEngine(drafters=[FunctionDrafter(prophet(expected, wrong_every=wrong_every))])
            assert engine.run(Request(PROMPT, 30, sampling, gamma=gamma)).tokens == expected


def test_without_a_seed_answers_differ() -> None:
    sampling = SamplingParams(1.0)
    answers = {ScriptedEngine().run(Request(PROMPT, 30, sampling)).tokens for _ in range(4)}
    assert len(answers) == 4
