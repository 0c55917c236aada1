"""Tries one library with one model: how fast are its passes, and what are its logits?

A library may die of what it tries, so that a trial happens in a child process. What the figures are good for, and which
library is taken, is decided in ``choice.py``. Run as ``python -m khepri.engine.trial``, this module is that child.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from khepri.engine.backend import Backend, BackendName, Batch, KvType, LoadOptions, Logits
from khepri.engine.backends.loading import load_backend
from khepri.engine.hardware import describe_cpu
from khepri.engine.probe import as_child

PREFILL_TOKENS = 64
"""Tokens of the prefill that is timed, in one pass."""
WIDTHS = (1, 4, 8, 16)
"""Tokens of the other passes that are timed."""
COMPARED_ROWS = 16
"""The last tokens of the prefill, whose logits are kept."""

_CONTEXT_TOKENS = 256
_WARM_UP_TOKENS = 16
_FIGURES = "figures.json"
_LOGITS = "logits.npy"
# Ordinary code: what a model makes of it is far from a tie at most places, so that wrong logits show.
_TEXT = "def total(prices: list[float], rate: float) -> float:\n    return sum(prices) * (1 + rate)\n\n\n" * 5


@dataclass(frozen=True)
class Figures:
    """What passes take, each the shortest of a few."""

    prefill_ms: float
    """A pass of ``PREFILL_TOKENS``."""
    pass_ms: Mapping[int, float]
    """Passes of each of ``WIDTHS`` near its end."""
    share: float = 1.0
    """Part of its threads' time that the processor gave to the passes, from 0 to 1; other programs had the rest."""

    @property
    def prefill_tokens_per_s(self) -> float:
        """Speed of the prefill."""
        return 1000 * PREFILL_TOKENS / self.prefill_ms


@dataclass(frozen=True)
class Trial:
    """What a child found."""

    tokens: tuple[int, ...]
    """The text, as the library cuts it."""
    figures: Figures
    """What passes take."""
    logits: NDArray[np.float32]
    """Logits of the last tokens, as the prefill has them and as passes of each of ``WIDTHS`` have them; a library may
    be right at one width and wrong at another. ``[1 + len(WIDTHS), COMPARED_ROWS, n_vocab]``."""


def command(backend: BackendName, model: Path, extra_buffers: bool, threads: int, folder: Path) -> Sequence[str]:
    """Return the command of a child that leaves its findings in ``folder``."""
    # -P keeps the working folder, which may be a stranger's repository, off the import path.
    arguments = (backend, str(model), str(int(extra_buffers)), str(threads), str(folder))
    return (sys.executable, "-P", "-m", "khepri.engine.trial", *arguments)


def read(folder: Path) -> Trial:
    """Return what a child left in ``folder``.

    Raises:
        OSError: It left nothing.
        ValueError: It did not come to the end of it.
    """
    found = json.loads((folder / _FIGURES).read_text(encoding="utf-8"))
    pass_ms = {int(rows): float(ms) for rows, ms in found["pass_ms"].items()}
    figures = Figures(float(found["prefill_ms"]), pass_ms, float(found["share"]))
    return Trial(tuple(found["tokens"]), figures, np.load(folder / _LOGITS))


def try_backend(
    backend: Backend, threads: int, clock: Callable[[], float], processor_clock: Callable[[], float]
) -> Trial:
    """Time passes of a loaded model, and keep what they say. Its first sequence holds the text afterwards.

    Args:
        backend: The loaded model.
        threads: With so many it evaluates; they wait for each other without rest, so that a pass that is alone on the
            machine takes the time of all of them.
        clock: Tells the time in seconds.
        processor_clock: Tells the processor time of this process in seconds, that of all its threads.
    """
    tokens = tuple(backend.vocabulary.tokenize(_TEXT)[:PREFILL_TOKENS])
    backend.decode(Batch(tokens[:_WARM_UP_TOKENS], 0))
    backend.sequence_remove(0, 0)
    watch = _Watch(backend, clock, processor_clock)
    prefill_ms, rows = _evaluate(watch, tokens, PREFILL_TOKENS)
    logits, pass_ms = [rows[-COMPARED_ROWS:]], {}
    before, compared = tokens[:-COMPARED_ROWS], tokens[-COMPARED_ROWS:]
    for width in WIDTHS:
        if not backend.sequence_remove(0, len(before)):
            # What cannot drop a tail begins anew.
            backend.sequence_remove(0, 0)
            backend.decode(Batch(before, 0))
        pass_ms[width], rows = _evaluate(watch, compared, width)
        logits.append(rows)
    share = watch.processor_s / (threads * max(watch.passed_s, 1e-9))
    return Trial(tokens, Figures(prefill_ms, pass_ms, min(share, 1.0)), np.stack(logits))


class _Watch:
    """Runs passes, and adds up what they take."""

    def __init__(self, backend: Backend, clock: Callable[[], float], processor_clock: Callable[[], float]) -> None:
        self.backend = backend
        self._clock = clock
        self._processor_clock = processor_clock
        self.passed_s = 0.0
        self.processor_s = 0.0

    def decode(self, batch: Batch) -> tuple[float, Logits]:
        """Run a pass; return its seconds and its logits, which are valid until the next one."""
        processor_s, started_s = self._processor_clock(), self._clock()
        logits = self.backend.decode(batch)
        taken_s = self._clock() - started_s
        self.processor_s += self._processor_clock() - processor_s
        self.passed_s += taken_s
        return taken_s, logits


def _evaluate(watch: _Watch, tokens: Sequence[int], width: int) -> tuple[float, NDArray[np.float32]]:
    """Evaluate ``tokens`` in passes of ``width``; return the milliseconds of the shortest pass and all logits."""
    start, times_s, rows = watch.backend.sequence_length(0), [], []
    for offset in range(0, len(tokens), width):
        batch = Batch(tuple(tokens[offset : offset + width]), start + offset, logits_from=0)
        taken_s, logits = watch.decode(batch)
        times_s.append(taken_s)
        rows.append(logits.copy())
    return 1000 * min(times_s), np.concatenate(rows)


def _write(folder: Path, trial: Trial) -> None:
    np.save(folder / _LOGITS, trial.logits)
    # The last to be written: where it is there, all is.
    (folder / _FIGURES).write_text(json.dumps({"tokens": trial.tokens, **asdict(trial.figures)}), encoding="utf-8")


def _try(options: LoadOptions, folder: Path) -> None:
    backend = load_backend(options)
    _write(folder, try_backend(backend, options.threads, time.perf_counter, time.process_time))
    backend.close()


def _child(name: str, model: str, extra_buffers: str, threads: str, folder: str) -> int:
    cores = int(threads) or describe_cpu().physical_cores
    options = LoadOptions(
        Path(model),
        _CONTEXT_TOKENS,
        cores,
        PREFILL_TOKENS,
        extra_buffers=extra_buffers == "1",
        kv_type=KvType.AUTO,
        backend=BackendName(name),
    )
    return as_child(options.model_path, lambda: _try(options, Path(folder)))


if __name__ == "__main__":
    sys.exit(_child(*sys.argv[1:]))
