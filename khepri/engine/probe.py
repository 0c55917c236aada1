"""Probe before trust: the first load of a model on a machine happens in a child process.

Some machines report a CPU feature and fault on its first instruction (AMX in virtual machines), so a native build of
llama.cpp dies with a signal on its first batch. A child dies instead, the next safer setting is tried, and the verdict
is kept for this (library build, CPU, model) triple.

Run as ``python -m khepri.engine.probe``, this module is that child.
"""

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from khepri.engine import json_cache
from khepri.engine.backend import BackendName, Batch, KvType, LoadOptions
from khepri.engine.backends.loading import load_backend
from khepri.engine.hardware import describe_cpu
from khepri.engine.parent import die_with_parent
from khepri.errors import CancelledError, KhepriError, ModelLoadError, OutOfMemoryError

_CONTEXT_TOKENS = 256
_PROBE_TOKENS = 48
_TIMEOUT_S = 300
_POLL_S = 0.1
_REFUSED = 3
_NO_MEMORY = 4
_ABORT = re.compile(r"(?:\S*/)?(\S+\.(?:c|cc|cpp|h|hpp):\d+: .+)")
"""A line that names a place in the library's source."""
_NATIVE_FILE = re.compile(r".+\.(so|dylib|dll)(\.\d+)*")
# What a processor does to a program. SIGABRT is not among them: the library also aborts itself when memory runs out.
_CPU_FAULTS = frozenset({signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV})


@dataclass(frozen=True)
class _Library:
    distribution: str
    package: str
    if_missing: str
    if_it_dies: str
    if_it_gives_up: str


_LIBRARIES = {
    BackendName.LLAMA_CPP: _Library(
        "llama-cpp-python",
        "llama_cpp",
        "install khepri again",
        "rebuild llama-cpp-python for this machine, as the README's section on crashes shows",
        "choose another model: khepri models",
    ),
    BackendName.IK_LLAMA: _Library(
        "ik-llama-cpp-python",
        "ik_llama_cpp",
        'install it with: pip install "khepri[fast]"',
        f"set backend = {BackendName.LLAMA_CPP}",
        f"set backend = {BackendName.LLAMA_CPP}",
    ),
}


@dataclass(frozen=True)
class Verdict:
    """Whether the repacked weight buffers may be used, and how that was found."""

    extra_buffers: bool
    reason: str
    """One sentence for ``khepri doctor``."""
    was_cached: bool = False
    """True if the verdict came from an earlier probe."""
    is_lasting: bool = True
    """False if the same probe may end otherwise tomorrow, as when memory or time ran short; it is not kept then."""


@dataclass(frozen=True)
class ChildResult:
    """How the child ended."""

    returncode: int
    """Exit status; negative is the signal that ended it."""
    message: str
    """Its last words."""


ChildRunner = Callable[[Path, bool], ChildResult]


def probe(
    model: Path,
    cache_file: Path,
    run: ChildRunner | None = None,
    cancelled: threading.Event | None = None,
    backend: BackendName = BackendName.LLAMA_CPP,
) -> Verdict:
    """Return the fastest settings under which ``model`` survives a first batch on this machine.

    Costs one load of the model the first time and nothing afterwards.

    Args:
        model: The GGUF file.
        cache_file: Where verdicts are kept; a file that cannot be read or written only costs a new probe.
        run: Runs one probe; the default starts this module in a child process.
        cancelled: Set by another thread to kill the child and give up.
        backend: The library to be tried.

    Raises:
        CancelledError: ``cancelled`` was set, or the child was interrupted from the keyboard, as everything in a
            terminal's foreground is.
        ModelLoadError: The library is missing, refuses the file, or dies under every setting.
        OutOfMemoryError: The model does not fit into memory.
    """
    key = _key(model, backend)
    known = _read_verdicts(cache_file)
    if key in known:
        return Verdict(known[key].extra_buffers, known[key].reason, was_cached=True)
    runner = run or _child_runner(backend, cancelled or threading.Event())
    verdict = _first_survivor(model, backend, runner)
    if verdict.is_lasting:
        _write_verdicts(cache_file, {**known, key: verdict})
    return verdict


