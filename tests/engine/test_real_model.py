"""One test per promise with the models that Khepri is used with."""

import ctypes
import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import llama_cpp as native
import numpy as np
import pytest

from khepri.agent.protocol import CALL_END, TRIGGER, tool_grammar
from khepri.engine.backend import LoadOptions
from khepri.engine.backends.llama_cpp import LlamaCppBackend
from khepri.engine.buffer import JobState
from khepri.engine.hardware import describe_cpu
from khepri.engine.job import Job
from khepri.engine.request import Request, StopReason, ToolCallGrammar
from khepri.engine.worker import EngineWorker
from khepri.tools.registry import Registry
from tests.engine.conformance import feed, interrupt_latency_ms
from tests.support.huge_pages import huge_kib, needs_huge_pages

pytestmark = [pytest.mark.real_model, pytest.mark.timeout(600)]

BATCH_TOKENS = 128
CONTEXT_TOKENS = 4096
CANCEL_MS = 300.0
QUESTION = (
    "<|im_start|>user\nWrite a Python function that counts the words of a file.<|im_end|>\n<|im_start|>assistant\n"
)


@pytest.fixture(scope="module")
def options(default_model: Path) -> LoadOptions:
    return LoadOptions(default_model, CONTEXT_TOKENS, describe_cpu().physical_cores, BATCH_TOKENS)


@pytest.fixture(scope="module")
def engine(options: LoadOptions) -> Iterator[EngineWorker]:
    with EngineWorker(lambda: LlamaCppBackend(options), BATCH_TOKENS) as worker:
        yield worker


@pytest.fixture(scope="module")
def question(engine: EngineWorker) -> tuple[int, ...]:
    return tuple(engine.vocabulary.tokenize(QUESTION, special=True))


def greedy_by_hand(options: LoadOptions, prompt: tuple[int, ...], count: int) -> list[int]:
    """Continue ``prompt`` with nothing but llama-cpp-python's own functions."""
    model_parameters = native.llama_model_default_params()
    model_parameters.n_gpu_layers = 0
    model = native.llama_model_load_from_file(os.fsencode(options.model_path), model_parameters)
    parameters = native.llama_context_default_params()
    parameters.n_ctx, parameters.n_batch, parameters.n_ubatch = CONTEXT_TOKENS, BATCH_TOKENS, BATCH_TOKENS
    parameters.n_threads = parameters.n_threads_batch = options.threads
    context = native.llama_init_from_model(model, parameters)
    vocabulary = native.llama_model_get_vocab(model)
    n_vocab = native.llama_vocab_n_tokens(vocabulary)
    tokens: list[int] = []
    chunks = [prompt[start : start + BATCH_TOKENS] for start in range(0, len(prompt), BATCH_TOKENS)]
    while len(tokens) < count:
        for chunk in chunks:
            array = (native.llama_token * len(chunk))(*chunk)
            assert native.llama_decode(context, native.llama_batch_get_one(array, len(chunk))) == 0
        logits = np.ctypeslib.as_array(native.llama_get_logits_ith(context, -1), (n_vocab,))
        tokens.append(int(logits.argmax()))
        if native.llama_vocab_is_eog(vocabulary, ctypes.c_int32(tokens[-1])):
            break
        chunks = [(tokens[-1],)]
    native.llama_free(context)
    native.llama_model_free(model)
    return tokens


def cancel_latency_ms(job: Job) -> float:
    started = time.perf_counter()
    job.cancel()
    assert job.wait(300)
    return (time.perf_counter() - started) * 1000


def wait_until(job: Job, state: JobState, tokens: int = 0) -> None:
    while job.buffer.snapshot.state is not state or job.buffer.snapshot.completion_tokens < tokens:
        assert not job.is_done
        time.sleep(0.005)


def test_greedy_answers_repeat_and_equal_the_librarys_own(
    engine: EngineWorker, options: LoadOptions, question: tuple[int, ...]
) -> None:
    first = engine.submit(Request(question, 24)).result()
    engine.submit(Request((1, 2, 3), 1)).result()
    second = engine.submit(Request(question, 24)).result()
    assert second.tokens == first.tokens
    assert "def" in first.text
    assert list(first.tokens) == greedy_by_hand(options, question, 24)


