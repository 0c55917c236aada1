"""Which library runs a model: the fastest one here that agrees with llama.cpp.

Which one that is depends on the processor, on how the libraries were built and on the model, so it is measured, once
for each of them, and remembered. Each library is tried in a child process: one that dies is out. How a trial goes is
``trial.py``'s business.
"""

import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from khepri.engine import json_cache, trial
from khepri.engine.backend import BackendName
from khepri.engine.hardware import describe_cpu
from khepri.engine.probe import ChildResult, library_build, probe, raise_if_refused, run_child
from khepri.engine.trial import PREFILL_TOKENS, WIDTHS, Figures, Trial
from khepri.errors import ModelError, ModelLoadError, OutOfMemoryError

LARGEST_SHIFT = 0.25
"""Most probability that a library may move to other tokens than llama.cpp sees, at any place of the text.

Rounding moves some hundredths, wrong arithmetic nearly all.
"""

REFERENCE = BackendName.LLAMA_CPP
"""The library that the others have to agree with, and that is taken where nothing else is known."""

# What an agent's step is made of, roughly: tokens of a prefill, and passes by their width.
_PREFILL_TOKENS = 256
_PASSES: Mapping[int, int] = {1: 32, 4: 8, 8: 8}
LEAST_SHARE = 0.85
"""With a smaller part of the processor a library was measured beside other programs, and its figures say little."""

# Another library has to be this much faster: what was measured twice differs by some per cent.
_LEAST_GAIN = 0.05
_MOST_CHOICES = 32
# A machine that is always busy is not to be measured at every start; of each pass, the shortest of all trials counts.
_MOST_ATTEMPTS = 3

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Candidate:
    """What was found of one library."""

    backend: BackendName
    """The library."""
    figures: Figures | None
    """How fast it is; None if it is out."""
    refusal: str = ""
    """Why it is out."""

    @property
    def step_ms(self) -> float:
        """Time of a typical step of the agent; infinite if it is out."""
        if self.figures is None:
            return float("inf")
        passes_ms = sum(count * self.figures.pass_ms[rows] for rows, count in _PASSES.items())
        return 1000 * _PREFILL_TOKENS / self.figures.prefill_tokens_per_s + passes_ms

    @property
    def is_sure(self) -> bool:
        """True if it would come out so on a quiet machine."""
        return self.figures is None or self.figures.share >= LEAST_SHARE

    def joined(self, earlier: "Candidate | None") -> "Candidate":
        """Return it with the best that an earlier trial found of it as well."""
        if self.figures is None or earlier is None or earlier.figures is None:
            return self
        mine, other = self.figures, earlier.figures
        pass_ms = {rows: min(ms, other.pass_ms[rows]) for rows, ms in mine.pass_ms.items()}
        best = Figures(min(mine.prefill_ms, other.prefill_ms), pass_ms, max(mine.share, other.share))
        return replace(self, figures=best)

    def describe(self) -> str:
        """Return its figures in one line, or why it is out."""
        if self.figures is None:
            return f"{self.backend} is out: {self.refusal}"
        passes = ", ".join(f"{ms:.0f}" for ms in self.figures.pass_ms.values())
        widths = ", ".join(map(str, self.figures.pass_ms))
        return (
            f"{self.backend}: prefill {self.figures.prefill_tokens_per_s:.0f} tokens/s, passes of {widths} tokens in "
            f"{passes} ms"
        )


@dataclass(frozen=True)
class Choice:
    """The library that is taken, and why."""

    backend: BackendName
    """The library."""
    reason: str
    """One sentence for ``khepri doctor``."""
    candidates: tuple[Candidate, ...] = ()
    """What was measured; empty if there was nothing to choose."""
    was_cached: bool = False
    """True if it was measured before."""
    attempts: int = 1
    """How often it was measured: again, a few times, if other programs were at work."""

    @property
    def is_final(self) -> bool:
        """True if nothing is to be measured again."""
        return self.attempts >= _MOST_ATTEMPTS or all(candidate.is_sure for candidate in self.candidates)


