"""Runs the corpus: every item by every arm in turn, again and again, so that a slow minute hits all arms alike.

What the figures amount to is not known here, and nothing is printed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from khepri.cli.bench.baseline import BaselineProcess
from khepri.cli.bench.corpus import Item, TaskClass
from khepri.cli.progress import Progress
from khepri.engine.request import DraftCount, DrafterName, DraftMode, Request, StopReason
from khepri.engine.worker import EngineWorker
from khepri.errors import CancelledError

_WARM_UP_PROMPT_TOKENS = 64
_WARM_UP_TOKENS = 12


class ArmName(StrEnum):
    """What is compared."""

    BASELINE = "baseline"
    """llama-cpp-python's own plain generation."""
    PLAIN = "plain"
    """Khepri's engine without drafts."""
    ACCELERATED = "accelerated"
    """Khepri's engine with drafts."""


@dataclass(frozen=True)
class Run:
    """One answer and what it cost."""

    arm: ArmName
    """Who gave it."""
    class_: TaskClass
    """What kind of work it was."""
    item: str
    """Name of the item."""
    repeat: int
    """Which repeat it was, from 0."""
    tokens: tuple[int, ...]
    """Generated token ids."""
    prefill_ms: float
    """Evaluation of what was new in the prompt; the baseline's with the choice of its first token, which the library
    does not tell apart."""
    first_token_ms: float
    """From there to the first token; 0 for the baseline."""
    decode_ms: float
    """From the end of the prefill to the end of the answer."""
    token_ms: tuple[float, ...]
    """Latency of each token; tokens of one pass share its time. The baseline's first token has none."""
    passes_ms: tuple[float, ...] = ()
    """Time of each pass of the target after the prefill; empty for the baseline, which does not tell it."""
    overheads_ms: tuple[float, ...] = ()
    """The rest of the step of each of these passes."""
    drafts: Mapping[DrafterName, DraftCount] = field(default_factory=dict)
    """What each drafter proposed, and what was kept of it."""


class Arm(Protocol):
    """One of the things compared. The main thread; one arm runs at a time."""

    @property
    def name(self) -> ArmName:
        """Which it is."""

    def run(self, item: Item, repeat: int) -> Run:
        """Answer ``item`` greedily and return what it cost."""


@dataclass(frozen=True)
class BaselineArm:
    """The library alone. It knows no constraint of ours: in the place of a tool call it writes as much free text."""

    plain: BaselineProcess
    """The loaded model."""
    end_ids: frozenset[int]
    """Tokens that end an answer."""
    name: ArmName = ArmName.BASELINE

    def run(self, item: Item, repeat: int) -> Run:
        """Answer ``item``; see ``Arm.run``."""
        # Without its constraint a model may end a call at once, which would leave nothing to time.
        end_ids = self.end_ids if item.grammar is None else frozenset[int]()
        generation = self.plain.generate(item.prompt, item.max_tokens, end_ids)
        return Run(
            self.name,
            item.class_,
            item.name,
            repeat,
            generation.tokens,
            prefill_ms=generation.ttft_ms,
            first_token_ms=0.0,
            decode_ms=sum(generation.gaps_ms),
            token_ms=generation.gaps_ms,
        )


@dataclass(frozen=True)
class EngineArm:
    """Khepri's engine. Two arms may share one: the second of them finds the prompt in the prefix cache."""

    worker: EngineWorker
    """The engine."""
    name: ArmName
    """Which arm it is."""
    draft: DraftMode
    """Who may propose tokens."""
    gamma: int | None = None
    """How many of them a pass verifies; None lets the engine choose."""

    def run(self, item: Item, repeat: int) -> Run:
        """Answer ``item``; see ``Arm.run``.

        Raises:
            CancelledError: The engine was closed meanwhile.
        """
        request = Request(item.prompt, item.max_tokens, grammar=item.grammar, draft=self.draft, gamma=self.gamma)
        generation = self.worker.submit(request).result()
        if generation.stop_reason is StopReason.CANCELLED:
            raise CancelledError("interrupted")
        if self.gamma is None:
            self.worker.calibrate()  # as the engine does when it is idle, which it never is here
        return Run(
            self.name,
            item.class_,
            item.name,
            repeat,
            generation.tokens,
            prefill_ms=generation.prefill_ms,
            first_token_ms=generation.ttft_ms - generation.prefill_ms,
            decode_ms=generation.decode_ms,
            token_ms=generation.token_ms,
            passes_ms=generation.passes_ms,
            overheads_ms=generation.overheads_ms,
            drafts=generation.drafts,
        )


def warm_up(arms: Sequence[Arm], item: Item) -> None:
    """Let every arm touch its weights, and the engine time its passes, before anything counts."""
    short = Item(item.class_, item.name, item.prompt[:_WARM_UP_PROMPT_TOKENS], None, _WARM_UP_TOKENS)
    for arm in arms:
        arm.run(short, 0)


def run_all(arms: Sequence[Arm], items: Sequence[Item], repeats: int, progress: Progress) -> list[Run]:
    """Run every item ``repeats`` times by every arm, item after item, and return the runs in order.

    An item's repeats follow one another, so that its prompt is evaluated once by each engine. The arms take turns in
    being first.

    Args:
        arms: What is compared.
        items: The work.
        repeats: How often, at least once.
        progress: Told before each run.

    Raises:
        KhepriError: An arm failed.
    """
    runs: list[Run] = []
    total = len(items) * repeats * len(arms)
    for index, item in enumerate(items):
        for repeat in range(repeats):
            first = (index + repeat) % len(arms)
            for arm in (*arms[first:], *arms[:first]):
                progress(f"{item.class_}, {arm.name}", len(runs), total)
                runs.append(arm.run(item, repeat))
    return runs
