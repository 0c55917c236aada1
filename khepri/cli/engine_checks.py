"""What ``khepri doctor`` says of the processor, the native library, the model, and what they do together.

``gather`` finds out, which takes seconds and happens in child processes; the lines are made from the facts alone.
"""

import os
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar

from khepri import paths
from khepri.agent.session import engine_files, engine_settings
from khepri.cli import exits, measurement
from khepri.cli.checks import Check, Failure, attempt, check, in_words, ok, problem, warning
from khepri.cli.machine_checks import in_bytes
from khepri.cli.measurement import DECODE_TOKENS, PREFILL_TOKENS, Library, Measurement, Progress
from khepri.config import Config, ExtraBuffers
from khepri.engine import hardware
from khepri.engine.backend import BackendName, LoadOptions
from khepri.engine.choice import Candidate, Choice
from khepri.engine.hardware import Cpu
from khepri.engine.launch import choose_backend, load_options
from khepri.engine.probe import Verdict, probe
from khepri.errors import OutOfMemoryError
from khepri.models import stores
from khepri.models.stores import Damaged, Model
from khepri.repo.text import counted

T = TypeVar("T")
U = TypeVar("U")

_FORK: Final = "ik-llama-cpp-python"
_SLOW_DECODE_TOKENS_PER_S = 3.0
_TYPICAL_PROMPT_TOKENS = 2000

# The system's name of each feature, and llama.cpp's.
_FEATURES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "avx": "AVX",
        "avx2": "AVX2",
        "f16c": "F16C",
        "fma": "FMA",
        "bmi2": "BMI2",
        "avx_vnni": "AVX_VNNI",
        "avx512f": "AVX512",
        "avx512vbmi": "AVX512_VBMI",
        "avx512_vnni": "AVX512_VNNI",
        "avx512_bf16": "AVX512_BF16",
        "amx_int8": "AMX_INT8",
        "asimd": "NEON",
        "asimddp": "DOTPROD",
        "i8mm": "MATMUL_INT8",
        "sve": "SVE",
        "sme": "SME",
    }
)
_ESSENTIAL: Final = frozenset({"AVX2", "F16C", "FMA", "NEON", "DOTPROD"})
_COMPILED_IN_BY_MAKE_FAST: Final = frozenset({"AVX_VNNI", "AVX512", "AVX512_VBMI", "AVX512_VNNI", "AVX512_BF16"})
_OPTIONAL: Final = frozenset({"AMX_INT8", "SME"})


@dataclass(frozen=True)
class Facts:
    """What was found out; a failure stands in the place of what could not be."""

    cpu: Cpu
    """The processor."""
    total_bytes: int
    """Memory of the machine."""
    available_bytes: int
    """Memory that was available before the model was loaded."""
    load_per_core: float
    """How busy the cores were before the measurement; 1 is fully."""
    library: Library | Failure
    """The native library."""
    model: Model | Failure
    """The model that would be used."""
    damaged: tuple[Damaged, ...]
    """Files in Khepri's own folder that no model can be loaded from."""
    choice: Choice | Failure
    """The library that runs the model."""
    verdict: Verdict | Failure
    """What the probe says of this machine."""
    options: LoadOptions | Failure
    """How the model is loaded."""
    measured: Measurement | Failure
    """What came of loading it."""


def gather(config: Config, progress: Progress) -> Facts:
    """Find out everything, in child processes where native code is involved. Takes seconds.

    Args:
        config: The settings in force.
        progress: Told in a few words what is going on.
    """
    cpu = hardware.describe_cpu()
    available = hardware.available_memory_bytes()
    load = os.getloadavg()[0] / (os.cpu_count() or 1)
    progress("looking at the inference library")
    library = attempt(measurement.read_library)
    progress("looking for models")
    model = attempt(lambda: stores.find(config.model) if config.model else stores.default_model())
    inventory = attempt(stores.take_inventory)
    fitting = _then(model, lambda found: attempt(lambda: _fitting(found)))
    progress("probing: does a first batch come through?")
    choice = _then(library, lambda _: _then(fitting, lambda found: attempt(lambda: _choice(config, found, progress))))
    chosen = _then(choice, lambda made: _then(fitting, lambda found: _Chosen(found.path, made.backend)))
    verdict = _then(chosen, lambda what: attempt(lambda: _probe(what)))
    options = _then(chosen, lambda what: _then(verdict, lambda given: _options(config, what, given)))
    measured = _then(options, lambda how: attempt(lambda: measurement.measure(how, progress)))
    return Facts(
        cpu=cpu,
        total_bytes=hardware.total_memory_bytes(),
        available_bytes=available,
        load_per_core=load,
        library=library,
        model=model,
        damaged=() if isinstance(inventory, Failure) else inventory.damaged,
        choice=choice,
        verdict=verdict,
        options=options,
        measured=measured,
    )