@dataclass(frozen=True)
class Machine:
    """What trials need besides the model."""

    probe_file: Path
    """Where the probe keeps its verdicts."""
    choice_file: Path
    """Where choices are kept; a file that cannot be used only costs time."""
    threads: int
    """Threads of a pass; 0 takes the physical cores."""
    extra_buffers: bool | None
    """Whether weights may be repacked; None asks the probe."""
    cancelled: threading.Event
    """Set by another thread to give up."""


def choose(model: Path, machine: Machine, tell: Tell) -> Choice:
    """Return the library for ``model``: measures what is installed, the first time, which takes some seconds.

    What was measured beside other programs is measured again by the next calls, a few times at most.

    Args:
        model: The GGUF file.
        machine: Where findings are kept, and with how many threads is measured.
        tell: Told in a few words what is going on.

    Raises:
        CancelledError: ``machine.cancelled`` was set, or a child was interrupted from the keyboard.
        ModelLoadError: No library is installed or can load the model.
        OutOfMemoryError: The model does not fit into memory.
    """
    builds = _installed()
    if len(builds) < 2:
        only = next(iter(builds), REFERENCE)
        return Choice(only, "no other library is installed")
    key = _key(model, builds, machine)
    known = _read(machine.choice_file, key)
    if known is not None and known.is_final:
        return known
    candidates, is_lasting = _try_all(model, builds, machine, tell)
    if known is not None:
        before = {candidate.backend: candidate for candidate in known.candidates}
        candidates = [candidate.joined(before.get(candidate.backend)) for candidate in candidates]
    choice = replace(decide(candidates), attempts=1 + (known.attempts if known is not None else 0))
    if is_lasting:
        _write(machine.choice_file, key, choice)
    return choice


def decide(candidates: Sequence[Candidate]) -> Choice:
    """Return the choice among what was measured: the fastest, llama.cpp where the gain is too small to be sure of."""
    best = min(candidates, key=lambda candidate: candidate.step_ms)
    reference = next((each for each in candidates if each.backend is REFERENCE), best)
    if best is reference or best.step_ms > (1 - _LEAST_GAIN) * reference.step_ms:
        others = [each for each in candidates if each is not reference]
        slower = all(each.figures is not None for each in others)
        reason = f"no other library is faster by {_LEAST_GAIN:.0%}" if slower else "no other library can be used"
        return Choice(reference.backend, reason, tuple(candidates))
    if reference.figures is None:
        return Choice(best.backend, "the only library that can be used", tuple(candidates))
    ratio = reference.step_ms / best.step_ms
    return Choice(best.backend, f"{ratio:.2f} times as fast as {reference.backend}", tuple(candidates))


def shift(logits: NDArray[np.float32], reference: NDArray[np.float32]) -> float:
    """Return the most probability that lies on other tokens in one row than in the other's, from 0 to 1.

    Args:
        logits: Rows ``[n_rows, n_vocab]``.
        reference: Rows of the same shape.
    """
    moved = np.abs(_probabilities(logits) - _probabilities(reference)).sum(axis=1) / 2
    return float(moved.max())


def _probabilities(logits: NDArray[np.float32]) -> NDArray[np.float64]:
    weights = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _installed() -> dict[BackendName, str]:
    builds = {}
    for backend in BackendName:
        try:
            builds[backend] = library_build(backend)
        except ModelLoadError:
            continue
    return builds


def _try_all(
    model: Path, backends: Mapping[BackendName, str], machine: Machine, tell: Tell
) -> tuple[list[Candidate], bool]:
    """Return what came of each library, and whether it would come out so tomorrow."""
    trials: dict[BackendName, Trial] = {}
    errors: dict[BackendName, ModelError] = {}
    is_lasting = True
    for number, backend in enumerate(backends, start=1):
        tell(f"measuring {backend} ({number} of {len(backends)}, only once) with")
        try:
            trials[backend], may_keep = _try(model, backend, machine)
            is_lasting = is_lasting and may_keep
        except ModelError as error:
            errors[backend] = error
            is_lasting = is_lasting and not isinstance(error, OutOfMemoryError)
    if not trials:
        raise next(iter(errors.values()))
    reference = trials.get(REFERENCE)
    candidates = []
    for backend in backends:
        if backend in errors:
            candidates.append(Candidate(backend, None, errors[backend].message))
        else:
            refusal = disagreement(trials[backend], reference) if reference is not None else ""
            candidates.append(Candidate(backend, None if refusal else trials[backend].figures, refusal))
    return candidates, is_lasting


