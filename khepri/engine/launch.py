"""From a model file to a running engine: probe, choose settings, load."""

import threading
from collections.abc import Callable
from pathlib import Path

from khepri.engine.backend import Backend, LoadOptions
from khepri.engine.hardware import describe_cpu, total_memory_bytes
from khepri.engine.probe import Verdict, probe
from khepri.engine.worker import EngineWorker
from khepri.errors import ModelLoadError, OutOfMemoryError


def launch(
    model: Path, *, context_tokens: int, threads: int, batch_tokens: int, extra_buffers: str, probe_cache: Path
) -> EngineWorker:
    """Start loading a model in the background and return its engine at once.

    Args:
        model: A GGUF file that was found to be complete.
        context_tokens: Cells of the KV cache.
        threads: Threads of a pass; 0 takes the physical cores.
        batch_tokens: Most tokens of one prefill pass.
        extra_buffers: ``auto`` asks the probe; ``on`` and ``off`` decide without it.
        probe_cache: Where the probe keeps its verdicts.

    What goes wrong with the load (``ModelLoadError``, ``OutOfMemoryError``) reaches everybody who waits for the engine.
    """
    closing = threading.Event()

    def load() -> Backend:
        _check_memory(model)
        options = load_options(
            model,
            context_tokens=context_tokens,
            threads=threads,
            batch_tokens=batch_tokens,
            extra_buffers=extra_buffers,
            ask_probe=lambda: probe(model, probe_cache, cancelled=closing),
        )
        # The library is imported only now: its import costs time, and a first load belongs to the probe's child.
        from khepri.engine.backends.llama_cpp import LlamaCppBackend

        return LlamaCppBackend(options)

    return EngineWorker(load, batch_tokens, closing=closing)


def load_options(
    model: Path,
    *,
    context_tokens: int,
    threads: int,
    batch_tokens: int,
    extra_buffers: str,
    ask_probe: Callable[[], Verdict],
) -> LoadOptions:
    """Return how a model is loaded on this machine.

    Args:
        model: The GGUF file.
        context_tokens: Cells of the KV cache.
        threads: Threads of a pass; 0 takes the physical cores.
        batch_tokens: Most tokens of one prefill pass.
        extra_buffers: ``auto`` asks the probe; ``on`` and ``off`` decide without it.
        ask_probe: Returns the probe's verdict; what it raises is raised here.
    """
    allowed = ask_probe().extra_buffers if extra_buffers == "auto" else extra_buffers == "on"
    cores = threads or describe_cpu().physical_cores
    return LoadOptions(model, context_tokens, cores, batch_tokens, extra_buffers=allowed)


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
