"""``khepri bench --cache``: what the prefix cache saves, and what a precision of its keys and values costs."""

import json
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import accumulate, cycle, islice
from pathlib import Path
from statistics import median
from typing import Final

from khepri.agent.session import engine_files
from khepri.cli.bench.cache_runs import (
    ANSWER_TOKENS,
    QUICK,
    Conversations,
    Precision,
    Scale,
    Turn,
    measure_precision,
    run_conversations,
    run_turns,
    run_twin,
    run_without_cache,
)
from khepri.cli.bench.command import Target, resolve
from khepri.cli.bench.corpus import load_corpus
from khepri.cli.bench.restart import Restart, Task, run_restarted
from khepri.cli.progress import Progress, shown_progress
from khepri.config import Value
from khepri.engine import disk
from khepri.engine.backend import KvType, Vocabulary
from khepri.engine.backends.loading import load_backend
from khepri.engine.hardware import describe_cpu
from khepri.engine.launch import open_engine
from khepri.engine.prefix import CacheLimits, RadixPrefixCache
from khepri.errors import ModelLoadError, UsageError

_DISK_BYTES: Final = 4_000_000_000
_PRECISION_TOKENS: Final = 640
_DECODE_TOKENS: Final = 16
_MOST_OVERHEAD: Final = 0.05
_LEAST_GAIN: Final = 4.5
_MOST_RESTORE_MS: Final = 1000.0
_MOST_RESTORE_SHARE: Final = 0.03


@dataclass(frozen=True)
class Findings:
    """All that was measured."""

    machine: str
    """The processor."""
    model: str
    """Name of the target."""
    kv_type: str
    """Precision of the keys and values in all parts but the last."""
    preamble_tokens: int
    """Tokens of the preamble that all turns begin with."""
    turns: Sequence[Turn]
    """A conversation that grows."""
    uncached_ms: float
    """Time to the first token of its second turn with an empty cache."""
    beside_ms: float
    """The same with the preamble in the cache: the mean of one right before and one right after, so that a machine that
    changes its pace changes both."""
    write_ms: float
    """Time of writing the preamble to the disk, after the answer."""
    file_bytes: int
    """Size of what was written."""
    restart: Restart
    """The second turn's prompt in a new process."""
    answers_as_before: bool
    """True if the new process gave the answer that this one gave."""
    conversations: Conversations
    """Many conversations under a cap."""
    precisions: Sequence[Precision]
    """What the keys and values may be kept in, as far as the model's shape allows."""

    @property
    def overhead(self) -> float:
        """What the turns after the first cost beyond the passes over their new tokens, as a share: the median."""
        return median(turn.first_token_ms / turn.new_tokens_ms for turn in self.turns[1:]) - 1

    @property
    def uncached_turns_ms(self) -> list[float]:
        """What each turn after the first takes to its first token with an empty cache.

        The second was measured; a later one takes the same passes, and those over what is new since then, which were
        measured by themselves.
        """
        return list(accumulate((turn.new_tokens_ms for turn in self.turns[2:]), initial=self.uncached_ms))

    @property
    def gains(self) -> list[float]:
        """How many times faster each turn after the first begins than with an empty cache; the second gains least."""
        cached_ms = (self.beside_ms, *(turn.first_token_ms for turn in self.turns[2:]))
        return [without / with_it for without, with_it in zip(self.uncached_turns_ms, cached_ms, strict=True)]

    @property
    def restore_share(self) -> float:
        """The restore's share of the time that the prefill of the preamble took."""
        return self.restart.restore_ms / self.turns[0].first_token_ms

    def promises(self) -> list[tuple[str, bool]]:
        """Return what is promised, in words with the figure, and whether it was kept."""
        restart, many = self.restart, self.conversations
        held = f"{many.held} of {many.count} conversations are held at once (at most {many.most_held})"
        return [
            (
                f"in the median a turn costs {self.overhead:+.1%} beyond the passes over its new tokens (at most 5 %)",
                self.overhead <= _MOST_OVERHEAD,
            ),
            (
                f"in the median a turn begins {median(self.gains):.1f} x sooner than without the cache "
                f"(at least 4.5 x); the second {self.gains[0]:.1f} x",
                median(self.gains) >= _LEAST_GAIN,
            ),
            (
                f"a new process restores {restart.restored_tokens:,} of the preamble's {self.preamble_tokens:,} tokens "
                f"in {restart.restore_ms:.0f} ms (all of them, under 1000 ms)",
                restart.restored_tokens == self.preamble_tokens and restart.restore_ms < _MOST_RESTORE_MS,
            ),
            (
                f"which is {self.restore_share:.2%} of its prefill (under 3 %)",
                self.restore_share < _MOST_RESTORE_SHARE,
            ),
            ("and gives the answer that the first one gave", self.answers_as_before),
            *([(held, many.held <= many.most_held)] if many.keeps_several else []),
            (
                f"{many.same_answers} of {many.answers} answers are those of an empty cache, the others part at "
                f"near-ties (of {many.largest_gap:.2g}; rounding explains {many.tie_gap:.2g})",
                many.largest_gap <= many.tie_gap,
            ),
        ]