def _first_survivor(model: Path, backend: BackendName, run: ChildRunner) -> Verdict:
    fast = run(model, True)
    if fast.returncode == 0:
        return Verdict(True, "a first batch with repacked weights came through")
    raise_if_refused(model, fast)
    safe = run(model, False)
    if safe.returncode == 0:
        reason = f"with repacked weights the library died ({_cause(fast)}); without them it works"
        return Verdict(False, reason, is_lasting=-fast.returncode in _CPU_FAULTS)
    raise_if_refused(model, safe)
    if safe.returncode == -signal.SIGKILL:
        raise OutOfMemoryError(
            f"the system killed the process that tried {model}, most likely because memory ran out",
            "close other programs, or choose a smaller model",
        )
    if fast == safe and safe.returncode == -signal.SIGABRT and _ABORT.match(safe.message):
        # A shape that its kernels do not bear is no matter of the processor or of a setting.
        raise ModelLoadError(
            f"{backend} cannot run {model.name}: it ends its process itself ({safe.message})",
            _LIBRARIES[backend].if_it_gives_up,
        )
    raise ModelLoadError(
        f"the inference library dies on this CPU with every setting ({_cause(fast)}; {_cause(safe)})",
        _LIBRARIES[backend].if_it_dies,
    )


def raise_if_refused(model: Path, result: ChildResult) -> None:
    """Raise what a child's end stands for, if it was the user's or the library's own decision.

    Raises:
        CancelledError: It was interrupted from the keyboard.
        ModelLoadError: The library refuses the model.
        OutOfMemoryError: The model does not fit into memory.
    """
    if result.returncode == -signal.SIGINT:
        raise CancelledError("the first try of the model was interrupted")
    if result.returncode == _REFUSED:
        raise ModelLoadError(result.message or f"the library refuses {model}", "fetch the file again")
    if result.returncode == _NO_MEMORY:
        raise OutOfMemoryError(result.message or f"{model} does not fit into memory", "choose a smaller model")


def _cause(result: ChildResult) -> str:
    if result.returncode >= 0:
        return f"exit status {result.returncode}" + (f": {result.message}" if result.message else "")
    if result.returncode == -signal.SIGABRT and result.message:
        return f"SIGABRT: {result.message}"
    try:
        return signal.Signals(-result.returncode).name
    except ValueError:
        return f"signal {-result.returncode}"


def _child_runner(backend: BackendName, cancelled: threading.Event) -> ChildRunner:
    def run(model: Path, extra_buffers: bool) -> ChildResult:
        # -P keeps the working folder, which may be a stranger's repository, off the import path.
        command = [sys.executable, "-P", "-m", "khepri.engine.probe", backend, str(model), str(int(extra_buffers))]
        return run_child(command, cancelled)

    return run


def run_child(command: Sequence[str], cancelled: threading.Event) -> ChildResult:
    """Run a command to its end, whatever that is, or until its time is over.

    Args:
        command: What is run; its output is dropped.
        cancelled: Set by another thread to kill it.

    Raises:
        CancelledError: ``cancelled`` was set.
    """
    with _start_deaf(command) as child:
        try:
            errors = _await_end(child, cancelled)
        finally:
            child.kill()
    if errors is None:
        return ChildResult(1, f"no answer within {_TIMEOUT_S} s")
    return ChildResult(child.returncode, _last_words(errors.decode("utf-8", "replace")))


def _last_words(errors: str) -> str:
    """Return why the library ended itself, which a debugger's noise may follow, or the last line if it did not."""
    lines = errors.strip().splitlines()
    reasons = (found[1] for line in lines if (found := _ABORT.match(line)))
    return next(reasons, lines[-1] if lines else "")


