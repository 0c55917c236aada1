"""``khepri bench``: sets the arms up, runs the corpus and shows what was found."""

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from khepri import config, egress, paths
from khepri.agent.session import engine_files, engine_settings
from khepri.cli.ask import draft_model_of
from khepri.cli.bench.baseline import BaselineProcess
from khepri.cli.bench.corpus import Item, load_corpus
from khepri.cli.bench.figures import class_figures
from khepri.cli.bench.profile import profile
from khepri.cli.bench.report import Findings, Setting, print_findings, print_json
from khepri.cli.bench.runs import Arm, ArmName, BaselineArm, EngineArm, run_all, warm_up
from khepri.cli.progress import shown_progress
from khepri.config import Config, Value
from khepri.engine.backend import BackendName, LoadOptions
from khepri.engine.hardware import describe_cpu
from khepri.engine.launch import EngineSettings, backend_in_force, launch, load_options, settle_backend
from khepri.engine.probe import probe
from khepri.engine.request import DraftMode
from khepri.engine.worker import EngineWorker
from khepri.errors import NoModelError, UsageError
from khepri.models.catalogue import DEFAULT_DRAFT
from khepri.models.stores import Model, default_model, find
from khepri.repo.root import Repository

QUICK_REPEATS = 1
"""Repeats of ``--quick``, which takes a part of the corpus only."""
REPEATS = 3
"""Repeats otherwise."""
_QUICK_TOKENS = 64
_MOST_REPEATS = 100


@dataclass(frozen=True)
class Target:
    """What is measured, and how it is loaded."""

    settings: Config
    """The configuration in force."""
    model: Model
    """The target."""
    draft_model: Model | None
    """The smaller model that drafts."""
    engine: EngineSettings
    """How Khepri's engine is set up."""
    options: LoadOptions
    """How a backend is loaded by hand for what times single passes."""
    baseline: LoadOptions
    """How the baseline is loaded."""


def run(cwd: Path, flags: Mapping[str, Value], *, quick: bool, as_json: bool, repeats: int | None) -> None:
    """Run the corpus and print what was found on standard output; progress goes to standard error. Takes minutes.

    Args:
        cwd: Folder whose configuration counts; the corpus is the same everywhere.
        flags: What the command line says of the configuration.
        quick: Run a part once.
        as_json: Print one JSON object.
        repeats: How often each item runs; None takes the usual number.

    Raises:
        UsageError: ``repeats`` or a flag cannot be used.
        NoModelError: A model is not on this machine.
        ModelError: A model cannot be loaded, or a pass failed.
    """
    times = repeats if repeats is not None else QUICK_REPEATS if quick else REPEATS
    if not 1 <= times <= _MOST_REPEATS:
        raise UsageError(f"--repeats {times} is not from 1 to {_MOST_REPEATS}")
    target = resolve(cwd, flags)
    with shown_progress("benchmarking") as progress, ExitStack() as stack:
        progress("loading the model", 0, 1)
        engine = stack.enter_context(start_engine(target.model, target.engine))
        plain = stack.enter_context(BaselineProcess(target.baseline))
        vocabulary, library = engine.vocabulary, engine.backend.capabilities
        items = choose(load_corpus(vocabulary), quick=quick)
        arms = _arms(target.settings, engine, BaselineArm(plain, vocabulary.end_ids))
        progress("warming up", 0, 1)
        warm_up(arms, items[-1])
        runs = run_all(arms, items, times, progress)
        drafters = engine.draft_statistics
        answers = {run.item: run.tokens for run in runs if run.arm is ArmName.ACCELERATED}
        parts = profile(vocabulary, items, answers, time.perf_counter) if answers else None
    setting = _setting(target, f"{library.library} ({', '.join(library.features)})", times, is_quick=quick)
    findings = Findings(setting, class_figures(runs), drafters, parts, runs)
    show = print_json if as_json else print_findings
    show(findings)


def resolve(cwd: Path, flags: Mapping[str, Value], check: Callable[[Config], None] = lambda _: None) -> Target:
    """Return what is to be measured under the configuration in force; asks the probe, and measures the libraries.

    Args:
        cwd: Folder whose configuration counts.
        flags: What the command line says of it.
        check: Refuses a configuration by raising, before anything takes time.

    Raises:
        UsageError: The folder or a setting cannot be used.
        NoModelError: A model is not on this machine.
        ModelError: A model is damaged, or the library cannot be used.
    """
    settings = config.load(Repository.open(cwd).root, flags, os.environ).config
    check(settings)
    if settings.network_lock is config.NetworkLock.REQUIRED:
        egress.require_strong(egress.lock())
    model = find(settings.model) if settings.model else default_model()
    draft_model = draft_model_of(settings)
    engine = settle_backend(
        model.path,
        # What is measured must not depend on what an earlier run left on the disk, nor change it.
        replace(engine_settings(settings, draft_model), disk_bytes=None),
        engine_files(),
        lambda doing: print(f"khepri: {doing} {model.name}", file=sys.stderr),
        threading.Event(),
    )
    options = _load_options(model, replace(engine, exact=False))
    baseline = _load_options(model, replace(engine, exact=False, backend=BackendName.LLAMA_CPP))
    return Target(settings, model, draft_model, engine, options, baseline)


def _load_options(model: Model, engine: EngineSettings) -> LoadOptions:
    backend = backend_in_force(engine)
    return load_options(model.path, engine, lambda: probe(model.path, paths.probe_cache_file(), backend=backend))


def start_engine(model: Model, settings: EngineSettings) -> EngineWorker:
    """Return an engine that has its files where ``khepri ask`` has them; no repository's tokens are drafted from."""
    return launch(model.path, settings, engine_files())


def choose(items: Sequence[Item], *, quick: bool) -> Sequence[Item]:
    """Return what is run: everything, or the brief part of the corpus with shorter answers."""
    if not quick:
        return items
    return [replace(item, max_tokens=min(item.max_tokens, _QUICK_TOKENS)) for item in items if item.is_brief]


def _arms(settings: Config, engine: EngineWorker, baseline: BaselineArm) -> list[Arm]:
    arms: list[Arm] = [baseline, EngineArm(engine, ArmName.PLAIN, DraftMode.OFF)]
    if settings.draft is not config.Draft.OFF:
        arms.append(EngineArm(engine, ArmName.ACCELERATED, DraftMode(settings.draft), settings.gamma))
    return arms


def _setting(target: Target, library: str, repeats: int, *, is_quick: bool) -> Setting:
    settings, cpu = target.settings, describe_cpu()
    return Setting(
        machine=f"{cpu.name}, {cpu.physical_cores} cores",
        library=library,
        model=target.model.name,
        draft_model=target.draft_model.name if target.draft_model else None,
        untried_draft_model=_untried(target),
        threads=target.options.threads,
        context_tokens=settings.context_tokens,
        batch_tokens=settings.batch_tokens,
        extra_buffers=target.options.extra_buffers,
        draft=settings.draft,
        gamma=settings.gamma,
        decoding=settings.decoding,
        repeats=repeats,
        is_quick=is_quick,
    )


def _untried(target: Target) -> str | None:
    if target.draft_model is not None or target.settings.draft is config.Draft.OFF or not target.model.is_default:
        return None
    try:
        return find(DEFAULT_DRAFT.name).name
    except NoModelError:
        return None
