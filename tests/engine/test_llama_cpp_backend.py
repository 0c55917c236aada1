import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from khepri.engine.backend import Backend, Batch, KvType, LoadOptions
from khepri.engine.backends.llama_cpp import LlamaCppBackend
from khepri.engine.naive_prefix import NaivePrefixCache
from khepri.errors import CancelledError, KhepriError, ModelLoadError
from tests.engine.conformance import (
    BATCH_TOKENS,
    CONTEXT_TOKENS,
    SEQUENCES,
    BackendConformance,
    Exactness,
    feed,
)
from tests.support.tiny_model import write_tiny_recurrent_model


@pytest.fixture
def options(tiny_model: Path) -> LoadOptions:
    # One thread: on a busy machine two of them spend their time waiting for each other.
    return LoadOptions(tiny_model, CONTEXT_TOKENS, 1, BATCH_TOKENS, SEQUENCES)


@pytest.fixture
def backend(options: LoadOptions) -> Iterator[LlamaCppBackend]:
    backend = LlamaCppBackend(options)
    yield backend
    backend.close()


class TestLlamaCppBackend(BackendConformance):
    @pytest.fixture
    def make_backend(self, options: LoadOptions) -> Callable[[], Backend]:
        return lambda: LlamaCppBackend(options)

    @pytest.fixture
    def exactness(self) -> Exactness:
        # The tiny model's logits have a standard deviation of 3; kernels of different width differ by 0.002.
        return Exactness(0.02)


def test_it_reports_its_library_and_what_was_compiled_in(backend: LlamaCppBackend) -> None:
    assert backend.capabilities.library.startswith("llama-cpp-python ")
    assert backend.capabilities.trained_context_tokens == 2048
    assert backend.capabilities.can_remove_tail
    assert all(feature.strip() == feature and feature for feature in backend.capabilities.features)


def test_heads_that_cannot_be_quantized_are_refused_with_the_way_out(options: LoadOptions) -> None:
    with pytest.raises(ModelLoadError) as refused:
        LlamaCppBackend(replace(options, kv_type=KvType.Q8_0))
    assert "kv_type = auto" in str(refused.value.hint)


def test_there_may_be_more_sequences_than_tokens_of_a_pass(options: LoadOptions) -> None:
    with closing(LlamaCppBackend(replace(options, sequences=202, batch_tokens=64))) as backend:
        backend.decode(Batch((1, 2, 3), 0, sequence=201))
        assert backend.sequence_length(201) == 3


def test_the_vocabulary_is_the_one_of_the_file(backend: LlamaCppBackend) -> None:
    vocabulary = backend.vocabulary
    assert vocabulary.chat_template is not None
    assert "<|im_start|>" in vocabulary.chat_template
    assert not vocabulary.begins_with_bos
    assert vocabulary.eos_id in vocabulary.end_ids
    assert [vocabulary.piece(token) for token in vocabulary.tokenize("<tool_call>")] == [b"<tool_call>"]


def test_lone_surrogates_are_taken_as_bytes(backend: LlamaCppBackend) -> None:
    assert backend.vocabulary.tokenize("\ud800")
    assert backend.vocabulary.tokenize("caf\udce9")


def test_a_vocabulary_says_so_when_its_model_is_closed(options: LoadOptions) -> None:
    backend = LlamaCppBackend(options)
    vocabulary = backend.vocabulary
    backend.close()
    with pytest.raises(KhepriError):
        vocabulary.tokenize("text")
    with pytest.raises(KhepriError):
        vocabulary.piece(1)


def test_two_models_live_beside_each_other(options: LoadOptions) -> None:
    first, second = LlamaCppBackend(options), LlamaCppBackend(options)
    expected = first.decode(Batch((1, 2, 3), 0)).copy()
    assert np.array_equal(second.decode(Batch((1, 2, 3), 0)), expected)
    first.close()
    assert second.decode(Batch((4,), 3)).shape == (1, second.vocabulary.size)
    second.close()


def test_interrupting_one_model_does_not_stop_the_other(options: LoadOptions) -> None:
    first, second = LlamaCppBackend(options), LlamaCppBackend(options)
    first.interrupt()
    assert second.decode(Batch((1,), 0)).shape == (1, second.vocabulary.size)
    first.close()
    second.close()