def lines(facts: Facts, config: Config) -> Iterator[Check]:
    """Return the lines about the processor, the library, the model, the settings, the speed and the memory."""
    yield check("cpu", lambda: cpu_line(facts.cpu))
    yield check("library", lambda: library_line(facts.library, facts.cpu))
    yield check("model", lambda: model_line(facts, config))
    yield check("backend", lambda: backend_line(facts, config))
    yield check("settings", lambda: settings_line(facts, config))
    yield check("speed", lambda: speed_line(facts))
    yield check("memory", lambda: memory_line(facts, config))


def cpu_line(cpu: Cpu) -> Check:
    """Say which processor it is, and what of it is used."""
    logical = os.cpu_count() or cpu.physical_cores
    features = [name for flag, name in _FEATURES.items() if flag in cpu.features]
    known = in_words(features) if cpu.features else "not told by this system"
    cores = f"{counted(cpu.physical_cores, 'physical core')} of {logical} processors"
    return ok("cpu", f"{cpu.name}; {cores} to use; features: {known}")


def library_line(library: Library | Failure, cpu: Cpu) -> Check:
    """Compare what the library was built for with what the processor has."""
    if isinstance(library, Failure):
        return problem("library", library.message, library.advice or rebuild_advice(cpu), exits.MODEL_FAILED)
    offered = {name for flag, name in _FEATURES.items() if flag in cpu.features}
    unused = offered - library.features - _OPTIONAL
    foreign = library.features & set(_FEATURES.values()) - offered if cpu.features else frozenset()
    detail = f"llama-cpp-python {library.version}, built with {in_words(sorted(library.features))}"
    if foreign:
        return problem(
            "library",
            f"{detail}; this processor lacks {in_words(sorted(foreign))}, so it may die at any moment",
            rebuild_advice(cpu),
            exits.MODEL_FAILED,
        )
    if unused & _ESSENTIAL:
        missing = in_words(sorted(unused))
        return warning("library", f"{detail}; without {missing}, which this processor has", rebuild_advice(cpu))
    note = f"; the processor also has {in_words(sorted(unused))}" if unused else ""
    return ok("library", detail + note)


def rebuild_advice(cpu: Cpu) -> str:
    """Return the command that builds the library for this very processor."""
    flags = "-DGGML_NATIVE=ON"
    if any(feature.startswith("amx") for feature in cpu.features):
        off = "-mno-amx-tile -mno-amx-int8 -mno-amx-bf16"
        flags += f" -DCMAKE_C_FLAGS='{off}' -DCMAKE_CXX_FLAGS='{off}'"
    install = "pip install --force-reinstall --no-deps --no-cache-dir --no-binary llama-cpp-python llama-cpp-python"
    return f'rebuild it for this machine: CMAKE_ARGS="{flags}" {install}'


def model_line(facts: Facts, config: Config) -> Check:
    """Say which model is used and what it is."""
    model, measured = facts.model, facts.measured
    if isinstance(model, Failure):
        return model.as_check("model")
    detail = f"{model.name}, {in_bytes(model.size_bytes)}, {model.quantization}, {model.architecture}, {model.path}"
    if not isinstance(measured, Failure):
        template = "its own chat template" if measured.has_chat_template else "no chat template"
        detail = f"{detail}; trained for {measured.trained_context_tokens} tokens, {template}"
        if config.context_tokens > measured.trained_context_tokens:
            advice = f"set context_tokens to {measured.trained_context_tokens} or less"
            return warning("model", f"{detail}; the context is set to {config.context_tokens}", advice)
        if not measured.has_chat_template:
            return warning("model", detail, "ChatML is used; choose an instruct model if its answers are poor")
    if facts.damaged:
        first = facts.damaged[0]
        return warning("model", f"{detail}; also {first.reason}", f"remove it with: khepri models remove {first.name}")
    return ok("model", detail)


