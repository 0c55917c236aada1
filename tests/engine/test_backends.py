"""Both backends under one suite, and what only llama.cpp can get wrong."""

import threading
from pathlib import Path

import pytest

from khepri.engine.backend import Backend, Batch, LoadOptions
from khepri.engine.backends.llama_cpp import LlamaCppBackend, library_features, library_version
from khepri.errors import KhepriError, ModelLoadError
from tests.engine.conformance import BATCH_TOKENS, CONTEXT_TOKENS, PROMPT, SEQUENCES, Conformance, Open
from tests.support.scripted_backend import ScriptedBackend


def options(model: Path) -> LoadOptions:
    return LoadOptions(
        model,
        context_tokens=CONTEXT_TOKENS,
        threads=1,
        batch_tokens=BATCH_TOKENS,
        sequences=SEQUENCES,
        extra_buffers=False,
    )


class TestScripted(Conformance):
    @pytest.fixture
    def open_backend(self) -> Open:
        return lambda: ScriptedBackend(context_tokens=CONTEXT_TOKENS, batch_tokens=BATCH_TOKENS, sequences=SEQUENCES)


class TestLlamaCpp(Conformance):
    # The logits of the tiny model reach about 80; keys and values are kept in half precision.
    tolerance = 0.1

    @pytest.fixture
    def open_backend(self, tiny_model: Path) -> Open:
        return lambda: LlamaCppBackend(options(tiny_model))


@pytest.fixture
def llama(tiny_model: Path) -> LlamaCppBackend:
    return LlamaCppBackend(options(tiny_model))