def _start_deaf(command: Sequence[str]) -> subprocess.Popen[bytes]:
    """Start a child in which SIGINT waits until it can mean something: an import turns it into any other error."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _await_end(child: subprocess.Popen[bytes], cancelled: threading.Event) -> bytes | None:
    """Return what an ended child wrote to its error stream, or None when its time is over."""
    deadline_s = time.monotonic() + _TIMEOUT_S
    while time.monotonic() < deadline_s:
        if cancelled.is_set():
            raise CancelledError("the first try of the model was cancelled")
        try:
            return child.communicate(timeout=_POLL_S)[1]
        except subprocess.TimeoutExpired:
            continue
    return None


def _key(model: Path, backend: BackendName) -> str:
    """Return the identity of (library build, CPU, model file)."""
    return "|".join((library_build(backend), describe_cpu().fingerprint, _file_identity(model)))


def library_build(backend: BackendName) -> str:
    """Identify an installed library by version and the size and time of its native files, without importing it.

    Raises:
        ModelLoadError: It is not installed.
    """
    library = _LIBRARIES[backend]
    try:
        distribution = metadata.distribution(library.distribution)
    except metadata.PackageNotFoundError:
        raise ModelLoadError(f"{library.distribution} is not installed", library.if_missing) from None
    # The second folder is where a ready wheel has what its libraries are linked with. What a wheel puts anywhere else
    # is loaded by nobody, and another one may write over it.
    folders = (library.package, f"{library.distribution.replace('-', '_')}.libs")
    paths = (path for folder in folders for path in Path(str(distribution.locate_file(folder))).rglob("*"))
    natives = (path for path in paths if _NATIVE_FILE.fullmatch(path.name))
    return ";".join([distribution.version, *sorted(_file_identity(path) for path in natives if path.exists())])


def _file_identity(path: Path) -> str:
    status = path.stat()
    return f"{path.name}:{status.st_size}:{status.st_mtime_ns}"


def _read_verdicts(cache_file: Path) -> dict[str, Verdict]:
    entries: dict[str, Any] = json_cache.read(cache_file)
    try:
        return {key: Verdict(bool(e["extra_buffers"]), str(e["reason"])) for key, e in entries.items()}
    except (KeyError, TypeError):
        return {}


def _write_verdicts(cache_file: Path, verdicts: dict[str, Verdict]) -> None:
    json_cache.write(cache_file, {key: _entry(verdict) for key, verdict in verdicts.items()})


def _entry(verdict: Verdict) -> dict[str, bool | str]:
    return {"extra_buffers": verdict.extra_buffers, "reason": verdict.reason}


def as_child(model: Path, work: Callable[[], None]) -> int:
    """Do ``work`` with ``model`` as a child of ``run_child``; return the exit status that tells how it ended."""
    import resource

    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        work()
    except OutOfMemoryError as error:
        print(error.message, file=sys.stderr)
        return _NO_MEMORY
    except MemoryError:
        print(f"memory ran out while {model} was loaded", file=sys.stderr)
        return _NO_MEMORY
    except KhepriError as error:
        print(error.message, file=sys.stderr)
        return _REFUSED
    return 0


def _child(backend: BackendName, model: Path, extra_buffers: bool) -> int:
    """Load the model and evaluate one batch wide enough to reach the library's matrix kernels."""
    cores = describe_cpu().physical_cores
    options = LoadOptions(
        model,
        _CONTEXT_TOKENS,
        cores,
        _PROBE_TOKENS,
        extra_buffers=extra_buffers,
        kv_type=KvType.AUTO,
        backend=backend,
    )

    def work() -> None:
        loaded = load_backend(options)
        tokens = tuple(range(_PROBE_TOKENS))
        loaded.decode(Batch(tokens, 0))
        loaded.decode(Batch(tokens[:1], len(tokens)))
        loaded.close()

    return as_child(model, work)


if __name__ == "__main__":
    sys.exit(_child(BackendName(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "1"))