def backend_line(facts: Facts, config: Config) -> Check:
    """Say which library runs the model, and what was measured of each."""
    choice = facts.choice
    if isinstance(choice, Failure):
        return choice.as_check("backend")
    measured = "; ".join(candidate.describe() for candidate in choice.candidates)
    known = " (known from an earlier measurement)" if choice.was_cached else ""
    detail = f"{choice.backend}, {choice.reason}{known}{f'; {measured}' if measured else ''}{_left_unused(facts)}"
    broken = [each.backend for each in choice.candidates if each.figures is None and not _is_of_model(each, facts)]
    if broken:
        return warning("backend", detail, _reinstall_advice(broken[0], facts.cpu))
    if not choice.is_final:
        return warning(
            "backend", f"{detail}; other programs kept the cores busy", "it is measured anew at the next start"
        )
    return ok("backend", detail)


def _is_of_model(candidate: Candidate, facts: Facts) -> bool:
    """Return True if a library is out over this model alone, which it names then; nothing is to be mended."""
    return not isinstance(facts.model, Failure) and facts.model.path.name in candidate.refusal


def _reinstall_advice(backend: BackendName, cpu: Cpu) -> str:
    """Return the command that puts a sound library in the place of one that cannot be used."""
    if backend is BackendName.LLAMA_CPP:
        return rebuild_advice(cpu)
    # Another version may have replaced the one that Khepri knows.
    requirements = (each.partition(";")[0].strip() for each in metadata.requires("khepri") or ())
    known = next((each for each in requirements if each.startswith(_FORK)), _FORK)
    return f"install it anew: pip install --force-reinstall --no-deps {known}; in a checkout of Khepri: make fast"


def _left_unused(facts: Facts) -> str:
    """Return what of the processor the fork leaves unused; of llama.cpp the line on the library says it."""
    is_fork = isinstance(facts.choice, Choice) and facts.choice.backend is BackendName.IK_LLAMA
    if not is_fork or isinstance(facts.measured, Failure):
        return ""
    offered = {name for flag, name in _FEATURES.items() if flag in facts.cpu.features}
    unused = offered & _COMPILED_IN_BY_MAKE_FAST - set(facts.measured.features)
    if not unused:
        return ""
    return f"; compiled without {in_words(sorted(unused))}, which this processor has (`make fast` compiles it in)"


def settings_line(facts: Facts, config: Config) -> Check:
    """Say how the model is loaded, and why so."""
    cores, threads = facts.cpu.physical_cores, config.threads or facts.cpu.physical_cores
    why = "as configured" if config.threads else "one for each physical core"
    sizes = f"context {config.context_tokens} tokens, batch {config.batch_tokens}"
    verdict = facts.verdict
    if isinstance(verdict, Failure):
        check_line = verdict.as_check("settings")
        detail = f"{threads} threads ({why}), {sizes}; extra buffers: {check_line.detail}"
        return Check("settings", check_line.status, detail, check_line.advice, check_line.exit_code)
    is_on = not isinstance(facts.options, Failure) and facts.options.extra_buffers
    chosen = "by the probe" if config.extra_buffers is ExtraBuffers.AUTO else "as configured, whatever the probe says"
    said = f"{verdict.reason}{' (known from an earlier probe)' if verdict.was_cached else ''}"
    buffers = f"extra buffers {'on' if is_on else 'off'} {chosen}: {said}"
    detail = f"{threads} threads ({why}), {sizes}, {buffers}"
    if is_on and not verdict.extra_buffers:
        return warning("settings", detail, 'set extra_buffers = "auto"')
    if not verdict.extra_buffers:
        is_own_build = isinstance(facts.choice, Choice) and facts.choice.backend is BackendName.LLAMA_CPP
        return warning("settings", detail, rebuild_advice(facts.cpu) if is_own_build else 'set backend = "llama_cpp"')
    if threads > cores:
        return warning("settings", detail, f"set threads to {cores} or less: more than the physical cores are slower")
    return ok("settings", detail)


