"""Loads the native library in a child process to see what it is and how fast it is.

``khepri doctor`` is asked when things break, so it must outlive whatever breaks: a library that dies at its import, a
model that takes all memory, a machine that never answers. The child speaks JSON, one object a line, on its standard
output. Run as ``python -m khepri.cli.measurement``, this module is that child.
"""

import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from khepri.engine.backend import Backend, Batch, LoadOptions
from khepri.engine.parent import die_with_parent
from khepri.errors import KhepriError, ModelError, ModelLoadError, OutOfMemoryError

PREFILL_TOKENS = 128
"""Tokens of a measured prefill."""
DECODE_TOKENS = 24
"""Tokens of a measured decode."""

_PREFILLS = 2
_LIBRARY_TIMEOUT_S = 60.0
_MEASURE_TIMEOUT_S = 600.0
_MOST_ERROR_BYTES = 8192

Progress = Callable[[str], None]


@dataclass(frozen=True)
class Library:
    """The native library as it describes itself."""

    version: str
    """Version of llama-cpp-python."""
    features: frozenset[str]
    """CPU features and build options that were compiled in, by llama.cpp's names, such as ``AVX2``."""


@dataclass(frozen=True)
class Measurement:
    """What a loaded model turned out to be."""

    trained_context_tokens: int
    """Context length that the model was trained for."""
    has_chat_template: bool
    """True if the file carries a chat template of its own."""
    kv_bytes: int
    """Size of the keys and values of a full context, calculated from those of the measured tokens."""
    resident_bytes: int
    """Memory that the process took with model and context loaded."""
    load_s: float
    """Time of the load."""
    prefill_tokens_per_s: float
    """Speed of the better of two prefills of ``PREFILL_TOKENS``."""
    decode_tokens_per_s: float
    """Speed of ``DECODE_TOKENS`` single passes, without any draft."""
    features: tuple[str, ...]
    """CPU features and build options that the library which ran it was compiled with."""


def read_library(command: Sequence[str] = ()) -> Library:
    """Load the library in a child and return what it says of itself.

    Args:
        command: The child; by default this module.

    Raises:
        ModelLoadError: The library is missing or dies while it loads.
    """
    answer = _ask(command or _child_command("library"), _LIBRARY_TIMEOUT_S, _silent)
    features = answer["features"]
    assert isinstance(features, list)
    return Library(str(answer["version"]), frozenset(features))


def measure(
    options: LoadOptions, progress: Progress, command: Sequence[str] = (), timeout_s: float = _MEASURE_TIMEOUT_S
) -> Measurement:
    """Load a model in a child, evaluate some tokens, and return what that took. Takes seconds.

    Args:
        options: How the model is loaded.
        progress: Told in a few words what is going on.
        command: The child; by default this module.
        timeout_s: The child is killed after this time.

    Raises:
        ModelError: The child could not load the model or evaluate it, died, or gave no answer in time.
    """
    answer = _ask(command or _child_command("measure", json.dumps(options.as_json())), timeout_s, progress)
    return Measurement(**{**answer, "features": tuple(answer["features"])})  # type: ignore[arg-type]


def _child_command(*arguments: str) -> list[str]:
    # -P keeps the working folder, which may be a stranger's repository, off the import path.
    return [sys.executable, "-P", "-m", "khepri.cli.measurement", *arguments]


def _silent(_: str) -> None:
    return


def _ask(command: Sequence[str], timeout_s: float, progress: Progress) -> Mapping[str, object]:
    """Run a child to its end and return its answer."""
    expired = threading.Event()
    answer: Mapping[str, object] | None = None
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors) as child,
    ):

        def expire() -> None:
            expired.set()
            child.kill()

        watchdog = threading.Timer(timeout_s, expire)
        watchdog.daemon = True
        watchdog.start()
        try:
            assert child.stdout is not None
            for line in child.stdout:
                message = _parse(line)
                if "progress" in message:
                    progress(str(message["progress"]))
                elif message:
                    answer = message
            status = child.wait()
        finally:
            watchdog.cancel()
            child.kill()
        if status == 0 and answer is not None:
            _raise_refusal(answer)
            return answer
        errors.seek(0)
        raise _death(status, errors.read(_MOST_ERROR_BYTES), timeout_s if expired.is_set() else None)


