"""Runs with chosen figures."""

from collections.abc import Mapping, Sequence

from khepri.cli.bench.corpus import TaskClass
from khepri.cli.bench.runs import ArmName, Run
from khepri.engine.request import DraftCount, DrafterName


def run_of(
    arm: ArmName,
    *,
    class_: TaskClass = TaskClass.EDIT,
    item: str = "one",
    repeat: int = 0,
    tokens: Sequence[int] = tuple(range(11)),
    decode_ms: float = 1000.0,
    prefill_ms: float = 100.0,
    first_token_ms: float = 1.0,
    passes: int = 10,
    drafts: Mapping[DrafterName, DraftCount] | None = None,
) -> Run:
    is_baseline = arm is ArmName.BASELINE
    return Run(
        arm,
        class_,
        item,
        repeat,
        tuple(tokens),
        prefill_ms,
        0.0 if is_baseline else first_token_ms,
        decode_ms,
        token_ms=(decode_ms / len(tokens),) * len(tokens),
        passes_ms=() if is_baseline else (decode_ms / passes - 0.5,) * passes,
        overheads_ms=() if is_baseline else (0.5,) * passes,
        drafts=drafts or {},
    )