def speed_line(facts: Facts) -> Check:
    """Say how fast the model is on this machine."""
    measured = facts.measured
    if isinstance(measured, Failure):
        advice = rebuild_advice(facts.cpu) if measured.exit_code else ""
        return replace(measured, advice=measured.advice or advice).as_check("speed")
    prompt_s = _TYPICAL_PROMPT_TOKENS / measured.prefill_tokens_per_s
    detail = (
        f"prefill {measured.prefill_tokens_per_s:.0f} tokens/s ({PREFILL_TOKENS} tokens, better of 2; a prompt of "
        f"{_TYPICAL_PROMPT_TOKENS} takes about {prompt_s:.0f} s), decode {measured.decode_tokens_per_s:.1f} tokens/s "
        f"({DECODE_TOKENS} tokens, plain: no speculation, so no acceptance rate), load {measured.load_s:.1f} s"
    )
    if facts.load_per_core > 1:
        busy = f"other programs kept the cores busy (load {facts.load_per_core:.1f} per core)"
        return warning("speed", f"{detail}; {busy}", "measure again when the machine is quiet")
    if measured.decode_tokens_per_s < _SLOW_DECODE_TOKENS_PER_S:
        return warning("speed", detail, "choose a smaller model: khepri models")
    return ok("speed", detail)


def memory_line(facts: Facts, config: Config) -> Check:
    """Say what memory there is and what is needed."""
    model, measured = facts.model, facts.measured
    there = f"{in_bytes(facts.total_bytes)} in all, {in_bytes(facts.available_bytes)} available"
    if isinstance(model, Failure):
        return ok("memory", there)
    needed, parts = model.size_bytes, f"model {in_bytes(model.size_bytes)}"
    if not isinstance(measured, Failure):
        needed = max(measured.resident_bytes, model.size_bytes + measured.kv_bytes)
        parts = (
            f"{parts}, keys and values of {config.context_tokens} tokens {in_bytes(measured.kv_bytes)}, "
            f"measured in all {in_bytes(measured.resident_bytes)}"
        )
    detail = f"{there}; needed {in_bytes(needed)} ({parts})"
    if needed > facts.total_bytes:
        return problem("memory", detail, "choose a smaller model: khepri models", exits.MODEL_FAILED)
    if needed > facts.available_bytes:
        return warning("memory", detail, "close other programs, choose a smaller model, or lower context_tokens")
    return ok("memory", detail)


def _fitting(model: Model) -> Model:
    total = hardware.total_memory_bytes()
    if model.size_bytes > total:
        raise OutOfMemoryError(
            f"{model.name} has {in_bytes(model.size_bytes)} and this machine {in_bytes(total)} of memory",
            "choose a smaller model: khepri models",
        )
    return model


@dataclass(frozen=True)
class _Chosen:
    model: Path
    backend: BackendName


def _choice(config: Config, model: Model, progress: Progress) -> Choice:
    settings = engine_settings(config, None)
    return choose_backend(
        model.path, settings, engine_files(), lambda doing: progress(f"{doing} {model.name}"), threading.Event()
    )


def _probe(what: _Chosen) -> Verdict:
    return probe(what.model, paths.probe_cache_file(), backend=what.backend)


def _options(config: Config, what: _Chosen, verdict: Verdict) -> LoadOptions:
    settings = replace(engine_settings(config, None), backend=what.backend)
    return load_options(what.model, settings, lambda: verdict)


def _then(found: T | Failure, go_on: Callable[[T], U | Failure]) -> U | Failure:
    """Return what follows from ``found``; from a failure follows one that another line explains."""
    if not isinstance(found, Failure):
        return go_on(found)
    return Failure(f"not known: {found.message}", "", 0) if found.exit_code else found
