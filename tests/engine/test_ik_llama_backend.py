"""The fork behind the same seam as llama.cpp, and beside it in one process."""

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from khepri.engine.backend import Backend, BackendName, Batch, KvType, LoadOptions
from khepri.engine.backends.ik_llama_api import IkLlamaApi, find_library
from khepri.engine.backends.llama_cpp import LlamaCppBackend
from khepri.engine.backends.loading import load_backend
from khepri.engine.choice import Machine, choose
from khepri.engine.hardware import describe_cpu
from khepri.engine.prefix import RadixPrefixCache, choose_cache
from khepri.errors import ModelLoadError
from tests.engine.conformance import (
    BATCH_TOKENS,
    CONTEXT_TOKENS,
    SEQUENCES,
    BackendConformance,
    Exactness,
    feed,
    interrupt_latency_ms,
)
from tests.support.huge_pages import huge_kib, needs_huge_pages
from tests.support.tiny_model import write_tiny_model

pytestmark = pytest.mark.skipif(find_library() is None, reason="the extra `fast` is not installed")


@pytest.fixture
def options(tiny_model: Path) -> LoadOptions:
    # One thread: on a busy machine two of them spend their time waiting for each other.
    return LoadOptions(tiny_model, CONTEXT_TOKENS, 1, BATCH_TOKENS, SEQUENCES, backend=BackendName.IK_LLAMA)


@pytest.fixture
def backend(options: LoadOptions) -> Iterator[Backend]:
    backend = load_backend(options)
    yield backend
    backend.close()


def test_there_may_be_more_sequences_than_tokens_of_a_pass(options: LoadOptions) -> None:
    with closing(load_backend(replace(options, sequences=202, batch_tokens=64))) as backend:
        backend.decode(Batch((1, 2, 3), 0, sequence=201))
        assert backend.sequence_length(201) == 3


class TestIkLlamaBackend(BackendConformance):
    @pytest.fixture
    def make_backend(self, options: LoadOptions) -> Callable[[], Backend]:
        return lambda: load_backend(options)

    @pytest.fixture
    def exactness(self) -> Exactness:
        return Exactness(0.02)


class TestIkLlamaBackendWithQuantizedKeys(BackendConformance):
    """Keys and values as they are by default, in a model whose heads their blocks divide."""

    @pytest.fixture
    def make_backend(self, options: LoadOptions, tmp_path: Path) -> Callable[[], Backend]:
        path = write_tiny_model(tmp_path / "heads of 32.gguf", heads=2)

        def make() -> Backend:
            backend = load_backend(replace(options, model_path=path, kv_type=KvType.AUTO))
            assert backend.capabilities.kv_type is KvType.Q8_0
            return backend

        return make

    @pytest.fixture
    def exactness(self) -> Exactness:
        return Exactness(0.02)


def test_the_structures_are_laid_out_as_the_library_has_them() -> None:
    library = find_library()
    assert library is not None
    api: Any = IkLlamaApi(library)
    model, context = api.llama_model_default_params(), api.llama_context_default_params()
    # From the first field to the last, and with neighbours that differ: a field of the wrong size would shift them.
    assert [getattr(model, name) for name in ("n_gpu_layers", "split_mode", "type_k", "n_seq_max", "n_ubatch")] == [
        0, 1, 1, 1, 512,
    ]  # fmt: skip
    assert [getattr(model, name) for name in ("n_k_first", "n_v_last", "vocab_only", "use_mmap", "repack_tensors")] == [
        -1, -1, False, True, False,
    ]  # fmt: skip
    assert (model.dry_run, model.flash_attn) == (False, True)
    assert [getattr(context, name) for name in ("seed", "n_ctx", "n_batch", "n_ubatch", "n_seq_max")] == [
        0xFFFFFFFF, 512, 2048, 512, 1,
    ]  # fmt: skip
    assert [getattr(context, name) for name in ("rope_scaling_type", "attention_type", "defrag_thold")] == [-1, -1, -1]
    assert [getattr(context, name) for name in ("type_k", "n_v_last", "logits_all", "offload_kqv", "flash_attn")] == [
        1, -1, False, True, True,
    ]  # fmt: skip
    assert [getattr(context, name) for name in ("mla_attn", "graph_reuse", "min_experts", "mtp_op_type")] == [
        3, True, -1, 0,
    ]  # fmt: skip
    assert (context.abort_callback, context.cuda_params) == (None, None)


