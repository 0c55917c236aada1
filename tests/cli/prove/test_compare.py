from collections.abc import Sequence

import pytest

from khepri.agent.protocol import CALL_END, TRIGGER, tool_grammar
from khepri.cli.prove.compare import compare
from khepri.engine.backend import Batch
from khepri.engine.constrain import Constraint, GrammarCompiler
from khepri.engine.request import DraftMode, ToolCallGrammar
from khepri.tools.registry import Registry
from tests.support.decoding import BYTES, PROMPT, FunctionDrafter, ScriptedEngine
from tests.support.scripted_backend import END, RoundingBackend, ScriptedBackend, reply_script

REPLY = (*b"twelve bytes and some more", END)
ACCELERATED = (DraftMode.SUFFIX, 4)


def prophet(tokens: Sequence[int]) -> Sequence[int]:
    return REPLY[len(tokens) - len(PROMPT) :]


def no_constraint() -> Constraint | None:
    return None


def test_runs_that_are_the_same_have_no_differences() -> None:
    engine = ScriptedEngine(drafters=[FunctionDrafter(prophet)])
    engine.says(REPLY)
    found = compare(engine.engine, PROMPT, 40, no_constraint, *ACCELERATED)
    assert found.tokens == len(REPLY)
    assert found.divergences == ()
    assert (found.drafted, found.accepted) == (20, 20)
    assert found.passes < len(REPLY) / 3
    assert 0 < found.cached < len(PROMPT)


TIES = (3, 9)
"""Where the second choice is almost as likely as the first."""


def script_with_ties(tokens: Sequence[int]) -> dict[int, float]:
    said = len(tokens) - len(PROMPT)
    if not 0 <= said < len(REPLY):
        return {}
    if said not in TIES:
        return {REPLY[said]: 100.0}
    # What the random part of the logits puts between the two is taken out, so that 0.2 remain.
    row = ScriptedBackend().decode(Batch(tuple(tokens), 0))[-1]
    return {REPLY[said]: 100.0, ord("Z"): 99.8 - float(row[ord("Z")] - row[REPLY[said]])}


def test_every_near_tie_that_rounding_turns_over_is_found_with_its_margin() -> None:
    engine = ScriptedEngine(RoundingBackend(script=script_with_ties), drafters=[FunctionDrafter(prophet)])
    found = compare(engine.engine, PROMPT, 40, no_constraint, *ACCELERATED)
    assert [each.position for each in found.divergences] == [3, 9]
    assert {each.accelerated for each in found.divergences} == {"Z"}
    for each in found.divergences:
        assert each.margin == pytest.approx(0.2, abs=0.01)
        assert each.gap == pytest.approx(0.2, abs=0.01)
        assert each.rounding == pytest.approx(RoundingBackend.amount, abs=0.01)
        assert each.is_near_tie()


def test_a_small_gap_that_no_width_of_a_pass_explains_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("khepri.engine.generate.verify", lambda p, drafted, q, random: drafted)

    def second_choice(tokens: Sequence[int]) -> Sequence[int]:
        return [ord("Z")] if len(tokens) - len(PROMPT) in TIES else []

    engine = ScriptedEngine(ScriptedBackend(script=script_with_ties), drafters=[FunctionDrafter(second_choice)])
    found = compare(engine.engine, PROMPT, 40, no_constraint, *ACCELERATED)
    assert [each.position for each in found.divergences] == [3, 9]
    for each in found.divergences:
        assert each.gap == pytest.approx(0.2, abs=0.01)
        assert not each.is_near_tie()
        assert each.is_near_tie(seen=0.3)


def test_a_loop_that_keeps_what_it_should_refuse_shows_as_wide_gaps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("khepri.engine.generate.verify", lambda p, drafted, q, random: drafted)
    engine = ScriptedEngine(drafters=[FunctionDrafter(lambda tokens: [ord("!")])])
    engine.says(REPLY)
    found = compare(engine.engine, PROMPT, 40, no_constraint, *ACCELERATED)
    assert found.divergences
    assert all(each.gap > 50 and not each.is_near_tie(seen=1.0) for each in found.divergences)


def test_an_answer_that_ends_too_early_is_a_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = ScriptedEngine(drafters=[FunctionDrafter(lambda tokens: [END] if len(tokens) > len(PROMPT) + 5 else [])])
    engine.says(REPLY)
    monkeypatch.setattr("khepri.engine.generate.verify", lambda p, drafted, q, random: drafted)
    found = compare(engine.engine, PROMPT, 40, no_constraint, *ACCELERATED)
    assert found.divergences[0].accelerated == "<|im_end|>"
    assert found.divergences[0].gap > 50
    assert not found.divergences[0].is_near_tie(seen=1.0)


def test_a_constrained_answer_is_compared_under_its_constraint() -> None:
    compiler = GrammarCompiler(BYTES)
    lark = tool_grammar(Registry.load().manifests, ["src/app.py"], ["src"])
    call = BYTES.tokenize('\n{"name": "outline", "arguments": {"path": "src/app.py"}}\n' + CALL_END)
    backend = RoundingBackend(script=reply_script(len(PROMPT), call))
    engine = ScriptedEngine(backend, drafters=[FunctionDrafter(lambda tokens: call[len(tokens) - len(PROMPT) :])])
    grammar = ToolCallGrammar(TRIGGER, lark, 0, forced=True)
    found = compare(engine.engine, PROMPT, 200, lambda: compiler.start(grammar), *ACCELERATED)
    assert found.tokens == len(call)
    assert found.divergences == ()
    assert found.forced > 20