def _parse(line: bytes) -> dict[str, object]:
    """Return a message of the child's; a stray line that the native library printed is an empty one."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def _raise_refusal(answer: Mapping[str, object]) -> None:
    if "error" not in answer:
        return
    kinds = {kind.__name__: kind for kind in (ModelLoadError, OutOfMemoryError)}
    raise kinds.get(str(answer["kind"]), ModelError)(str(answer["error"]), str(answer["hint"]))


def _death(status: int, errors: bytes, timeout_s: float | None) -> ModelError:
    if timeout_s is not None:
        return ModelError(f"the inference library gave no answer in {timeout_s:g} s", "choose a smaller model")
    if status == -signal.SIGKILL:
        return OutOfMemoryError(
            "the system killed the process that loaded the model, most likely because memory ran out",
            "close other programs, choose a smaller model, or lower context_tokens",
        )
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    last = f": {lines[-1]}" if lines else ""
    if status >= 0:
        return ModelLoadError(f"the inference library failed (exit status {status}{last})")
    name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
    return ModelLoadError(f"the inference library died ({name}{last})")


def _speeds(backend: Backend, batch_tokens: int, tell: Progress, clock: Callable[[], float]) -> tuple[float, float]:
    """Return the tokens per second of prefill and of decode; the context then holds all the tokens."""
    prompt = _prompt(backend)
    prefill_s = []
    token = 0
    for round_number in range(1, _PREFILLS + 1):
        tell(f"measuring the prefill, {round_number} of {_PREFILLS}")
        if not backend.sequence_remove(0, 0):
            raise ModelError("the library cannot empty its context")
        started = clock()
        for start in range(0, len(prompt), batch_tokens):
            token = int(backend.decode(Batch(prompt[start : start + batch_tokens], start))[-1].argmax())
        prefill_s.append(clock() - started)
    tell(f"measuring the decode of {DECODE_TOKENS} tokens")
    started = clock()
    for position in range(len(prompt), len(prompt) + DECODE_TOKENS):
        token = int(backend.decode(Batch((token,), position))[-1].argmax())
    return len(prompt) / min(prefill_s), DECODE_TOKENS / (clock() - started)


def _prompt(backend: Backend) -> tuple[int, ...]:
    """Return tokens of ordinary text: which experts a mixture model runs depends on them."""
    tokens = backend.vocabulary.tokenize(str(__doc__))
    return tuple((tokens * PREFILL_TOKENS)[:PREFILL_TOKENS])


def _kv_bytes(backend: Backend) -> int:
    """Return what the keys and values of a full context take; a recurrent state does not grow."""
    state_bytes = backend.sequence_bytes(0)
    if not backend.capabilities.can_remove_tail:
        return state_bytes
    return state_bytes * backend.capabilities.context_tokens // (PREFILL_TOKENS + DECODE_TOKENS)


def _measure(options: LoadOptions, clock: Callable[[], float] = time.perf_counter) -> Measurement:
    """Load and measure in this process."""
    import psutil

    from khepri.engine.backends.loading import load_backend

    _tell("loading the model")
    started = clock()
    backend = load_backend(options)
    try:
        load_s = clock() - started
        prefill_tokens_per_s, decode_tokens_per_s = _speeds(backend, options.batch_tokens, _tell, clock)
        return Measurement(
            trained_context_tokens=backend.capabilities.trained_context_tokens,
            has_chat_template=backend.vocabulary.chat_template is not None,
            kv_bytes=_kv_bytes(backend),
            resident_bytes=int(psutil.Process().memory_info().rss),
            load_s=load_s,
            prefill_tokens_per_s=prefill_tokens_per_s,
            decode_tokens_per_s=decode_tokens_per_s,
            features=backend.capabilities.features,
        )
    finally:
        backend.close()


def _describe_library() -> dict[str, object]:
    from khepri.engine.backends import llama_cpp

    return {"version": llama_cpp.library_version(), "features": sorted(llama_cpp.library_features())}


def _tell(text: str) -> None:
    _say({"progress": text})


def _say(message: Mapping[str, object]) -> None:
    print(json.dumps(message), flush=True)


def _child(task: str, options: str = "") -> int:
    """Do one task and say the outcome."""
    import resource

    die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        if task == "library":
            _say(_describe_library())
        else:
            _say(asdict(_measure(LoadOptions.from_json(json.loads(options)))))
    except KhepriError as error:
        _say({"error": error.message, "hint": error.hint, "kind": type(error).__name__})
    return 0


if __name__ == "__main__":
    sys.exit(_child(*sys.argv[1:]))