def test_a_prompt_that_shares_a_prefix_evaluates_only_its_rest(engine: EngineWorker, question: tuple[int, ...]) -> None:
    first = engine.submit(Request(question, 8)).result()
    followed = (*question, *first.tokens, *engine.vocabulary.tokenize(" and so on"))
    second = engine.submit(Request(followed, 1)).result()
    assert second.cached_tokens == len(question) + len(first.tokens) - 1
    third = engine.submit(Request((*question[:10], 100, 200), 1)).result()
    assert third.cached_tokens == 10


def test_cancelling_takes_effect_in_a_prefill_of_2000_tokens(engine: EngineWorker) -> None:
    prompt = tuple((engine.vocabulary.tokenize(str(greedy_by_hand.__doc__) * 300))[:2000])
    assert len(prompt) == 2000
    for pause_s in (0.05, 0.4):
        job = engine.submit(Request((*prompt[1:], 5), 8))
        wait_until(job, JobState.PREFILL)
        time.sleep(pause_s)
        assert cancel_latency_ms(job) < CANCEL_MS
        assert (job.result().stop_reason, job.result().tokens) == (StopReason.CANCELLED, ())


def test_cancelling_takes_effect_in_the_decode_and_the_next_answer_is_whole(
    engine: EngineWorker, question: tuple[int, ...]
) -> None:
    expected = engine.submit(Request(question, 12)).result()
    job = engine.submit(Request(question, 400))
    wait_until(job, JobState.DECODE, tokens=6)
    assert cancel_latency_ms(job) < CANCEL_MS
    tokens = job.result().tokens
    assert job.result().stop_reason is StopReason.CANCELLED
    assert tokens[:12] == expected.tokens[: len(tokens)]
    assert engine.submit(Request(question, 12)).result().tokens == expected.tokens


def test_a_forced_call_names_a_tool_and_a_real_path(engine: EngineWorker) -> None:
    lark = tool_grammar(Registry.load().manifests, ["src/données/é.py", 'src/"odd".py'], ["src"])
    text = "<|im_start|>user\nRead the file é.py.<|im_end|>\n<|im_start|>assistant\n" + TRIGGER
    prompt = tuple(engine.vocabulary.tokenize(text, special=True))
    generation = engine.submit(Request(prompt, 80, grammar=ToolCallGrammar(TRIGGER, lark, 0, forced=True))).result()
    assert generation.stop_reason is StopReason.TOOL_CALL
    call = json.loads(generation.text.removesuffix(CALL_END))
    assert call["name"] in {manifest.name for manifest in Registry.load().manifests}


def test_a_single_pass_of_2048_tokens_can_be_interrupted(small_model: Path) -> None:
    backend = LlamaCppBackend(LoadOptions(small_model, 2048, describe_cpu().physical_cores, 2048))
    tokens = tuple(backend.vocabulary.tokenize("a b c d e f g " * 400)[:2048])
    assert len(tokens) == 2048
    for delay_s in (0.0, 0.05, 0.5):
        assert interrupt_latency_ms(backend, tokens, delay_s) < CANCEL_MS
        assert backend.sequence_remove(0, 0)
    logits = feed(backend, list(tokens[:8]), 8)
    backend.sequence_remove(0, 0)
    assert np.array_equal(feed(backend, list(tokens[:8]), 8), logits)
    backend.close()


def test_other_threads_run_while_a_pass_does(small_model: Path) -> None:
    backend = LlamaCppBackend(LoadOptions(small_model, 1024, 1, 512))
    tokens = tuple(backend.vocabulary.tokenize("a b c d e f g " * 100)[:512])
    ticks = 0
    stop = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not stop.wait(0.001):
            ticks += 1

    ticker = threading.Thread(target=tick)
    ticker.start()
    feed(backend, list(tokens), 512)
    stop.set()
    ticker.join()
    backend.close()
    assert ticks > 20


@needs_huge_pages
def test_repacked_weights_lie_in_huge_pages(options: LoadOptions) -> None:
    before = huge_kib()
    with closing(LlamaCppBackend(replace(options, extra_buffers=True))):
        assert huge_kib() - before > 0.5 * options.model_path.stat().st_size / 1024