def test_both_libraries_live_in_one_process_and_agree(options: LoadOptions, backend: Backend) -> None:
    other = LlamaCppBackend(replace(options, backend=BackendName.LLAMA_CPP))
    tokens = backend.vocabulary.tokenize("def the thing:\n\n    return a name, and more of the same")
    assert other.vocabulary.tokenize("def the thing:\n\n    return a name, and more of the same") == tokens
    assert other.capabilities.library != backend.capabilities.library
    for width in (1, 7, len(tokens)):
        backend.sequence_remove(0, 0)
        other.sequence_remove(0, 0)
        ours, theirs = feed(backend, tokens, width), feed(other, tokens, width)
        assert np.abs(ours - theirs).max() < 0.05
        assert (ours.argmax(axis=1) == theirs.argmax(axis=1)).all()
    other.close()


def test_both_libraries_have_the_same_vocabulary(options: LoadOptions, backend: Backend) -> None:
    other = LlamaCppBackend(replace(options, backend=BackendName.LLAMA_CPP))
    ours, theirs = backend.vocabulary, other.vocabulary
    assert (ours.size, ours.end_ids, ours.eos_id, ours.bos_id) == (
        theirs.size, theirs.end_ids, theirs.eos_id, theirs.bos_id,
    )  # fmt: skip
    assert (ours.chat_template, ours.begins_with_bos) == (theirs.chat_template, theirs.begins_with_bos)
    for special in (False, True):
        pieces = [ours.piece(token, special=special) for token in range(ours.size)]
        assert pieces == [theirs.piece(token, special=special) for token in range(theirs.size)]
    other.close()


def test_passes_of_changing_width_in_changing_sequences_give_what_fresh_ones_give(
    options: LoadOptions, backend: Backend
) -> None:
    # The library reuses the graph of a pass of one token for the next one; nothing of the pass before may be in it.
    tokens = [token % 200 for token in range(40)]
    expected = feed(backend, tokens, len(tokens))
    for sequence in (1, 2):
        place = 0
        for width in (1, 1, 4, 1, 8, 1, 1, 2, 16, 1, 1):
            rows = backend.decode(Batch(tuple(tokens[place : place + width]), place, sequence, logits_from=0))
            assert np.abs(rows - expected[place : place + width]).max() < 0.02
            place += width


def test_it_refuses_to_promise_exactness(options: LoadOptions) -> None:
    with pytest.raises(ModelLoadError, match="width of a pass"):
        load_backend(replace(options, exact=True))


def test_a_file_that_is_no_model_is_refused_with_its_name(options: LoadOptions, tmp_path: Path) -> None:
    text = tmp_path / "notes.gguf"
    text.write_text("no model", encoding="utf-8")
    with pytest.raises(ModelLoadError, match=r"notes\.gguf"):
        load_backend(replace(options, model_path=text))