def run(cwd: Path, flags: Mapping[str, Value], *, quick: bool, as_json: bool) -> None:
    """Measure and print what was found on standard output; progress goes to standard error. Takes minutes.

    Args:
        cwd: Folder whose configuration counts.
        flags: What the command line says of the configuration.
        quick: Do a quarter of the work.
        as_json: Print one JSON object.

    Raises:
        UsageError: A flag cannot be used, or the model cannot roll back.
        NoModelError: The model is not on this machine.
        ModelError: The model cannot be loaded, or a pass failed.
    """
    target, scale = resolve(cwd, flags), QUICK if quick else Scale()
    with shown_progress("measuring the prefix cache") as progress, tempfile.TemporaryDirectory() as folder:
        findings = _measure(target, scale, Path(folder), progress)
    print(json.dumps(_as_json(findings), indent=2) if as_json else _summary(findings), flush=True)


def _measure(target: Target, scale: Scale, folder: Path, progress: Progress) -> Findings:
    settings = replace(
        target.engine,
        context_tokens=scale.context_tokens,
        cache_conversations=scale.most_held,
        disk_bytes=_DISK_BYTES,
        draft_model=None,
    )
    files = replace(engine_files(), prefixes=folder)
    progress("loading the model", 0, 1)
    with open_engine(target.model.path, settings, files) as engine:
        cache = engine.cache
        if not isinstance(cache, RadixPrefixCache):
            raise UsageError(f"{target.model.name} cannot roll back, so that its cache keeps one conversation only")
        kv_type = engine.backend.capabilities.kv_type
        text = _text(engine.backend.vocabulary, scale.context_tokens)
        turns, second = run_turns(engine, text, scale, progress)
        started_s = time.perf_counter()
        cache.finish()
        write_ms = (time.perf_counter() - started_s) * 1000
        before = run_twin(engine, second, scale.preamble_tokens, progress)
        cache.clear()
        memory_only = RadixPrefixCache(engine.backend, CacheLimits(scale.most_held))
        engine = replace(engine, cache=memory_only)
        uncached = run_without_cache(engine, second, scale.preamble_tokens, progress)
        after = run_twin(engine, second, scale.preamble_tokens, progress)
        many = run_conversations(engine, memory_only, text, scale, progress)
    progress("a new process", 0, 1)
    task = Task(target.model.path, settings, files, second, scale.preamble_tokens, ANSWER_TOKENS)
    restart = run_restarted(task)
    precisions = [_precision(target, each, progress) for each in (KvType.F16, KvType.Q8_0)]
    return Findings(
        machine=f"{describe_cpu().name}, {target.options.threads} threads",
        model=target.model.name,
        kv_type=kv_type,
        preamble_tokens=scale.preamble_tokens,
        turns=turns,
        uncached_ms=uncached.ttft_ms,
        beside_ms=(before.ttft_ms + after.ttft_ms) / 2,
        write_ms=write_ms,
        file_bytes=disk.usage(folder).bytes,
        restart=restart,
        answers_as_before=restart.tokens == uncached.tokens,
        conversations=many,
        precisions=[each for each in precisions if each is not None],
    )


