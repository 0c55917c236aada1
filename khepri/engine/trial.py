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

from khepri.engine.backend import Backend, BackendName, Batch, KvType, LoadOptions
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
    return Trial(tuple(found["tokens"]), Figures(float(found["prefill_ms"]), pass_ms), np.load(folder / _LOGITS))


def try_backend(backend: Backend, clock: Callable[[], float]) -> Trial:
    """Time passes of a loaded model, and keep what they say. Its first sequence holds the text afterwards."""
    tokens = tuple(backend.vocabulary.tokenize(_TEXT)[:PREFILL_TOKENS])
    backend.decode(Batch(tokens[:_WARM_UP_TOKENS], 0))
    backend.sequence_remove(0, 0)
    prefill_ms, rows = _evaluate(backend, tokens, PREFILL_TOKENS, clock)
    logits, pass_ms = [rows[-COMPARED_ROWS:]], {}
    before, compared = tokens[:-COMPARED_ROWS], tokens[-COMPARED_ROWS:]
    for width in WIDTHS:
        if not backend.sequence_remove(0, len(before)):
            # What cannot drop a tail begins anew.
            backend.sequence_remove(0, 0)
            backend.decode(Batch(before, 0))
        pass_ms[width], rows = _evaluate(backend, compared, width, clock)
        logits.append(rows)
    return Trial(tokens, Figures(prefill_ms, pass_ms), np.stack(logits))


def _evaluate(
    backend: Backend, tokens: Sequence[int], width: int, clock: Callable[[], float]
) -> tuple[float, NDArray[np.float32]]:
    """Evaluate ``tokens`` in passes of ``width``; return the milliseconds of the shortest pass and all logits."""
    start, times_s, rows = backend.sequence_length(0), [], []
    for offset in range(0, len(tokens), width):
        batch = Batch(tuple(tokens[offset : offset + width]), start + offset, logits_from=0)
        started_s = clock()
        logits = backend.decode(batch)
        times_s.append(clock() - started_s)
        rows.append(logits.copy())
    return 1000 * min(times_s), np.concatenate(rows)


def _write(folder: Path, trial: Trial) -> None:
    np.save(folder / _LOGITS, trial.logits)
    # The last to be written: where it is there, all is.
    (folder / _FIGURES).write_text(json.dumps({"tokens": trial.tokens, **asdict(trial.figures)}), encoding="utf-8")


def _try(options: LoadOptions, folder: Path) -> None:
    backend = load_backend(options)
    _write(folder, try_backend(backend, time.perf_counter))
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
