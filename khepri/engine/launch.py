"""From a model file to a running engine: probe, choose settings, load, and set the drafters up."""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from khepri.engine.assembly import CacheMaker, Speculation, build_engine
from khepri.engine.backend import Backend, BackendName, KvType, LoadOptions
from khepri.engine.backends.loading import load_backend
from khepri.engine.choice import REFERENCE, Choice, Machine, Tell, choose
from khepri.engine.disk import DiskTier, trim
from khepri.engine.draft.drafter import Drafter
from khepri.engine.draft.model import ModelDrafter
from khepri.engine.draft.repository_index import RepositoryIndex
from khepri.engine.draft.suffix import SuffixDrafter
from khepri.engine.exactness import compare_widths
from khepri.engine.generate import Engine
from khepri.engine.hardware import describe_cpu, total_memory_bytes
from khepri.engine.pass_cost import PassCosts
from khepri.engine.prefix import CacheLimits, choose_cache
from khepri.engine.prefix_cache import PrefixCache
from khepri.engine.probe import Verdict, library_build, probe
from khepri.engine.worker import EngineWorker, LoadStatus
from khepri.errors import ModelLoadError, OutOfMemoryError, UsageError
from khepri.models.fingerprint import fingerprint

_LEAST_PASS_TOKENS = 64
"""So many tokens fit into one pass whatever the batch of a prefill is: pending and drafted ones."""
_DRAFT_CONTEXT_TOKENS = 2048
_NOT_EXACT = 'leave --exact out (decoding = "fast"), or use another model'
_SELF_TEST = "def total(prices: list[float], rate: float) -> float:\n    return sum(prices) * (1 + rate)\n\n\n" * 5


@dataclass(frozen=True)
class EngineSettings:
    """How an engine is set up."""

    context_tokens: int = 8192
    """Cells of the KV cache."""
    threads: int = 0
    """Threads of a pass; 0 takes the physical cores."""
    batch_tokens: int = 128
    """Most tokens of one prefill pass."""
    extra_buffers: str = "auto"
    """``auto`` does what the probe found; ``on`` and ``off`` decide without it."""
    exact: bool = False
    """Take settings under which the width of a pass cannot change a token, and refuse to start where there are none."""
    draft_model: Path | None = None
    """The smaller model that drafts; None loads none."""
    backend: BackendName | None = BackendName.LLAMA_CPP
    """The library that runs the models; None takes the faster one on this machine, or the one that can be exact."""
    kv_type: KvType = KvType.AUTO
    """Precision of the keys and values."""
    cache_conversations: int = 8
    """Most conversations that are held in memory."""
    cache_tokens: int = 0
    """Most tokens of them together; one context has room in any case."""
    cache_bytes: int = 0
    """Most bytes of their keys and values; 0 sets no limit but that in tokens."""
    disk_bytes: int | None = None
    """Most bytes of keys and values on disk; 0 keeps none there, and None leaves what is there alone."""


@dataclass(frozen=True)
class EngineFiles:
    """Where an engine keeps what it found out about the machine; a file that cannot be used only costs time."""

    probe: Path
    """Verdicts of the probe."""
    pass_costs: Path
    """Costs of passes."""
    exactness: Path
    """Models for which exactness was proven on this machine."""
    prefixes: Path
    """Folder of keys and values that outlive the process."""
    choices: Path
    """Libraries that were chosen for models."""


def launch(
    model: Path,
    settings: EngineSettings,
    files: EngineFiles,
    repository: Callable[[], RepositoryIndex | None] = lambda: None,
) -> EngineWorker:
    """Start loading a model in the background and return its engine at once.

    Args:
        model: A GGUF file that was found to be complete.
        settings: How the engine is set up.
        files: Where it keeps what it finds out.
        repository: Returns the index of the repository's tokens as it is now, for the suffix drafter.

    What goes wrong with the load (``ModelLoadError``, ``OutOfMemoryError``) reaches everybody who waits for the engine.
    """
    closing, status = threading.Event(), LoadStatus()
    load_target, speculation, make_cache = _prepare(model, settings, files, repository, closing, status.tell)
    return EngineWorker(
        load_target,
        settings.batch_tokens,
        closing=closing,
        speculation=speculation,
        make_cache=make_cache,
        status=status,
    )