def _precision(target: Target, kv_type: KvType, progress: Progress) -> Precision | None:
    progress(f"keys and values in {kv_type}", 0, 1)
    options = replace(target.options, kv_type=kv_type, sequences=1, cells=0)
    try:
        backend = load_backend(options)
    except ModelLoadError:
        if kv_type is KvType.F16:
            raise
        return None
    try:
        text = _text(backend.vocabulary, _PRECISION_TOKENS)
        batch = target.settings.batch_tokens
        return measure_precision(backend, kv_type, text, batch, _DECODE_TOKENS, time.perf_counter)
    finally:
        backend.close()


def _text(vocabulary: Vocabulary, tokens: int) -> list[int]:
    """Return so many tokens of the corpus, which begins again where it ends."""
    return list(islice(cycle([token for item in load_corpus(vocabulary) for token in item.prompt]), tokens))


def _as_json(findings: Findings) -> Mapping[str, object]:
    return {
        **asdict(findings),
        "overhead": findings.overhead,
        "uncached_turns_ms": findings.uncached_turns_ms,
        "gains": findings.gains,
        "restore_share": findings.restore_share,
        "promises": [{"what": what, "kept": kept} for what, kept in findings.promises()],
    }


def _blocks(many: Conversations) -> str:
    if not many.keeps_several:
        return "and one conversation at a time, as this library keeps no more: the cap is not tried here"
    return f"{many.fragmentation:.1%} of the blocks empty at most"


def _summary(findings: Findings) -> str:
    many, uncached = findings.conversations, [findings.turns[0].first_token_ms, *findings.uncached_turns_ms]
    lines = [
        f"{findings.model}, {findings.machine}, keys and values in {findings.kv_type}",
        "",
        "turn   prompt   cached   first token   new tokens alone   without the cache",
        *(
            f"{number:4} {turn.prompt_tokens:8,} {turn.cached_tokens:8,} {turn.first_token_ms / 1000:11.2f} s"
            f" {turn.new_tokens_ms / 1000:16.2f} s {uncached_ms / 1000:17.2f} s"
            for number, (turn, uncached_ms) in enumerate(zip(findings.turns, uncached, strict=True), start=1)
        ),
        "without the cache the second turn was measured, between two as long that took "
        f"{findings.beside_ms / 1000:.2f} s with it; a later one takes that and the passes over what came since",
        "",
        f"new process: {findings.restart.restored_tokens:,} tokens restored from {findings.file_bytes / 1e6:.0f} MB in "
        f"{findings.restart.restore_ms:.0f} ms; they were written in {findings.write_ms:.0f} ms, after the answer",
        f"conversations: {many.cached_share:.0%} of the prompts' tokens were cached; {many.held_tokens:,} tokens in "
        f"{many.cells:,} cells at most, " + _blocks(many),
        "",
        "keys and values   full context   prefill          decode           perplexity",
        *(
            f"{each.kv_type:15} {each.context_bytes / 1e6:11.0f} MB {each.prefill_tokens_per_s:7.1f} tokens/s "
            f"{each.decode_tokens_per_s:7.2f} tokens/s {each.perplexity:12.4f}"
            for each in findings.precisions
        ),
        "",
        *(f"{'kept' if kept else 'MISSED'}: {what}" for what, kept in findings.promises()),
    ]
    return "\n".join(lines)
