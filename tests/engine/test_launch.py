"""From a file to a running engine, or to an error that everybody who waits gets to see."""

import json
from pathlib import Path

import pytest

from khepri.engine import launch as launching
from khepri.engine.backend import BackendName, KvType, LoadOptions
from khepri.engine.backends.ik_llama_api import find_library
from khepri.engine.choice import Choice
from khepri.engine.exactness import compare_widths
from khepri.engine.hardware import describe_cpu, total_memory_bytes
from khepri.engine.launch import EngineSettings, launch, load_options
from khepri.engine.probe import Verdict
from khepri.engine.request import DrafterName, DraftMode, Request, StopReason
from khepri.engine.worker import EngineWorker
from khepri.errors import CancelledError, KhepriError, ModelError, ModelLoadError, OutOfMemoryError
from tests.support.engine_files import files_in
from tests.support.scripted_backend import RoundingBackend
from tests.support.tiny_model import write_tiny_sentencepiece_model, write_tiny_window_model

needs_both = pytest.mark.skipif(find_library() is None, reason="the extra `fast` is not installed")


def start(model: Path, tmp_path: Path, extra_buffers: str = "auto", threads: int = 1) -> EngineWorker:
    return launch(model, EngineSettings(512, threads, 64, extra_buffers), files_in(tmp_path))


def test_a_model_is_probed_loaded_and_answers(tiny_model: Path, tmp_path: Path) -> None:
    with start(tiny_model, tmp_path) as engine:
        prompt = tuple(engine.vocabulary.tokenize("def the name"))
        generation = engine.submit(Request(prompt, 4)).result()
    assert generation.stop_reason in (StopReason.MAX_TOKENS, StopReason.END)
    assert len(json.loads((tmp_path / "probe.json").read_text())) == 1


@pytest.mark.parametrize("extra_buffers", ["on", "off"])
def test_who_decides_for_himself_starts_no_probe(tiny_model: Path, tmp_path: Path, extra_buffers: str) -> None:
    with start(tiny_model, tmp_path, extra_buffers) as engine:
        assert engine.backend.capabilities.context_tokens == 512
    assert not (tmp_path / "probe.json").exists()


@pytest.mark.parametrize(("threads", "used"), [(0, describe_cpu().physical_cores), (3, 3)])
def test_threads_are_found_when_none_are_named(threads: int, used: int) -> None:
    assert options("off", threads=threads).threads == used


@pytest.mark.parametrize(
    ("choice", "verdict", "allowed"),
    [("auto", True, True), ("auto", False, False), ("on", None, True), ("off", None, False)],
)
def test_the_probe_is_asked_where_nobody_decided(choice: str, verdict: bool | None, allowed: bool) -> None:
    expected = LoadOptions(Path("m.gguf"), 512, 1, 64, extra_buffers=allowed, sequences=10, kv_type=KvType.AUTO)
    assert options(choice, verdict) == expected


def options(extra_buffers: str, verdict: bool | None = None, threads: int = 1) -> LoadOptions:
    def ask_probe() -> Verdict:
        assert verdict is not None, "it was not to be asked"
        return Verdict(verdict, "")

    return load_options(Path("m.gguf"), EngineSettings(512, threads, 64, extra_buffers), ask_probe)


@pytest.mark.parametrize("extra_buffers", ["auto", "off"])
def test_a_file_that_is_no_model_fails_the_load_with_its_name(tmp_path: Path, extra_buffers: str) -> None:
    text = tmp_path / "notes.gguf"
    text.write_text("no model", encoding="utf-8")
    with start(text, tmp_path, extra_buffers) as engine, pytest.raises(ModelLoadError, match=r"notes\.gguf"):
        engine.wait_loaded()


def test_a_file_that_vanished_fails_the_load_with_its_name(tmp_path: Path) -> None:
    with start(tmp_path / "gone.gguf", tmp_path) as engine, pytest.raises(ModelLoadError, match=r"gone\.gguf"):
        engine.wait_loaded()


def test_a_model_larger_than_the_memory_is_not_tried(tmp_path: Path) -> None:
    huge = tmp_path / "huge.gguf"
    try:
        with huge.open("wb") as file:
            file.truncate(total_memory_bytes() + 1)
    except OSError:
        pytest.skip("this file system has no sparse files of that size")
    with start(huge, tmp_path) as engine, pytest.raises(OutOfMemoryError, match="of memory"):
        engine.wait_loaded()
    assert not (tmp_path / "probe.json").exists()


