"""The lines about processor, library, model and memory are made from facts, so any machine can be imagined."""

from dataclasses import replace
from pathlib import Path

import pytest

from khepri.cli import engine_checks, measurement
from khepri.cli.checks import Check, Failure, Report, Status, attempt
from khepri.cli.engine_checks import Facts
from khepri.cli.measurement import Library, Measurement, Progress
from khepri.config import Backend, Config, ExtraBuffers
from khepri.engine.backend import BackendName, KvType, LoadOptions
from khepri.engine.choice import Candidate, Choice
from khepri.engine.hardware import Cpu
from khepri.engine.probe import Verdict
from khepri.engine.trial import Figures
from khepri.errors import ConfigError, KhepriError, ModelLoadError, NoModelError
from khepri.models.layouts import Store
from khepri.models.stores import Damaged, Model

GIB = 1 << 30
CPU = Cpu("Some CPU", frozenset({"avx", "avx2", "f16c", "fma", "avx512f", "amx_tile", "amx_int8"}), physical_cores=4)
MODEL = Model("coder", Path("/models/coder.gguf"), GIB, "Q4_K_M", "qwen2", Store.KHEPRI, is_default=True)
MEASURED = Measurement(
    trained_context_tokens=32768,
    has_chat_template=True,
    kv_bytes=GIB // 4,
    resident_bytes=2 * GIB,
    load_s=1.0,
    prefill_tokens_per_s=100.0,
    decode_tokens_per_s=20.0,
    features=("AVX", "AVX2"),
)
FACTS = Facts(
    cpu=CPU,
    total_bytes=16 * GIB,
    available_bytes=8 * GIB,
    load_per_core=0.1,
    library=Library("0.3.36", frozenset({"AVX", "AVX2", "F16C", "FMA", "AVX512", "REPACK"})),
    model=MODEL,
    damaged=(),
    choice=Choice(BackendName.LLAMA_CPP, "no other library is installed"),
    verdict=Verdict(True, "a first batch came through"),
    options=LoadOptions(MODEL.path, 8192, 4),
    measured=MEASURED,
)


def lines(facts: Facts, config: Config | None = None) -> dict[str, Check]:
    return {line.name: line for line in engine_checks.lines(facts, config or Config())}


def test_a_sound_machine_has_no_advice_to_take() -> None:
    found = lines(FACTS)
    assert list(found) == ["cpu", "library", "model", "backend", "settings", "speed", "memory"]
    assert {line.status for line in found.values()} == {Status.OK}
    assert not any(line.advice for line in found.values())


def test_a_fork_that_was_compiled_without_what_the_processor_has_is_told_with_the_command_that_compiles_it_in() -> None:
    fork = replace(FACTS, choice=Choice(BackendName.IK_LLAMA, "1.4 times as fast as llama_cpp"))
    assert "without AVX512, which this processor has (`make fast`" in lines(fork)["backend"].detail
    compiled = replace(fork, measured=replace(MEASURED, features=("AVX", "AVX2", "AVX512")))
    assert "make fast" not in lines(compiled)["backend"].detail
    assert "make fast" not in lines(FACTS)["backend"].detail


FIGURES = Figures(900.0, {1: 52.0, 4: 85.0, 8: 140.0, 16: 250.0})


@pytest.mark.parametrize(
    "refusal",
    [
        "ik-llama-cpp-python cannot be used on this machine: /site/ik_llama_cpp/lib/libllama.so: invalid ELF header",
        "the inference library dies on this CPU with every setting (SIGILL; SIGILL)",
        "with 4 tokens a pass it moves 90% of the probability to other tokens than llama_cpp, more than rounding can",
    ],
)
def test_an_installed_library_that_is_out_is_a_warning_with_the_command_that_mends_it(refusal: str) -> None:
    candidates = (Candidate(BackendName.LLAMA_CPP, FIGURES), Candidate(BackendName.IK_LLAMA, None, refusal))
    choice = Choice(BackendName.LLAMA_CPP, "no other library can be used", candidates)
    line = lines(replace(FACTS, choice=choice))["backend"]
    assert (line.status, refusal in line.detail) == (Status.WARNING, True)
    assert "pip install --force-reinstall --no-deps ik-llama-cpp-python==" in line.advice
    assert "make fast" in line.advice


def test_llama_cpp_that_is_out_where_the_fork_runs_is_a_warning_with_the_command_that_rebuilds_it() -> None:
    candidates = (Candidate(BackendName.LLAMA_CPP, None, "it died (SIGILL)"), Candidate(BackendName.IK_LLAMA, FIGURES))
    choice = Choice(BackendName.IK_LLAMA, "the only library that can be used", candidates)
    line = lines(replace(FACTS, choice=choice))["backend"]
    assert line.status is Status.WARNING
    assert line.advice.endswith("--no-binary llama-cpp-python llama-cpp-python")