def disagreement(found: Trial, reference: Trial) -> str:
    """Return in what a library differs from another one beyond rounding; empty if it does not."""
    if found.tokens != reference.tokens:
        return "it cuts text into other tokens"
    if found.logits.shape != reference.logits.shape:
        return "its vocabulary has another size"
    for width, logits, expected in zip((PREFILL_TOKENS, *WIDTHS), found.logits, reference.logits, strict=True):
        moved = shift(logits, expected)
        if not moved <= LARGEST_SHIFT:
            return (
                f"with {width} tokens a pass it moves {moved:.0%} of the probability to other tokens than {REFERENCE}, "
                "more than rounding can"
            )
    return ""


def _try(model: Path, backend: BackendName, machine: Machine) -> tuple[Trial, bool]:
    """Try a library under the fastest settings that it survives; also return whether it would come out so tomorrow."""
    with tempfile.TemporaryDirectory(prefix="khepri-trial-") as folder:
        found = Path(folder)

        def run(path: Path, extra_buffers: bool) -> ChildResult:
            command = trial.command(backend, path, extra_buffers, machine.threads, found)
            return run_child(command, machine.cancelled)

        verdict = None
        if machine.extra_buffers is None:
            # The trial is the probe's first load as well, if the machine is not known yet.
            verdict = probe(model, machine.probe_file, run, backend=backend)
        if verdict is None or verdict.was_cached:
            result = run(model, bool(machine.extra_buffers) if verdict is None else verdict.extra_buffers)
            raise_if_refused(model, result)
            if result.returncode != 0:
                raise ModelLoadError(f"its trial ended with status {result.returncode}: {result.message}")
        try:
            return trial.read(found), verdict is None or verdict.is_lasting
        except (OSError, ValueError) as error:
            raise ModelLoadError(f"its trial left no figures: {error}") from error


def _key(model: Path, builds: Mapping[BackendName, str], machine: Machine) -> str:
    """Return what a choice depends on, in one line."""
    status = model.stat()
    libraries = " ".join(f"{backend} {build}" for backend, build in builds.items())
    parts = (libraries, describe_cpu().fingerprint, f"{model.name} {status.st_size} {status.st_mtime_ns}")
    threads = machine.threads or describe_cpu().physical_cores
    return " | ".join((*parts, f"threads {threads}", f"extra buffers {machine.extra_buffers}"))


def _read(file: Path, key: str) -> Choice | None:
    known: dict[str, Any] = json_cache.read(file)
    try:
        entry = known[key]
        candidates = tuple(_candidate(each) for each in entry["candidates"])
        attempts = int(entry["attempts"])
        return Choice(BackendName(entry["backend"]), str(entry["reason"]), candidates, True, attempts)
    except (ValueError, LookupError, TypeError, AttributeError):
        return None


def _candidate(entry: Mapping[str, Any]) -> Candidate:
    figures = entry["figures"]
    if figures is not None:
        pass_ms = {int(rows): float(ms) for rows, ms in figures["pass_ms"].items()}
        figures = Figures(float(figures["prefill_ms"]), pass_ms, float(figures["share"]))
    return Candidate(BackendName(entry["backend"]), figures, str(entry["refusal"]))


def _write(file: Path, key: str, choice: Choice) -> None:
    others = {known: entry for known, entry in json_cache.read(file).items() if known != key}
    kept = dict(list(others.items())[1 - _MOST_CHOICES :])
    entry = {
        "backend": choice.backend,
        "reason": choice.reason,
        "candidates": [asdict(candidate) for candidate in choice.candidates],
        "attempts": choice.attempts,
    }
    json_cache.write(file, {**kept, key: entry})