@contextmanager
def open_engine(model: Path, settings: EngineSettings, files: EngineFiles) -> Iterator[Engine]:
    """Yield an engine that the calling thread owns, for work that no one else waits for.

    Raises:
        ModelLoadError: The library refuses a model, or exactness was asked for and cannot be promised.
        OutOfMemoryError: A model does not fit into memory.
    """
    load_target, speculation, make_cache = _prepare(model, settings, files, lambda: None, threading.Event(), _silent)
    engine = build_engine(load_target, speculation, settings.batch_tokens, time.perf_counter, make_cache)
    try:
        yield engine
        speculation.save_costs(engine.backend, engine.costs)
    finally:
        engine.cascade.close()
        engine.backend.close()


def _prepare(
    model: Path,
    settings: EngineSettings,
    files: EngineFiles,
    repository: Callable[[], RepositoryIndex | None],
    closing: threading.Event,
    tell: Tell,
) -> tuple[Callable[[], Backend], Speculation, CacheMaker]:
    """Return what loads the target, what speculation needs besides, and what makes the prefix cache."""
    draft_context = min(settings.context_tokens, _DRAFT_CONTEXT_TOKENS)
    draft_settings = replace(
        settings,
        exact=False,
        context_tokens=draft_context,
        kv_type=KvType.F16,
        cache_conversations=0,
        cache_tokens=0,
    )

    def load(path: Path, how: EngineSettings) -> Backend:
        _check_memory(path)
        backend = backend_in_force(how)
        return load_backend(
            load_options(path, how, lambda: probe(path, files.probe, cancelled=closing, backend=backend))
        )

    def load_target() -> Backend:
        _check_memory(model)
        settled = settle_backend(model, settings, files, tell, closing)
        tell("loading")
        if not settings.exact:
            return load(model, settled)
        try:
            target = load(model, settled)
        except ModelLoadError as error:
            raise ModelLoadError(f"exact decoding cannot be promised here: {error.message}", _NOT_EXACT) from error
        _require_exactness(target, _identity(model, settings, target), files.exactness)
        return target

    def load_draft(path: Path, backend: BackendName) -> Backend:
        """Load the smaller model with the target's library or, if that was only chosen and cannot, with the other."""
        try:
            return load(path, replace(draft_settings, backend=backend))
        except ModelLoadError:
            if settings.backend is not None or backend is REFERENCE:
                raise
            return load(path, replace(draft_settings, backend=REFERENCE))

    def make_drafters(target: Backend) -> Sequence[Drafter]:
        drafters: list[Drafter] = [SuffixDrafter(repository)]
        if settings.draft_model is not None:
            draft = load_draft(settings.draft_model, target.capabilities.backend)
            drafters.append(ModelDrafter(draft, target.vocabulary, settings.batch_tokens, time.perf_counter))
        return drafters

    speculation = Speculation(
        make_drafters,
        lambda target: PassCosts.load(files.pass_costs, _identity(model, settings, target)),
        lambda target, costs: costs.save(files.pass_costs, _identity(model, settings, target)),
    )

    def make_cache(target: Backend) -> PrefixCache:
        limits = CacheLimits(settings.cache_conversations, settings.cache_tokens or None, settings.cache_bytes or None)
        if settings.disk_bytes == 0:
            trim(files.prefixes, 0)
        if not settings.disk_bytes:
            return choose_cache(target, limits)
        context = f"{_identity(model, settings, target)} | {fingerprint(model)}"
        return choose_cache(target, limits, DiskTier(files.prefixes, context, settings.disk_bytes))

    return load_target, speculation, make_cache


def settle_backend(
    model: Path, settings: EngineSettings, files: EngineFiles, tell: Tell, cancelled: threading.Event
) -> EngineSettings:
    """Return ``settings`` with the library named; see ``choose_backend``."""
    return replace(settings, backend=choose_backend(model, settings, files, tell, cancelled).backend)


def choose_backend(
    model: Path, settings: EngineSettings, files: EngineFiles, tell: Tell, cancelled: threading.Event
) -> Choice:
    """Return the library that ``settings`` name or, where they leave it open, the one that turns out to be faster.

    Args:
        model: The GGUF file.
        settings: How the engine is set up.
        files: Where findings are kept.
        tell: Told in a few words what is going on.
        cancelled: Set by another thread to give up.

    Raises:
        CancelledError: ``cancelled`` was set.
        ModelLoadError: No library can load the model.
        OutOfMemoryError: The model does not fit into memory.
    """
    if settings.backend is not None:
        return Choice(settings.backend, "as configured")
    if settings.exact:
        return Choice(REFERENCE, "the one that can decode exactly")
    extra_buffers = None if settings.extra_buffers == "auto" else settings.extra_buffers == "on"
    machine = Machine(files.probe, files.choices, settings.threads, extra_buffers, cancelled)
    return choose(model, machine, tell)