def test_a_library_that_cannot_run_this_one_model_needs_no_mending() -> None:
    refusal = f"ik_llama cannot run {MODEL.path.name}: it ends its process itself (build.cpp:5844: fatal error)"
    candidates = (Candidate(BackendName.LLAMA_CPP, FIGURES), Candidate(BackendName.IK_LLAMA, None, refusal))
    choice = Choice(BackendName.LLAMA_CPP, "no other library can be used", candidates)
    line = lines(replace(FACTS, choice=choice))["backend"]
    assert (line.status, line.advice) == (Status.OK, "")
    assert refusal in line.detail


def test_a_library_without_avx2_on_a_processor_that_has_it_is_a_warning_with_the_command_that_rebuilds() -> None:
    line = lines(replace(FACTS, library=Library("0.3.36", frozenset({"AVX"}))))["library"]
    assert line.status is Status.WARNING
    assert "AVX2" in line.detail
    assert "CMAKE_ARGS=" in line.advice
    assert "-mno-amx-int8" in line.advice


def test_the_command_that_rebuilds_leaves_amx_alone_where_there_is_none() -> None:
    cpu = replace(CPU, features=frozenset({"avx2", "fma", "f16c"}))
    assert "amx" not in engine_checks.rebuild_advice(cpu)


def test_a_library_without_amx_is_no_fault() -> None:
    assert "AMX" not in lines(FACTS)["library"].detail


def test_a_library_built_for_another_processor_is_a_problem() -> None:
    line = lines(replace(FACTS, cpu=replace(CPU, features=frozenset({"avx", "avx2", "f16c", "fma"}))))["library"]
    assert (line.status, line.exit_code) == (Status.PROBLEM, 4)
    assert "lacks AVX512" in line.detail


def test_nothing_is_concluded_where_the_system_does_not_tell_the_features() -> None:
    found = lines(replace(FACTS, cpu=replace(CPU, features=frozenset())))
    assert found["library"].status is Status.OK
    assert "not told" in found["cpu"].detail


def test_a_library_that_does_not_load_is_a_problem_with_advice() -> None:
    line = lines(replace(FACTS, library=Failure("the inference library died (SIGILL)", "", 4)))["library"]
    assert (line.status, line.exit_code) == (Status.PROBLEM, 4)
    assert "SIGILL" in line.detail
    assert "rebuild" in line.advice


def test_settings_say_that_repacked_weights_crash_here() -> None:
    verdict = Verdict(False, "with repacked weights the library died (SIGSEGV)")
    safe = LoadOptions(MODEL.path, 8192, 4, extra_buffers=False)
    line = lines(replace(FACTS, verdict=verdict, options=safe))["settings"]
    assert line.status is Status.WARNING
    assert "extra buffers off by the probe" in line.detail
    assert "SIGSEGV" in line.detail
    assert "-mno-amx-tile" in line.advice


