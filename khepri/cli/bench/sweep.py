"""``khepri bench --sweep``: measures each gamma, and holds what came of it against the arithmetic.

How it is shown is in ``sweep_report.py``.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from statistics import median
from typing import Final

from khepri.cli.bench.arithmetic import break_even_alpha, fitted_alpha, predicted_speedup
from khepri.cli.bench.command import Target, resolve, start_engine
from khepri.cli.bench.corpus import Item, TaskClass, load_corpus
from khepri.cli.bench.runs import ArmName, EngineArm, Run, warm_up
from khepri.cli.bench.sweep_report import Point, Series, Sweep, show
from khepri.cli.progress import Progress, shown_progress
from khepri.config import Draft, Value
from khepri.engine.backend import Backend, Batch
from khepri.engine.backends.loading import load_backend
from khepri.engine.request import DraftCount, DrafterName, DraftMode
from khepri.engine.worker import EngineWorker
from khepri.errors import ModelLoadError, UsageError
from khepri.models import stores
from khepri.models.stores import Model

GAMMAS: Final = (0, 1, 2, 3, 4, 6, 8, 12, 16)
"""What is tried."""
_QUICK_GAMMAS: Final = (0, 1, 4, 16)
_REPEATS: Final = 2
_CLASSES: Final = (TaskClass.EDIT, TaskClass.EXPLANATION)
"""One whose answers stood there before, and one whose did not."""
_ANSWER_TOKENS: Final = 72
_DEPTH_TOKENS: Final = 256
_PASS_ROUNDS: Final = 3
_DEFAULT_OUTPUT: Final = Path("khepri-sweep.svg")


@dataclass(frozen=True)
class _Plan:
    """What is run on every engine."""

    gammas: Sequence[int]
    repeats: int
    pass_ms: Sequence[float]


def run(
    cwd: Path, flags: Mapping[str, Value], output: Path | None, *, quick: bool, as_json: bool, repeats: int | None
) -> None:
    """Sweep gamma and print what was found; the picture goes into a file, progress to standard error. Takes minutes.

    Without a word about who drafts, the suffix drafter and every smaller model of the same vocabulary are swept.

    Args:
        cwd: Folder whose configuration counts.
        flags: What the command line says of the configuration.
        output: File of the picture; None takes ``khepri-sweep.svg`` in the current folder.
        quick: Try a few gammas, once.
        as_json: Print one JSON object.
        repeats: How often each gamma runs; None takes the usual number.

    Raises:
        UsageError: There is nothing to sweep, or the picture has no place.
        NoModelError: A model is not on this machine.
        ModelError: A model cannot be loaded, or a pass failed.
    """
    picture = output or _DEFAULT_OUTPUT
    if picture.is_dir():
        raise UsageError(f"--output {picture} is a folder", f"name a file in it: {picture / _DEFAULT_OUTPUT}")
    if not picture.parent.is_dir():
        raise UsageError(f"--output {picture}: there is no such folder", "name one that exists")
    times = repeats if repeats is not None else 1 if quick else _REPEATS
    if times < 1:
        raise UsageError(f"--repeats {times} is less than 1")
    target = resolve(cwd, flags)
    drafter = Draft(str(flags["draft"])) if flags.get("draft") else Draft.ALL
    if drafter is Draft.OFF:
        raise UsageError("with --draft off there is nothing to sweep", "leave it out")
    models = draft_models(target) if drafter in (Draft.MODEL, Draft.ALL) else []
    with shown_progress("benchmarking") as progress:
        progress("timing passes of 1 to 17 rows", 0, 1)
        plan = _Plan(_QUICK_GAMMAS if quick else GAMMAS, times, _time_passes(target))
        sweep = _sweep(target, plan, models, drafter in (Draft.SUFFIX, Draft.ALL), progress)
    show(sweep, picture, as_json=as_json)


def draft_models(target: Target) -> list[Model]:
    """Return the models that could draft: the one that was named, else all that are smaller than the target."""
    if target.settings.draft_model:
        return [stores.find(target.settings.draft_model)]
    found = stores.discover()
    smaller = [model for model in found if model.size_bytes < target.model.size_bytes]
    return sorted(smaller, key=lambda model: -model.size_bytes)


def _sweep(target: Target, plan: _Plan, models: Sequence[Model], with_suffix: bool, progress: Progress) -> Sweep:
    series: list[Series] = []
    left_out: list[str] = []
    for model in models:
        try:
            with start_engine(target.model, replace(target.engine, draft_model=model.path)) as engine:
                series += _on_engine(engine, plan, DrafterName.MODEL, model.name, progress)
        except ModelLoadError as error:
            if target.settings.draft_model:
                raise
            left_out.append(f"{model.name}: {error.message}")
    if with_suffix:
        with start_engine(target.model, replace(target.engine, draft_model=None)) as engine:
            series = [*_on_engine(engine, plan, DrafterName.SUFFIX, "suffix", progress), *series]
    return Sweep(target.model.name, tuple(plan.pass_ms), tuple(series), tuple(left_out))


def _on_engine(
    engine: EngineWorker, plan: _Plan, drafter: DrafterName, label: str, progress: Progress
) -> Iterator[Series]:
    corpus = load_corpus(engine.vocabulary)
    for class_ in _CLASSES:
        item = next(each for each in corpus if each.class_ is class_)
        short = replace(item, max_tokens=min(item.max_tokens, _ANSWER_TOKENS))
        yield _series(engine, plan, drafter, label, short, progress)


def _series(
    engine: EngineWorker, plan: _Plan, drafter: DrafterName, label: str, item: Item, progress: Progress
) -> Series:
    """Run every gamma in turn, from another one on in each repeat."""
    arms = [EngineArm(engine, ArmName.ACCELERATED, DraftMode(drafter), gamma) for gamma in plan.gammas]
    warm_up([arms[1]], item)
    arms[0].run(replace(item, max_tokens=1), 0)
    runs: dict[int, list[Run]] = {gamma: [] for gamma in plan.gammas}
    for repeat in range(plan.repeats):
        first = repeat * len(arms) // plan.repeats
        for arm in (*arms[first:], *arms[:first]):
            done = sum(map(len, runs.values()))
            progress(f"{label}, {item.class_}, gamma {arm.gamma}", done, len(arms) * plan.repeats)
            runs[arm.gamma or 0].append(arm.run(item, repeat))
    known = engine.draft_statistics.get(drafter)
    draft_ms = known.draft_ms if known is not None and known.draft_ms is not None else 0.0
    return held_against_arithmetic(label, drafter, item.class_, runs, plan.pass_ms, draft_ms)


def held_against_arithmetic(
    label: str,
    drafter: DrafterName,
    class_: TaskClass,
    runs: Mapping[int, Sequence[Run]],
    pass_ms: Sequence[float],
    draft_ms: float,
) -> Series:
    """Return what came of each gamma beside what the arithmetic says of it.

    Args:
        label: What the drafter is called.
        drafter: Who drafted.
        class_: What kind of work it was.
        runs: The runs of each gamma, gamma 0 first.
        pass_ms: What passes of 1, 2, ... rows take.
        draft_ms: What drafting a token takes.
    """
    counts = {gamma: _count(of_gamma, drafter) for gamma, of_gamma in runs.items()}
    drafted = {gamma: count for gamma, count in counts.items() if count.drafted}
    alpha = fitted_alpha({gamma: 1.0 + gamma * count.accepted / count.drafted for gamma, count in drafted.items()})
    plain = median(map(_rate, runs[0]))
    d = draft_ms / pass_ms[0]
    points = []
    for gamma, of_gamma in runs.items():
        count, rate = counts[gamma], median(map(_rate, of_gamma))
        passes = sum(len(run.passes_ms) for run in of_gamma)
        coverage = min(1.0, count.drafted / (gamma * passes)) if gamma and passes else 0.0
        points.append(
            Point(
                gamma=gamma,
                tokens_per_s=rate,
                speedup=rate / plain if plain else 1.0,
                predicted_speedup=predicted_speedup(alpha, gamma, pass_ms, d, coverage),
                tokens_per_pass=sum(len(run.tokens) - 1 for run in of_gamma) / passes if passes else 1.0,
                coverage=coverage,
                drafted=count.drafted,
                accepted=count.accepted,
                break_even_alpha=break_even_alpha(gamma, pass_ms, d) if gamma else None,
            )
        )
    return Series(label, class_, alpha, draft_ms, tuple(points))


def _rate(run: Run) -> float:
    return 1000 * (len(run.tokens) - 1) / run.decode_ms


def _count(runs: Sequence[Run], drafter: DrafterName) -> DraftCount:
    counts = [run.drafts.get(drafter, DraftCount()) for run in runs]
    return DraftCount(sum(count.drafted for count in counts), sum(count.accepted for count in counts))


def _time_passes(target: Target) -> list[float]:
    """Return the milliseconds of passes of 1 to the most rows, in the middle of a prompt of the corpus."""
    with closing(load_backend(target.options)) as backend:
        return pass_times(backend, load_corpus(backend.vocabulary)[0].prompt, max(GAMMAS) + 1, time.perf_counter)


def pass_times(backend: Backend, prompt: Sequence[int], most_rows: int, clock: Callable[[], float]) -> list[float]:
    """Return how many milliseconds passes of 1, 2, ... rows take behind ``prompt``, each the median of a few.

    The widths take turns, so that a slow moment does not hit one of them alone. What took longer than a wider pass was
    held up by something else, and counts as long as that one.
    """
    depth = min(_DEPTH_TOKENS, len(prompt) - most_rows)
    for start in range(0, depth, most_rows):
        backend.decode(Batch(tuple(prompt[start : min(start + most_rows, depth)]), start))
    times_ms: list[list[float]] = [[] for _ in range(most_rows)]
    for _ in range(_PASS_ROUNDS):
        for rows in range(1, most_rows + 1):
            started_s = clock()
            backend.decode(Batch(tuple(prompt[depth : depth + rows]), depth, logits_from=0))
            times_ms[rows - 1].append(1000 * (clock() - started_s))
            backend.sequence_remove(0, depth)
    return list(accumulate(map(median, reversed(times_ms)), min))[::-1]