@pytest.mark.parametrize("kept", [0.0, 0.001, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(options: LoadOptions, tmp_path: Path, kept: float) -> None:
    path = tmp_path / "cut.gguf"
    data = options.model_path.read_bytes()
    path.write_bytes(data[: int(len(data) * kept)])
    with pytest.raises(ModelLoadError, match=r"cut\.gguf"):
        load_backend(replace(options, model_path=path))


def test_a_load_says_nothing_on_the_terminal(options: LoadOptions, capfd: pytest.CaptureFixture[str]) -> None:
    load_backend(options).close()
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_interrupting_one_library_does_not_stop_the_other(options: LoadOptions, backend: Backend) -> None:
    other = LlamaCppBackend(replace(options, backend=BackendName.LLAMA_CPP))
    other.interrupt()
    assert backend.decode(Batch((1,), 0)).shape == (1, backend.vocabulary.size)
    other.resume()
    backend.interrupt()
    assert other.decode(Batch((1,), 0)).shape == (1, other.vocabulary.size)
    other.close()


@pytest.mark.parametrize("name", list(BackendName))
def test_a_library_says_whether_it_bears_a_gap_at_a_256th_cell(options: LoadOptions, name: BackendName) -> None:
    backend = load_backend(replace(options, context_tokens=512, backend=name))
    tokens = [5 + place * 7 % 190 for place in range(300)]
    feed(backend, tokens[:250], 50, sequence=1)
    feed(backend, [9] * 10, 10, sequence=2)
    feed(backend, tokens[250:299], 49, sequence=1)
    backend.sequence_remove(2, 0)
    with_gap = feed(backend, tokens[299:], 1, sequence=1)
    backend.sequence_remove(1, 0)
    without = feed(backend, tokens, 50)[-1:]
    assert (np.abs(with_gap - without).max() < 0.05) == backend.capabilities.may_leave_gaps
    backend.close()


def test_one_conversation_at_a_time_is_cached_without_a_gap(options: LoadOptions) -> None:
    backend = load_backend(replace(options, context_tokens=1024, sequences=5))
    alone = load_backend(replace(options, context_tokens=1024))
    cache = choose_cache(backend)
    assert isinstance(cache, RadixPrefixCache)
    stem = [5 + place * 7 % 190 for place in range(250)]
    prompts = [[*stem, *tail] for tail in ([6] * 20, [7] * 90, [6] * 25, [8] * 300)] + [[9] * 280, [*stem, *[6] * 60]]
    reused = []
    for prompt in prompts:
        start = cache.match(prompt)
        for place in range(start, len(prompt), 50):
            chunk = tuple(prompt[place : place + 50])
            cache.reserve(len(chunk))
            logits = backend.decode(Batch(chunk, place, cache.sequence)).copy()
            cache.extend(chunk)
        cache.truncate(len(prompt) - 3)
        cache.release()
        cache.check_integrity()
        alone.sequence_remove(0, 0)
        assert np.abs(feed(alone, prompt, 50)[-1:] - logits).max() < 0.05
        reused.append(start)
    assert reused == [0, 250, 250, 250, 0, 0]
    backend.close()
    alone.close()


@pytest.mark.real_model
def test_a_single_pass_of_2048_tokens_can_be_interrupted(small_model: Path) -> None:
    cores = describe_cpu().physical_cores
    backend = load_backend(LoadOptions(small_model, 2048, cores, 2048, backend=BackendName.IK_LLAMA))
    tokens = tuple(backend.vocabulary.tokenize("a b c d e f g " * 400)[:2048])
    for delay_s in (0.0, 0.05, 0.5):
        assert interrupt_latency_ms(backend, tokens, delay_s) < 300
        assert backend.sequence_remove(0, 0)
    backend.close()


@pytest.mark.real_model
def test_a_library_that_is_wrong_about_a_model_is_not_taken_for_it(small_model: Path, tmp_path: Path) -> None:
    # With 64 tokens a pass and weights of this kind, the fork moves most of the probability to other tokens.
    machine = Machine(tmp_path / "probe.json", tmp_path / "backends.json", 0, None, threading.Event())
    choice = choose(small_model, machine, lambda _: None)
    assert choice.backend is BackendName.LLAMA_CPP
    assert "more than rounding" in choice.candidates[1].refusal


@pytest.mark.parametrize("extra_buffers", [True, False])
def test_repacked_weights_give_the_same_answers(options: LoadOptions, backend: Backend, extra_buffers: bool) -> None:
    other = load_backend(replace(options, extra_buffers=extra_buffers))
    tokens = list(range(10, 40))
    assert np.abs(feed(other, tokens, 30) - feed(backend, tokens, 30)).max() < 0.05
    other.close()


def test_quantized_keys_that_do_not_divide_a_head_are_refused_instead_of_ending_the_process(
    options: LoadOptions,
) -> None:
    with pytest.raises(ModelLoadError, match="a head of 16 numbers"):
        load_backend(replace(options, kv_type=KvType.Q8_0))
    chosen = load_backend(replace(options, kv_type=KvType.AUTO))
    assert chosen.capabilities.kv_type is KvType.F16
    chosen.close()


@needs_huge_pages
@pytest.mark.real_model
def test_the_weights_lie_in_huge_pages(small_model: Path) -> None:
    before = huge_kib()
    with closing(load_backend(LoadOptions(small_model, 512, 1, 64, extra_buffers=True, backend=BackendName.IK_LLAMA))):
        assert huge_kib() - before > 0.9 * small_model.stat().st_size / 1024