def backend_in_force(settings: EngineSettings) -> BackendName:
    """Return the library that ``settings`` name; where it is left open, the one that can load and promise anything."""
    return REFERENCE if settings.backend is None else settings.backend


def _silent(_: str) -> None:
    return


def load_options(model: Path, settings: EngineSettings, ask_probe: Callable[[], Verdict]) -> LoadOptions:
    """Return how a model is loaded on this machine.

    Args:
        model: The GGUF file.
        settings: How the engine is set up.
        ask_probe: Returns the probe's verdict, if it is asked; what it raises is raised here.

    Raises:
        UsageError: Exact decoding is asked of a library that cannot promise it.
    """
    cores = settings.threads or describe_cpu().physical_cores
    capacity, backend = max(settings.batch_tokens, _LEAST_PASS_TOKENS), backend_in_force(settings)
    options = LoadOptions(
        model,
        settings.context_tokens,
        cores,
        capacity,
        # One more for the conversation that begins, and one for copies.
        sequences=settings.cache_conversations + 2 if settings.cache_conversations else 1,
        kv_type=settings.kv_type,
        cells=settings.cache_tokens,
        backend=backend,
    )
    if settings.exact and backend is not BackendName.LLAMA_CPP:
        raise UsageError(
            f"{backend} cannot decode exactly: its logits depend on how many tokens a pass evaluates",
            f"set backend = {BackendName.LLAMA_CPP}, or leave --exact out",
        )
    if settings.exact:
        # Where tokens lie in the cache may change how their attention is rounded, so that they always lie in order.
        return replace(options, extra_buffers=False, kv_type=KvType.Q8_0, exact=True, sequences=2)
    choice = settings.extra_buffers
    if choice == "auto" or backend is not REFERENCE:
        # Another library may end the process over a model's shape, whatever the setting is.
        verdict = ask_probe()
        return replace(options, extra_buffers=verdict.extra_buffers if choice == "auto" else choice == "on")
    return replace(options, extra_buffers=choice == "on")


def _require_exactness(target: Backend, identity: str, known_file: Path) -> None:
    """Prove that pass widths do not matter, once for each model and machine.

    Raises:
        ModelLoadError: They do; ``target`` is closed.
    """
    if identity in _lines(known_file):
        return
    differing = [each for each in compare_widths(target, target.vocabulary.tokenize(_SELF_TEST)) if each.different_rows]
    if differing:
        target.close()
        widths = ", ".join(str(each.width) for each in differing)
        raise ModelLoadError(
            f"exact decoding cannot be promised here: passes of {widths} tokens give other logits than passes of one "
            f"(by up to {max(each.largest for each in differing):.2g})",
            _NOT_EXACT,
        )
    try:
        known_file.parent.mkdir(parents=True, exist_ok=True)
        with open(known_file, "a", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
            file.write(f"{identity}\n")
    except OSError:
        pass  # the next start proves it again


def _lines(file: Path) -> frozenset[str]:
    try:
        return frozenset(file.read_text(encoding="utf-8", errors="replace").splitlines())
    except OSError:
        return frozenset()


def _identity(model: Path, settings: EngineSettings, target: Backend) -> str:
    """Return what the time and the rounding of a pass depend on, in one line."""
    status = model.stat()
    threads = settings.threads or describe_cpu().physical_cores
    parts = (
        describe_cpu().fingerprint,
        target.capabilities.library,
        ",".join(target.capabilities.features),
        # One version may be compiled anew, with other flags: that rounds otherwise, and takes another time.
        library_build(target.capabilities.backend),
        f"{model.name} {status.st_size} {status.st_mtime_ns}",
        f"threads {threads}",
        f"context {settings.context_tokens}",
        f"batch {settings.batch_tokens}",
        f"keys and values {target.capabilities.kv_type}",
        f"extra buffers {settings.extra_buffers}",
        "exact" if settings.exact else "fast",
    )
    return " | ".join(parts).replace("\n", " ")


def _check_memory(model: Path) -> None:
    try:
        size, total = model.stat().st_size, total_memory_bytes()
    except OSError as error:
        raise ModelLoadError(f"cannot read the model {model}: {error.strerror}", "run `khepri models`") from error
    if size > total:
        raise OutOfMemoryError(
            f"{model} has {size / 1e9:.1f} GB and this machine has {total / 1e9:.1f} GB of memory",
            "choose a smaller model or a smaller quantization",
        )