def test_closing_during_the_probe_does_not_wait_for_it(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text("import time; time.sleep(600)", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    engine = start(tiny_model, tmp_path)
    job = engine.submit(Request((1,), 1))
    assert not engine.wait_loaded(0.3)
    engine.close()
    with pytest.raises(KhepriError):
        job.result()
    with pytest.raises(CancelledError):
        engine.wait_loaded()


def test_every_waiting_request_gets_the_error_of_the_load(tmp_path: Path) -> None:
    with start(tmp_path / "gone.gguf", tmp_path) as engine:
        for _ in range(3):
            with pytest.raises(ModelError, match=r"gone\.gguf"):
                engine.submit(Request((1,), 1)).result()


def test_what_passes_cost_is_measured_once_and_kept(tiny_model: Path, tmp_path: Path) -> None:
    with start(tiny_model, tmp_path) as engine:
        prompt = tuple(engine.vocabulary.tokenize("def name(a): return a\n" * 4))
        engine.submit(Request(prompt, 40)).result()
    costs = json.loads((tmp_path / "pass-costs.json").read_text())
    assert len(costs) == 1
    (identity,) = costs
    assert "threads 1" in identity
    assert tiny_model.name in identity


def test_what_passes_cost_is_measured_anew_for_a_library_that_was_compiled_anew(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for build in ("0.3.36;libllama.so:100:1", "0.3.36;libllama.so:101:2"):
        monkeypatch.setattr(launching, "library_build", lambda _, build=build: build)
        with start(tiny_model, tmp_path) as engine:
            engine.submit(Request(tuple(engine.vocabulary.tokenize("def name(a): return a\n" * 4)), 40)).result()
    assert len(json.loads((tmp_path / "pass-costs.json").read_text())) == 2


def test_a_draft_model_of_the_same_vocabulary_drafts_and_changes_nothing(tiny_model: Path, tmp_path: Path) -> None:
    settings = EngineSettings(512, 1, 64, "off", draft_model=tiny_model)
    with launch(tiny_model, settings, files_in(tmp_path)) as engine:
        prompt = tuple(engine.vocabulary.tokenize("def name(a): return a"))
        plain = engine.submit(Request(prompt, 30, draft=DraftMode.OFF)).result()
        drafted = engine.submit(Request(prompt, 30, draft=DraftMode.MODEL, gamma=3)).result()
        statistics = engine.draft_statistics[DrafterName.MODEL]
    assert drafted.tokens == plain.tokens
    assert drafted.accepted_tokens > 0.9 * drafted.drafted_tokens > 0
    assert (statistics.drafted, statistics.accepted) == (drafted.drafted_tokens, drafted.accepted_tokens)


def test_a_draft_model_of_another_vocabulary_is_refused_with_the_reason(tiny_model: Path, tmp_path: Path) -> None:
    other = write_tiny_sentencepiece_model(tmp_path / "other.gguf")
    settings = EngineSettings(512, 1, 64, "off", draft_model=other)
    with (
        launch(tiny_model, settings, files_in(tmp_path)) as engine,
        pytest.raises(ModelLoadError, match="does not share the vocabulary"),
    ):
        engine.wait_loaded()


@needs_both
@pytest.mark.parametrize("extra_buffers", ["auto", "off"])
def test_a_model_whose_shape_a_named_library_does_not_bear_is_refused_and_ends_no_process(
    tmp_path: Path, extra_buffers: str
) -> None:
    model = write_tiny_window_model(tmp_path / "window.gguf")
    settings = EngineSettings(512, 1, 64, extra_buffers, backend=BackendName.IK_LLAMA)
    with (
        launch(model, settings, files_in(tmp_path)) as engine,
        pytest.raises(ModelLoadError, match=r"ik_llama cannot run window\.gguf") as raised,
    ):
        engine.wait_loaded()
    assert raised.value.hint == "set backend = llama_cpp"


@needs_both
@pytest.mark.parametrize("named", [None, BackendName.IK_LLAMA])
def test_a_draft_model_that_the_chosen_library_does_not_bear_runs_in_the_other_unless_it_was_named(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: BackendName | None
) -> None:
    monkeypatch.setattr(launching, "choose", lambda *_: Choice(BackendName.IK_LLAMA, "faster"))
    draft = write_tiny_window_model(tmp_path / "window.gguf")
    settings = EngineSettings(512, 1, 64, "off", draft_model=draft, backend=named)
    with launch(tiny_model, settings, files_in(tmp_path)) as engine:
        if named is not None:
            with pytest.raises(ModelLoadError, match="cannot run"):
                engine.wait_loaded()
            return
        prompt = tuple(engine.vocabulary.tokenize("def name(a): return a"))
        drafted = engine.submit(Request(prompt, 20, draft=DraftMode.MODEL, gamma=3)).result()
        assert engine.backend.capabilities.backend is BackendName.IK_LLAMA
    assert drafted.drafted_tokens > 0


def test_exact_decoding_is_refused_where_the_library_has_no_settings_for_it(tiny_model: Path, tmp_path: Path) -> None:
    # The tiny model's heads are too small for quantized keys, without which passes of different widths differ.
    with (
        launch(tiny_model, EngineSettings(512, 1, 64, exact=True), files_in(tmp_path)) as engine,
        pytest.raises(ModelLoadError, match="exact decoding cannot be promised here"),
    ):
        engine.wait_loaded()
    assert not (tmp_path / "exact.txt").exists()


def test_exact_decoding_is_refused_for_a_difference_that_changes_no_choice_here(tmp_path: Path) -> None:
    backend = RoundingBackend(context_tokens=1000)
    backend.amount = 1e-4
    text = backend.vocabulary.tokenize("a text as long as it takes " * 8)
    assert all(each.different_rows and not each.flips for each in compare_widths(backend, text, (2, 8)))
    with pytest.raises(ModelLoadError, match="exact decoding cannot be promised here"):
        launching._require_exactness(backend, "this model", tmp_path / "exact.txt")
    assert not (tmp_path / "exact.txt").exists()
