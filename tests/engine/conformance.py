"""What every backend promises, as tests: a subclass names the backend and how exact its arithmetic is."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from khepri.engine.backend import Backend, Batch
from khepri.errors import CancelledError, ContextFullError, DecodeError, KhepriError

TEXT = "def the thing:\n\n    return a name, é and 😀, and more of the same"
CONTEXT_TOKENS = 256
BATCH_TOKENS = 64
SEQUENCES = 3

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Exactness:
    """How far logits of the same context may differ between batches of different shape."""

    largest_difference: float

    def check(self, actual: Rows, expected: Rows) -> None:
        assert actual.shape == expected.shape
        assert np.abs(actual - expected).max() <= self.largest_difference
        if self.largest_difference:
            assert (actual.argmax(axis=1) == expected.argmax(axis=1)).all()


def feed(backend: Backend, tokens: list[int], width: int, sequence: int = 0) -> Rows:
    """Evaluate ``tokens`` after what ``sequence`` holds, ``width`` a pass, and return the logits of all of them."""
    start = backend.sequence_length(sequence)
    rows = []
    for offset in range(0, len(tokens), width):
        chunk = tuple(tokens[offset : offset + width])
        rows.append(backend.decode(Batch(chunk, start + offset, sequence, logits_from=0)).copy())
    return np.concatenate(rows)


def decode_for_ever(backend: Backend, batch: Batch) -> None:
    while True:
        backend.decode(batch)
        backend.sequence_remove(batch.sequence, batch.position)


class BackendConformance:
    """The suite. The fixtures ``make_backend`` and ``exactness`` come from the subclass."""

    @pytest.fixture
    def backend(self, make_backend: Callable[[], Backend]) -> Iterator[Backend]:
        backend = make_backend()
        yield backend
        backend.close()

    @pytest.fixture
    def tokens(self, backend: Backend) -> list[int]:
        return backend.vocabulary.tokenize(TEXT)[:48]

    def test_it_declares_what_it_is(self, backend: Backend) -> None:
        capabilities = backend.capabilities
        assert capabilities.library
        assert capabilities.context_tokens == CONTEXT_TOKENS
        assert capabilities.n_vocab == backend.vocabulary.size

    def test_text_survives_the_tokenizer(self, backend: Backend) -> None:
        vocabulary = backend.vocabulary
        for text in ("", TEXT, "a\0b", "\r\n\t ", "<|im_end|>", "日本語 🏳️‍🌈"):
            assert b"".join(vocabulary.piece(token) for token in vocabulary.tokenize(text)).decode() == text

    def test_text_that_is_not_trusted_cannot_forge_a_control_token(self, backend: Backend) -> None:
        vocabulary = backend.vocabulary
        assert not vocabulary.end_ids & set(vocabulary.tokenize("<|im_end|>"))
        assert vocabulary.end_ids & set(vocabulary.tokenize("<|im_end|>", special=True))

    def test_control_tokens_have_no_text_unless_asked_for(self, backend: Backend) -> None:
        vocabulary = backend.vocabulary
        [end] = vocabulary.tokenize("<|im_end|>", special=True)
        assert vocabulary.piece(end) == b""
        assert vocabulary.piece(end, special=True) == b"<|im_end|>"

    @pytest.mark.parametrize("token", [-1, 10**6, 2**40])
    def test_a_token_that_does_not_exist_has_no_text(self, backend: Backend, token: int) -> None:
        with pytest.raises(KhepriError):
            backend.vocabulary.piece(token)

    @pytest.mark.parametrize("width", [1, 2, 5, 16, 48])
    def test_the_width_of_a_pass_does_not_change_the_logits(
        self, backend: Backend, tokens: list[int], exactness: Exactness, width: int
    ) -> None:
        whole = feed(backend, tokens, len(tokens))
        assert backend.sequence_remove(0, 0)
        exactness.check(feed(backend, tokens, width), whole)

    def test_the_same_pass_twice_gives_the_same_bits(self, backend: Backend, tokens: list[int]) -> None:
        first = feed(backend, tokens, 16)
        backend.sequence_remove(0, 0)
        assert np.array_equal(feed(backend, tokens, 16), first)

    @pytest.mark.parametrize(("logits_from", "rows"), [(-1, 1), (0, 8), (3, 5), (7, 1), (-3, 3), (-8, 8)])
    def test_logits_are_returned_from_the_token_asked_for(
        self, backend: Backend, tokens: list[int], exactness: Exactness, logits_from: int, rows: int
    ) -> None:
        whole = feed(backend, tokens[:8], 8)
        backend.sequence_remove(0, 0)
        logits = backend.decode(Batch(tuple(tokens[:8]), 0, logits_from=logits_from))
        assert logits.dtype == np.float32
        exactness.check(logits, whole[8 - rows :])

    def test_logits_depend_on_everything_before(self, backend: Backend, tokens: list[int]) -> None:
        one = feed(backend, tokens, 16, sequence=0)
        other = feed(backend, [tokens[0] + 1, *tokens[1:]], 16, sequence=1)
        assert not np.allclose(one[-1], other[-1])

    @pytest.mark.parametrize(
        "batch",
        [
            Batch((), 3),
            Batch((1,) * (BATCH_TOKENS + 1), 3),
            Batch((1,), 2),
            Batch((1,), 4),
            Batch((1,), -1),
            Batch((-1,), 3),
            Batch((10**6,), 3),
            Batch((2**40,), 3),
            Batch((1, 2), 3, logits_from=2),
            Batch((1, 2), 3, logits_from=-3),
            Batch((1,), 3, sequence=SEQUENCES),
            Batch((1,), 3, sequence=-1),
            Batch((1,), 3, sequence=10**6),
            Batch((1,), 0, sequence=SEQUENCES),
        ],
        ids=str,
    )
    def test_a_batch_that_does_not_fit_is_refused_and_changes_nothing(
        self, backend: Backend, tokens: list[int], exactness: Exactness, batch: Batch
    ) -> None:
        whole = feed(backend, tokens[:6], 3)
        backend.sequence_remove(0, 3)
        with pytest.raises(DecodeError):
            backend.decode(batch)
        assert backend.sequence_length(0) == 3
        exactness.check(feed(backend, tokens[3:6], 3), whole[3:])

    @pytest.mark.parametrize("sequence", [-1, SEQUENCES, 255, 10**6])
    def test_a_sequence_that_does_not_exist_is_refused(self, backend: Backend, sequence: int) -> None:
        with pytest.raises(DecodeError):
            backend.sequence_length(sequence)
        with pytest.raises(DecodeError):
            backend.sequence_remove(sequence, 0)
        with pytest.raises(DecodeError):
            backend.sequence_copy(sequence, 0, 0, 1)
        with pytest.raises(DecodeError):
            backend.sequence_copy(0, sequence, 0, 1)
        with pytest.raises(DecodeError):
            backend.sequence_state(sequence)
        with pytest.raises(DecodeError):
            backend.restore_sequence(sequence, b"")

    def test_a_removed_tail_leaves_no_trace(self, backend: Backend, tokens: list[int], exactness: Exactness) -> None:
        expected = feed(backend, tokens, 16)
        assert backend.sequence_remove(0, 10)
        assert backend.sequence_length(0) == 10
        feed(backend, list(reversed(tokens))[:20], 5)
        assert backend.sequence_remove(0, 10)
        exactness.check(feed(backend, tokens[10:], 16), expected[10:])

    def test_a_copied_prefix_is_as_good_as_an_evaluated_one(
        self, backend: Backend, tokens: list[int], exactness: Exactness
    ) -> None:
        expected = feed(backend, tokens, 16, sequence=0)
        backend.sequence_copy(0, 1, 0, 20)
        assert backend.sequence_length(1) == 20
        exactness.check(feed(backend, tokens[20:], 16, sequence=1), expected[20:])
        assert backend.sequence_remove(0, 0)
        backend.sequence_copy(1, 2, 0, 20)
        exactness.check(feed(backend, tokens[20:], 16, sequence=2), expected[20:])

    def test_a_copy_shares_cells_instead_of_taking_new_ones(self, backend: Backend) -> None:
        feed(backend, [1] * (CONTEXT_TOKENS - 8), BATCH_TOKENS, sequence=0)
        backend.sequence_copy(0, 1, 0, CONTEXT_TOKENS - 8)
        feed(backend, [2] * 8, 8, sequence=1)
        with pytest.raises(ContextFullError):
            backend.decode(Batch((3,), CONTEXT_TOKENS - 8, sequence=0))

    def test_a_saved_sequence_comes_back(self, backend: Backend, tokens: list[int], exactness: Exactness) -> None:
        expected = feed(backend, tokens, 16)
        backend.sequence_remove(0, 20)
        state = backend.sequence_state(0, memoryview(bytearray(backend.sequence_bytes(0))))
        assert state == backend.sequence_state(0)
        backend.sequence_remove(0, 0)
        assert backend.restore_sequence(1, state)
        assert (backend.sequence_length(0), backend.sequence_length(1)) == (0, 20)
        exactness.check(feed(backend, tokens[20:], 16, sequence=1), expected[20:])

    def test_a_saved_sequence_moves_to_another_context_of_the_same_model(
        self, backend: Backend, make_backend: Callable[[], Backend], tokens: list[int], exactness: Exactness
    ) -> None:
        expected = feed(backend, tokens, 16)
        backend.sequence_remove(0, 20)
        other = make_backend()
        assert other.restore_sequence(0, backend.sequence_state(0))
        exactness.check(feed(other, tokens[20:], 16), expected[20:])
        other.close()

    def test_what_was_never_saved_is_refused_and_leaves_the_sequence_empty(
        self, backend: Backend, tokens: list[int], exactness: Exactness
    ) -> None:
        expected = feed(backend, tokens[:12], 12)
        backend.sequence_remove(0, 10)
        state = bytes(backend.sequence_state(0))
        for garbage in (
            b"",
            b"\0" * 64,
            b"\xff" * 4096,
            b"GGUF" + state,
            state[:-1],
            state[: len(state) // 2],
            state[8:],
        ):
            assert not backend.restore_sequence(1, garbage)
            assert backend.sequence_length(1) == 0
        assert not backend.restore_sequence(1, state + b"more")
        assert backend.sequence_length(1) == 0
        exactness.check(feed(backend, tokens[10:12], 2), expected[10:])

    def test_a_full_context_is_said_with_numbers_and_changes_nothing(
        self, backend: Backend, exactness: Exactness
    ) -> None:
        fill = [token % 200 for token in range(CONTEXT_TOKENS)]
        expected = feed(backend, fill, BATCH_TOKENS)
        with pytest.raises(ContextFullError) as full:
            backend.decode(Batch((1,), CONTEXT_TOKENS))
        assert (full.value.needed_tokens, full.value.context_tokens) == (CONTEXT_TOKENS + 1, CONTEXT_TOKENS)
        assert backend.sequence_length(0) == CONTEXT_TOKENS
        backend.sequence_remove(0, CONTEXT_TOKENS - 4)
        with pytest.raises(ContextFullError):
            backend.decode(Batch((1, 2, 3, 4, 5), CONTEXT_TOKENS - 4))
        assert backend.sequence_length(0) == CONTEXT_TOKENS - 4
        exactness.check(feed(backend, fill[-4:], 4), expected[-4:])

    def test_another_sequence_cannot_take_cells_that_are_used(self, backend: Backend) -> None:
        feed(backend, [1] * (CONTEXT_TOKENS - 2), BATCH_TOKENS)
        with pytest.raises(ContextFullError):
            backend.decode(Batch((1, 2, 3), 0, sequence=1))
        assert backend.sequence_length(1) == 0
        feed(backend, [1, 2], 2, sequence=1)

    def test_a_pass_takes_any_cells_that_are_free(self, backend: Backend, exactness: Exactness) -> None:
        tokens = [token % 200 for token in range(40)]
        expected = feed(backend, tokens, 40)
        backend.sequence_remove(0, 0)
        for _ in range(CONTEXT_TOKENS // 16):
            for sequence in (1, 2):
                feed(backend, [7] * 8, 8, sequence)
        assert backend.sequence_remove(1, 0)
        exactness.check(feed(backend, tokens[:33], 33), expected[:33])
        logits = backend.decode(Batch(tuple(tokens[33:]), 33, logits_from=2))
        exactness.check(logits, expected[35:])

    def test_an_interrupted_backend_refuses_passes_until_it_is_resumed(
        self, backend: Backend, tokens: list[int], exactness: Exactness
    ) -> None:
        expected = feed(backend, tokens, 16)
        backend.sequence_remove(0, 16)
        backend.interrupt()
        for _ in range(3):
            with pytest.raises(CancelledError):
                backend.decode(Batch(tuple(tokens[16:32]), backend.sequence_length(0)))
        backend.resume()
        assert backend.sequence_remove(0, 16)
        exactness.check(feed(backend, tokens[16:], 16), expected[16:])

    def test_interrupting_at_any_moment_spoils_nothing(
        self, backend: Backend, tokens: list[int], exactness: Exactness
    ) -> None:
        expected = feed(backend, tokens, 16)
        backend.sequence_remove(0, 16)
        for round_number in range(20):
            timer = threading.Timer(round_number * 0.0002, backend.interrupt)
            timer.start()
            with pytest.raises(CancelledError):
                decode_for_ever(backend, Batch(tuple(tokens[16:]), 16))
            timer.join()
            backend.resume()
            backend.sequence_remove(0, 16)
        exactness.check(feed(backend, tokens[16:], 16), expected[16:])

    def test_a_closed_backend_can_be_closed_again_and_refuses_work(self, make_backend: Callable[[], Backend]) -> None:
        backend = make_backend()
        backend.close()
        backend.close()
        with pytest.raises(DecodeError):
            backend.decode(Batch((1,), 0))
        with pytest.raises(DecodeError):
            backend.sequence_length(0)


def interrupt_latency_ms(backend: Backend, tokens: tuple[int, ...], delay_s: float) -> float:
    """Interrupt a pass after a while and return how long it went on."""
    asked: list[float] = []

    def interrupt() -> None:
        asked.append(time.perf_counter())
        backend.interrupt()

    timer = threading.Timer(delay_s, interrupt)
    timer.start()
    with pytest.raises(CancelledError):
        backend.decode(Batch(tokens, backend.sequence_length(0)))
    ended = time.perf_counter()
    timer.join()
    backend.resume()
    return (ended - asked[0]) * 1000
