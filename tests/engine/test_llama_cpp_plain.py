"""The baseline is the library's own greedy decoding: it says what the low-level backend says."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from khepri.engine.backend import Batch, LoadOptions
from khepri.engine.backends.llama_cpp import LlamaCppBackend
from khepri.engine.backends.llama_cpp_plain import LlamaCppPlain
from khepri.errors import ModelLoadError

PROMPT = tuple(range(40, 90))


@pytest.fixture
def options(tiny_model: Path) -> LoadOptions:
    return LoadOptions(tiny_model, 512, 1, batch_tokens=32, extra_buffers=False)


@pytest.fixture
def plain(options: LoadOptions) -> Iterator[LlamaCppPlain]:
    plain = LlamaCppPlain(options)
    yield plain
    plain.close()


def greedy(options: LoadOptions, prompt: tuple[int, ...], count: int) -> tuple[int, ...]:
    """Decode token by token with the low-level backend."""
    backend = LlamaCppBackend(options)
    rows, position, tokens = None, 0, list(prompt)
    while len(tokens) < len(prompt) + count:
        step = tuple(tokens[position : position + options.batch_tokens])
        rows = backend.decode(Batch(step, position))
        position += len(step)
        if position == len(tokens):
            tokens.append(int(rows[-1].argmax()))
    backend.close()
    return tuple(tokens[len(prompt) :])


def test_it_says_what_greedy_decoding_says(plain: LlamaCppPlain, options: LoadOptions) -> None:
    said = plain.generate(PROMPT, 24, end_ids=())
    assert said.tokens == greedy(options, PROMPT, 24)
    assert len(said.gaps_ms) == 23
    assert min(said.ttft_ms, *said.gaps_ms) > 0.0


def test_it_says_the_same_again_when_it_reuses_the_prompt(plain: LlamaCppPlain) -> None:
    first = plain.generate(PROMPT, 12, end_ids=())
    plain.generate(PROMPT[:20], 5, end_ids=())
    assert plain.generate(PROMPT, 12, end_ids=()).tokens == first.tokens


def test_it_stops_with_a_token_that_ends(plain: LlamaCppPlain) -> None:
    whole = plain.generate(PROMPT, 12, end_ids=()).tokens
    end = whole[4]
    assert plain.generate(PROMPT, 12, end_ids={end}).tokens == whole[: whole.index(end) + 1]


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF but nothing more")
    with pytest.raises(ModelLoadError, match=r"broken\.gguf"):
        LlamaCppPlain(LoadOptions(broken, 512, 1))


def test_closing_twice_is_harmless(options: LoadOptions) -> None:
    plain = LlamaCppPlain(options)
    assert plain._llama.model is not None
    plain.close()
    plain.close()
    assert plain._llama.model is None


@pytest.mark.parametrize("extra_buffers", [True, False])
def test_the_setting_of_the_extra_buffers_reaches_the_library(options: LoadOptions, extra_buffers: bool) -> None:
    plain = LlamaCppPlain(replace(options, extra_buffers=extra_buffers))
    assert bool(plain._llama.model_params.use_extra_bufts) is extra_buffers
    plain.close()