@pytest.mark.parametrize("name", ["modèle 🙂.gguf", "with space 'and' \"quotes\".gguf"])
def test_a_model_loads_from_a_path_of_any_characters(tiny_model: Path, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(tiny_model.read_bytes())
    logits = []
    for model in (tiny_model, path):
        backend = LlamaCppBackend(LoadOptions(model, CONTEXT_TOKENS, 1))
        logits.append(backend.decode(Batch((5, 6, 7), 0)).copy())
        backend.close()
    assert np.array_equal(logits[0], logits[1])


def test_a_text_file_is_refused_with_the_librarys_reason(tmp_path: Path) -> None:
    path = tmp_path / "notes.gguf"
    path.write_text("these are notes, and no model")
    with pytest.raises(ModelLoadError, match=r"notes\.gguf.*magic"):
        LlamaCppBackend(LoadOptions(path, CONTEXT_TOKENS, 1))


@pytest.mark.parametrize("kept", [0.0, 0.001, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(tiny_model: Path, tmp_path: Path, kept: float) -> None:
    path = tmp_path / "cut.gguf"
    data = tiny_model.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(ModelLoadError, match=r"cut\.gguf") as refused:
        LlamaCppBackend(LoadOptions(path, CONTEXT_TOKENS, 1))
    assert not refused.value.message.endswith("failed to load model")


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelLoadError, match="No such file"):
        LlamaCppBackend(LoadOptions(tmp_path / "none.gguf", CONTEXT_TOKENS, 1))


def test_the_library_says_nothing_on_the_terminal(
    options: LoadOptions, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    LlamaCppBackend(options).close()
    with pytest.raises(ModelLoadError):
        LlamaCppBackend(LoadOptions(tmp_path / "none.gguf", CONTEXT_TOKENS, 1))
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


@pytest.fixture
def recurrent(tmp_path: Path) -> Iterator[LlamaCppBackend]:
    path = write_tiny_recurrent_model(tmp_path / "recurrent.gguf")
    backend = LlamaCppBackend(LoadOptions(path, CONTEXT_TOKENS, 1, BATCH_TOKENS))
    yield backend
    backend.close()


def test_a_recurrent_model_says_that_it_cannot_remove_a_tail_and_keeps_its_sequence(
    recurrent: LlamaCppBackend,
) -> None:
    assert not recurrent.capabilities.can_remove_tail
    tokens = recurrent.vocabulary.tokenize("def the thing: return a name")
    expected = feed(recurrent, tokens, 1)
    assert recurrent.sequence_remove(0, 0)
    feed(recurrent, tokens[:-1], 8)
    assert not recurrent.sequence_remove(0, 4)
    assert recurrent.sequence_length(0) == len(tokens) - 1
    Exactness(0.02).check(feed(recurrent, tokens[-1:], 1), expected[-1:])


def go_on_until_interrupted(backend: LlamaCppBackend, tokens: list[int]) -> None:
    backend.decode(Batch(tuple(tokens), backend.sequence_length(0)))
    while True:
        backend.decode(Batch((tokens[0],), backend.sequence_length(0)))


def test_the_prefix_cache_starts_anew_where_a_recurrent_model_was_interrupted(recurrent: LlamaCppBackend) -> None:
    tokens = recurrent.vocabulary.tokenize("more and more of the same, and then some of it once again")[:40]
    expected = feed(recurrent, tokens, 40)
    recurrent.sequence_remove(0, 0)
    cache = NaivePrefixCache(recurrent)
    for round_number in range(20):
        start = cache.match(tokens)
        if start < 20:
            feed(recurrent, tokens[start:20], 20)
            cache.extend(tokens[start:20])
        timer = threading.Timer(round_number * 0.0001, recurrent.interrupt)
        timer.start()
        with pytest.raises(CancelledError):
            go_on_until_interrupted(recurrent, tokens[20:])
        timer.join()
        recurrent.resume()
        cache.truncate(cache.length)
        cache.check_integrity()
    start = cache.match(tokens)
    Exactness(0.02).check(feed(recurrent, tokens[start:], 40), expected[start:])


@pytest.mark.parametrize("is_prepared", [True, False])
def test_a_failed_assertion_of_the_library_starts_no_debugger(tmp_path: Path, is_prepared: bool) -> None:
    caught = tmp_path / "caught"
    for name in ("gdb", "lldb"):
        (tmp_path / name).write_text(f"#!/bin/sh\n: > '{caught}'\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    environment = {key: value for key, value in os.environ.items() if key != "GGML_NO_BACKTRACE"}
    environment["PATH"] = f"{tmp_path}:{environment['PATH']}"
    loads = "khepri.engine.backends.llama_cpp" if is_prepared else "llama_cpp"
    program = f"import {loads}; from llama_cpp import _ggml; _ggml.libggml.ggml_abort(b'x.c', 7, b'boom')"
    done = subprocess.run([sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True)
    assert done.returncode == -signal.SIGABRT
    assert b"boom" in done.stderr
    assert caught.exists() is not is_prepared, "without the preparation this test would see the debugger"
