"""The other kind of vocabulary: it begins every text with a space and spells rare characters in byte tokens."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.agent.protocol import CALL_END, TRIGGER, parse, tool_grammar
from khepri.engine.backend import LoadOptions, Vocabulary
from khepri.engine.backends.llama_cpp import LlamaCppBackend
from khepri.engine.constrain import GrammarCompiler
from khepri.engine.detokenize import Detokenizer
from khepri.engine.request import ToolCallGrammar
from khepri.tools.registry import Registry
from tests.support.tiny_model import write_tiny_sentencepiece_model


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vocabulary]:
    path = write_tiny_sentencepiece_model(tmp_path_factory.mktemp("models") / "sentencepiece.gguf")
    backend = LlamaCppBackend(LoadOptions(path, 256, 1))
    yield backend.vocabulary
    backend.close()


def shown(vocabulary: Vocabulary, tokens: list[int]) -> str:
    detokenizer = Detokenizer(vocabulary)
    return "".join([*map(detokenizer.push, tokens), detokenizer.flush()])


# A lone U+2581 is this kind's own spelling of a space.
@given(text=st.text(st.characters(exclude_characters="\u2581", exclude_categories=["Cs"]), max_size=30))
def test_text_survives_without_a_space_before_it(vocabulary: Vocabulary, text: str) -> None:
    assert shown(vocabulary, vocabulary.tokenize(text)) == text


def test_two_texts_put_together_are_their_sum(vocabulary: Vocabulary) -> None:
    tokens = vocabulary.tokenize("the one") + vocabulary.tokenize("\nthe other 🐞")
    assert shown(vocabulary, tokens) == "the one\nthe other 🐞"


def test_text_that_is_not_trusted_cannot_forge_a_control_token(vocabulary: Vocabulary) -> None:
    assert vocabulary.eos_id not in vocabulary.tokenize("</s>")
    assert vocabulary.tokenize("</s>", special=True) == [vocabulary.eos_id]


def test_no_text_is_no_token(vocabulary: Vocabulary) -> None:
    assert vocabulary.tokenize("") == []


@pytest.mark.parametrize("seed", range(5))
def test_whatever_the_model_wants_to_say_a_forced_call_is_one(vocabulary: Vocabulary, seed: int) -> None:
    manifests = Registry.load().manifests
    lark = tool_grammar(manifests, ["src/é 🐞.py"], ["src"])
    constraint = GrammarCompiler(vocabulary).start(ToolCallGrammar(TRIGGER, lark, 1, forced=True))
    random = np.random.default_rng(seed)
    tokens: list[int] = []
    while not constraint.is_complete:
        allowed = constraint.allowed()
        assert allowed is not None
        tokens.append(int(random.choice(np.flatnonzero(allowed))))
        constraint.commit(tokens[-1])
    text = shown(vocabulary, tokens)
    assert text.endswith(CALL_END)
    call = parse(TRIGGER + text, [manifest.name for manifest in manifests])
    assert call is not None
