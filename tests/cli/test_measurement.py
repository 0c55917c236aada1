"""The child that loads the native library may end in any way; the parent always gets an answer or a typed error."""

import os
import sys
import time
from pathlib import Path

import pytest

from khepri.cli.measurement import measure, read_library
from khepri.engine.backend import LoadOptions
from khepri.errors import ModelError, ModelLoadError, OutOfMemoryError
from tests.support.tiny_model import CONTEXT_TOKENS, write_tiny_model

DIE = "import os, signal; os.kill(os.getpid(), signal.{})"


def child(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def options(model: Path) -> LoadOptions:
    return LoadOptions(model, context_tokens=512, threads=1, batch_tokens=50, extra_buffers=False)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("models") / "a 'model' é 🐞.gguf")


def test_the_installed_library_describes_itself() -> None:
    library = read_library()
    assert library.version
    assert library.features


def test_a_model_is_measured_in_a_child(model: Path) -> None:
    said: list[str] = []
    measured = measure(options(model), said.append)
    assert measured.trained_context_tokens == CONTEXT_TOKENS
    assert measured.has_chat_template
    assert measured.prefill_tokens_per_s > 0
    assert measured.decode_tokens_per_s > 0
    assert measured.resident_bytes > measured.kv_bytes > 0
    assert said[0] == "loading the model"
    assert "decode" in said[-1]


def test_keys_and_values_are_sized_by_the_context(model: Path) -> None:
    # 2 layers, keys and values, 64 wide, 2 bytes each; the state also carries a few bytes for each token and a header.
    measured = measure(options(model), lambda _: None)
    assert 1.0 < measured.kv_bytes / (512 * 2 * 2 * 64 * 2) < 1.2


def test_a_file_that_is_no_model_is_refused_with_the_librarys_words(tmp_path: Path) -> None:
    text = tmp_path / "text.gguf"
    text.write_text("not a model", encoding="utf-8")
    with pytest.raises(ModelLoadError, match=r"text\.gguf"):
        measure(options(text), lambda _: None)


def test_a_library_that_dies_at_its_import_kills_only_the_child() -> None:
    with pytest.raises(ModelLoadError, match=r"died \(SIGSEGV\)"):
        read_library(child(DIE.format("SIGSEGV")))


def test_a_child_that_the_system_kills_is_taken_for_a_lack_of_memory(model: Path) -> None:
    with pytest.raises(OutOfMemoryError, match="memory ran out"):
        measure(options(model), lambda _: None, child(DIE.format("SIGKILL")))


def test_a_missing_library_is_named() -> None:
    with pytest.raises(ModelLoadError, match="No module named 'no_such_library'"):
        read_library(child("import no_such_library"))


def test_a_child_that_says_nothing_is_a_failure() -> None:
    with pytest.raises(ModelLoadError, match="exit status 0"):
        read_library(child("pass"))


def test_a_child_that_dies_after_its_answer_has_failed() -> None:
    with pytest.raises(ModelLoadError, match="SIGABRT"):
        read_library(child('print(\'{"version": "1", "features": []}\', flush=True); import os; os.abort()'))


def test_words_that_the_library_prints_between_are_passed_over() -> None:
    noise = "print('ggml: hello'); print('[1]'); print('{\"version\": \"1\", \"features\": [\"AVX\"]}'); print('\\xff')"
    assert read_library(child(noise)).features == {"AVX"}


def test_a_child_that_never_answers_is_killed(model: Path) -> None:
    started = time.monotonic()
    with pytest.raises(ModelError, match="gave no answer in"):
        measure(options(model), lambda _: None, child("import time; time.sleep(600)"), timeout_s=0.5)
    assert time.monotonic() - started < 60


def test_a_child_that_floods_its_error_stream_is_read_to_the_end(model: Path) -> None:
    flood = "import sys; sys.stderr.write('x' * 3_000_000); sys.exit(9)"
    with pytest.raises(ModelLoadError, match="exit status 9"):
        measure(options(model), lambda _: None, child(flood))


def test_modules_in_the_working_folder_are_not_imported(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json.py", "numpy.py", "psutil.py", "llama_cpp.py"):
        (tmp_path / name).write_text("open('caught', 'w').close()", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert read_library().version
    assert measure(options(model), lambda _: None).load_s > 0
    assert not os.path.exists("caught")
