import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from khepri.engine.backend import Batch
from khepri.engine.draft.model import ModelDrafter
from khepri.engine.request import DrafterName, Request, SamplingParams
from khepri.engine.sampling import transform
from khepri.errors import CancelledError, ModelLoadError
from tests.support.scripted_backend import END, ByteVocabulary, ScriptedBackend, reply_script

PROMPT = tuple(b"the beginning of a text")


def drafter(backend: ScriptedBackend, batch_tokens: int = 8) -> ModelDrafter:
    ticks = itertools.count()
    return ModelDrafter(backend, ByteVocabulary(), batch_tokens, lambda: next(ticks) / 1000)


def row_after(tokens: tuple[int, ...]) -> NDArray[np.float32]:
    """Return the scripted model's logits after ``tokens``, from a full prefill."""
    rows = ScriptedBackend(batch_tokens=len(tokens)).decode(Batch(tokens, 0))
    return np.array(rows[-1])


def greedy(tokens: tuple[int, ...], count: int) -> list[int]:
    """Return what the scripted model says after ``tokens``, from a full prefill for each token."""
    said: list[int] = []
    while len(said) < count:
        said.append(int(row_after((*tokens, *said)).argmax()))
        if said[-1] == END:
            break
    return said


def test_it_writes_what_the_smaller_model_would_say() -> None:
    model = drafter(ScriptedBackend())
    model.start(Request(PROMPT, 20))
    draft = model.propose(5)
    assert draft is not None
    assert (draft.drafter, draft.distributions) == (DrafterName.MODEL, None)
    assert list(draft.tokens) == greedy(PROMPT, 5)


@settings(deadline=None)
@given(st.lists(st.tuples(st.lists(st.integers(0, 90), min_size=1, max_size=6), st.integers(1, 5)), max_size=6))
def test_whatever_is_committed_it_goes_on_from_there(steps: list[tuple[list[int], int]]) -> None:
    model = drafter(ScriptedBackend())
    model.start(Request(PROMPT, 99))
    text = PROMPT
    for tokens, limit in steps:
        model.commit(tokens)
        text += tuple(tokens)
        draft = model.propose(limit)
        assert draft is not None
        assert list(draft.tokens) == greedy(text, limit)


def test_above_temperature_zero_a_draft_comes_with_what_it_was_drawn_from() -> None:
    sampling = SamplingParams(1.0, top_k=4, seed=3)
    model = drafter(ScriptedBackend())
    model.start(Request(PROMPT, 20, sampling))
    draft = model.propose(3)
    assert draft is not None
    assert draft.distributions is not None
    text = PROMPT
    for token, q in zip(draft.tokens, draft.distributions, strict=True):
        expected = transform(row_after(text), sampling)
        assert np.array_equal(q.ids, expected.ids)
        assert np.allclose(q.probabilities, expected.probabilities)
        assert token in q.ids
        text += (token,)


def test_a_draft_ends_with_the_end_of_the_turn() -> None:
    backend = ScriptedBackend(script=reply_script(len(PROMPT), [*b"ok", END]))
    model = drafter(backend)
    model.start(Request(PROMPT, 20))
    draft = model.propose(9)
    assert draft is not None
    assert draft.tokens == (*b"ok", END)


def test_of_a_long_prompt_only_the_end_is_read_and_of_a_known_one_nothing_again() -> None:
    backend = ScriptedBackend(context_tokens=256)
    model = drafter(backend)
    backend.evaluated.clear()
    prompt = tuple(number % 90 for number in range(1000))
    model.start(Request(prompt, 20))
    assert model.setup_ms > 0
    assert model.propose(1) is not None
    assert len(backend.evaluated) < 128
    assert model.setup_ms == 0
    read = len(backend.evaluated)
    model.commit([5])
    assert model.propose(2) is not None
    assert len(backend.evaluated) == read + 2


def test_an_answer_longer_than_the_drafters_context_is_drafted_to_its_end() -> None:
    model = drafter(ScriptedBackend(context_tokens=64))
    model.start(Request(PROMPT, 500))
    for number in range(300):
        draft = model.propose(4)
        assert draft is not None
        model.commit([number % 90])


def test_an_interrupted_drafter_goes_on_after_it_is_resumed() -> None:
    model = drafter(ScriptedBackend())
    model.start(Request(PROMPT, 20))
    model.interrupt()
    with pytest.raises(CancelledError):
        model.propose(3)
    model.resume()
    draft = model.propose(3)
    assert draft is not None
    assert list(draft.tokens) == greedy(PROMPT, 3)


class _OtherPieces(ByteVocabulary):
    def piece(self, token: int, *, special: bool = False) -> bytes:
        return b"?" if token == 77 else super().piece(token, special=special)


class _OtherEnd(ByteVocabulary):
    end_ids = frozenset({3})


class _Larger(ByteVocabulary):
    size = 5000


class _Padded(ByteVocabulary):
    size = ByteVocabulary.size + 40


@pytest.mark.parametrize(
    ("vocabulary", "reason"),
    [(_OtherPieces(), "token 77"), (_OtherEnd(), "end-of-generation"), (_Larger(), "5000 tokens")],
)
def test_a_model_of_another_vocabulary_is_refused_with_the_reason(vocabulary: ByteVocabulary, reason: str) -> None:
    backend = ScriptedBackend(vocabulary=vocabulary)
    with pytest.raises(ModelLoadError, match=reason):
        drafter(backend)
    assert backend.is_closed


def test_a_vocabulary_that_is_only_padded_otherwise_is_the_same() -> None:
    model = ModelDrafter(ScriptedBackend(), _Padded(), 8, lambda: 0.0)
    model.start(Request(PROMPT, 20))
    assert model.propose(2) is not None
    model.close()