@pytest.mark.parametrize(
    ("choice", "verdict", "allowed"),
    [
        (ExtraBuffers.AUTO, True, True),
        (ExtraBuffers.AUTO, False, False),
        (ExtraBuffers.ON, False, True),
        (ExtraBuffers.OFF, True, False),
    ],
)
def test_the_measurement_loads_what_the_configuration_and_the_probe_choose(
    choice: ExtraBuffers, verdict: bool, allowed: bool, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[LoadOptions] = []

    def measure(options: LoadOptions, _: Progress) -> Measurement:
        loaded.append(options)
        return MEASURED

    monkeypatch.setattr(measurement, "measure", measure)
    monkeypatch.setattr(measurement, "read_library", lambda: FACTS.library)
    monkeypatch.setattr(engine_checks, "probe", lambda *_, **__: Verdict(verdict, ""))
    config = Config(
        str(tiny_model),
        backend=Backend.LLAMA_CPP,
        extra_buffers=choice,
        threads=3,
        context_tokens=1024,
        batch_tokens=64,
    )
    facts = engine_checks.gather(config, lambda _: None)
    sequences = config.cache_conversations + 2
    expected = LoadOptions(
        tiny_model, 1024, 3, 64, sequences, extra_buffers=allowed, kv_type=KvType.AUTO, backend=BackendName.LLAMA_CPP
    )
    assert loaded == [facts.options] == [expected]


def test_overruling_a_probe_that_saw_a_crash_is_a_warning() -> None:
    facts = replace(FACTS, verdict=Verdict(False, "died"))
    line = lines(facts, Config(extra_buffers=ExtraBuffers.ON))["settings"]
    assert line.status is Status.WARNING
    assert "auto" in line.advice


def test_more_threads_than_cores_is_a_warning() -> None:
    assert lines(FACTS, Config(threads=9))["settings"].status is Status.WARNING
    assert "one for each physical core" in lines(FACTS)["settings"].detail


def test_a_context_longer_than_the_model_was_trained_for_is_a_warning() -> None:
    line = lines(FACTS, Config(context_tokens=65536))["model"]
    assert line.status is Status.WARNING
    assert "32768" in line.advice


def test_a_model_without_a_chat_template_is_a_warning() -> None:
    line = lines(replace(FACTS, measured=replace(MEASURED, has_chat_template=False)))["model"]
    assert line.status is Status.WARNING
    assert "no chat template" in line.detail


def test_a_damaged_file_beside_a_good_model_is_a_warning() -> None:
    damaged = Damaged("half", Path("/models/half.gguf"), "/models/half.gguf is truncated")
    line = lines(replace(FACTS, damaged=(damaged,)))["model"]
    assert line.status is Status.WARNING
    assert "models remove half" in line.advice


def test_speed_is_never_shown_without_a_word_on_acceptance() -> None:
    detail = lines(FACTS)["speed"].detail
    assert "prefill 100 tokens/s" in detail
    assert "decode 20.0 tokens/s" in detail
    assert "plain" in detail
    assert "acceptance" in detail


def test_a_slow_model_and_a_busy_machine_are_warnings_with_different_advice() -> None:
    slow = lines(replace(FACTS, measured=replace(MEASURED, decode_tokens_per_s=1.0)))["speed"]
    busy = lines(replace(FACTS, load_per_core=2.0))["speed"]
    assert slow.status is busy.status is Status.WARNING
    assert "smaller model" in slow.advice
    assert "quiet" in busy.advice


def test_a_crash_under_the_measurement_is_a_problem_with_advice() -> None:
    line = lines(replace(FACTS, measured=Failure("the inference library died (SIGSEGV)", "", 4)))["speed"]
    assert (line.status, line.exit_code) == (Status.PROBLEM, 4)
    assert "rebuild" in line.advice


@pytest.mark.parametrize(
    ("total", "available", "status"),
    [(16, 8, Status.OK), (16, 1, Status.WARNING), (1, 1, Status.PROBLEM)],
    ids=["enough", "in use by others", "too small"],
)
def test_memory_is_judged_by_what_the_loaded_model_took(total: int, available: int, status: Status) -> None:
    line = lines(replace(FACTS, total_bytes=total * GIB, available_bytes=available * GIB))["memory"]
    assert line.status is status
    assert "needed 2.0 GiB" in line.detail


def test_without_a_model_one_line_is_the_problem_and_the_others_name_the_same_cause_once() -> None:
    cause = Failure("there is no model named x", "fetch it", 3)
    follows = Failure(f"not known: {cause.message}", "", 0)
    found = lines(replace(FACTS, model=cause, verdict=follows, options=follows, measured=follows))
    assert [line.name for line in found.values() if line.status is Status.PROBLEM] == ["model"]
    assert found["speed"].detail == "not known: there is no model named x"
    assert found["memory"].status is Status.OK
    assert Report(tuple(found.values())).exit_code == 3


@pytest.mark.parametrize(
    ("error", "code"),
    [(NoModelError("m", "do"), 3), (ModelLoadError("m", "do"), 4), (ConfigError("m", "do"), 2), (KhepriError("m"), 1)],
    ids=lambda value: type(value).__name__,
)
def test_an_error_becomes_a_problem_with_its_own_exit_code(error: KhepriError, code: int) -> None:
    def fail() -> str:
        raise error

    found = attempt(fail)
    assert isinstance(found, Failure)
    line = found.as_check("thing")
    assert (line.status, line.detail, line.advice, line.exit_code) == (Status.PROBLEM, "m", error.hint, code)


def test_an_error_that_nobody_foresaw_becomes_a_problem_too() -> None:
    found = attempt(lambda: 1 // 0)
    assert isinstance(found, Failure)
    assert "ZeroDivisionError" in found.message
    assert found.exit_code == 1


def test_what_a_terminal_would_obey_never_reaches_it() -> None:
    line = Failure("bad \x1b[2J name", "\x07", 1).as_check("thing")
    assert "\x1b" not in line.detail
    assert "\x07" not in line.advice


def test_the_gravest_problem_gives_the_exit_code() -> None:
    def report(*codes: int) -> Report:
        return Report(tuple(Check("x", Status.PROBLEM, "", exit_code=code) for code in codes))

    assert [report(*codes).exit_code for codes in [(1, 2), (2, 4), (4, 3), (1,), ()]] == [2, 4, 3, 1, 0]
    assert Report((Check("x", Status.WARNING, ""),)).exit_code == 0
