"""The arms take turns, and an item's runs follow one another."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from khepri.cli.bench.baseline import BaselineProcess
from khepri.cli.bench.corpus import Item, TaskClass
from khepri.cli.bench.runs import Arm, ArmName, BaselineArm, EngineArm, Run, run_all, warm_up
from khepri.engine.assembly import Speculation
from khepri.engine.backend import LoadOptions
from khepri.engine.draft.suffix import SuffixDrafter
from khepri.engine.request import DrafterName, DraftMode, ToolCallGrammar
from khepri.engine.worker import EngineWorker
from khepri.errors import CancelledError
from tests.cli.bench.support import run_of
from tests.support.scripted_backend import END, ScriptedBackend, reply_script

PROMPT = tuple(b"say it: one two three one two three. said: ")
ITEM = Item(TaskClass.EDIT, "echo", PROMPT, None, 40)


@dataclass
class Recording:
    name: ArmName
    told: list[tuple[ArmName, str, int, int]] = field(default_factory=list)

    def run(self, item: Item, repeat: int) -> Run:
        self.told.append((self.name, item.name, repeat, len(item.prompt)))
        return run_of(self.name, item=item.name, repeat=repeat)


def recording_arms() -> tuple[list[Arm], list[tuple[ArmName, str, int, int]]]:
    told: list[tuple[ArmName, str, int, int]] = []
    return [Recording(name, told) for name in ArmName], told


def test_every_arm_is_first_once_in_three_repeats() -> None:
    arms, told = recording_arms()
    run_all(arms, [ITEM], 3, lambda what, done, total: None)
    assert [name for name, *_ in told[::3]] == list(ArmName)
    assert sorted(told) == sorted((name, "echo", repeat, len(PROMPT)) for name in ArmName for repeat in range(3))


def test_the_runs_of_an_item_follow_one_another_and_progress_counts_them() -> None:
    arms, told = recording_arms()
    items = [Item(TaskClass.EDIT, name, PROMPT, None, 4) for name in ("first", "second")]
    seen: list[tuple[int, int]] = []
    runs = run_all(arms, items, 2, lambda what, done, total: seen.append((done, total)))
    assert [item for _, item, *_ in told] == ["first"] * 6 + ["second"] * 6
    assert seen == [(done, 12) for done in range(12)]
    assert [run.item for run in runs] == [item for _, item, *_ in told]


def test_a_warm_up_is_short() -> None:
    arms, told = recording_arms()
    warm_up(arms, Item(TaskClass.EDIT, "long", PROMPT * 100, None, 400))
    assert [length for *_, length in told] == [64, 64, 64]


def engine(backend: ScriptedBackend) -> EngineWorker:
    return EngineWorker(lambda: backend, 64, speculation=Speculation(lambda target: [SuffixDrafter()]))


def test_the_engine_says_the_same_with_drafts_in_fewer_passes() -> None:
    reply = tuple(b"one two three one two three.")
    backend = ScriptedBackend(script=reply_script(len(PROMPT), (*reply, END)))
    with engine(backend) as worker:
        plain = EngineArm(worker, ArmName.PLAIN, DraftMode.OFF).run(ITEM, 0)
        fast = EngineArm(worker, ArmName.ACCELERATED, DraftMode.SUFFIX, 4).run(ITEM, 1)
    assert plain.tokens == fast.tokens == (*reply, END)
    assert len(fast.passes_ms) < len(plain.passes_ms) == len(plain.tokens) - 1
    assert fast.drafts[DrafterName.SUFFIX].accepted > 0
    assert not plain.drafts
    assert (fast.arm, fast.repeat, fast.item) == (ArmName.ACCELERATED, 1, "echo")
    assert fast.decode_ms > 0.0


def test_an_engine_that_was_closed_ends_the_benchmark() -> None:
    backend = ScriptedBackend(interrupt_at={len(PROMPT) + 3})
    with engine(backend) as worker, pytest.raises(CancelledError):
        EngineArm(worker, ArmName.PLAIN, DraftMode.OFF).run(ITEM, 0)


def test_the_baseline_has_a_gap_for_every_token_but_the_first(tiny_model: Path) -> None:
    with BaselineProcess(LoadOptions(tiny_model, 512, 1, extra_buffers=False)) as plain:
        run = BaselineArm(plain, frozenset()).run(ITEM, 2)
    assert len(run.tokens) == ITEM.max_tokens
    assert len(run.token_ms) == ITEM.max_tokens - 1
    assert run.decode_ms == sum(run.token_ms) > 0.0
    assert run.prefill_ms > 0.0


def test_in_the_place_of_a_call_the_baseline_writes_on_whatever_ends_there(tiny_model: Path) -> None:
    everything_ends = frozenset(range(1000))
    call = replace(ITEM, grammar=ToolCallGrammar("<tool_call>", 'start: "x"', 0))
    with BaselineProcess(LoadOptions(tiny_model, 512, 1, extra_buffers=False)) as plain:
        assert len(BaselineArm(plain, everything_ends).run(ITEM, 0).tokens) == 1
        assert len(BaselineArm(plain, everything_ends).run(call, 0).tokens) == ITEM.max_tokens
