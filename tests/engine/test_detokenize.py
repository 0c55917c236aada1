"""Whatever way a text is cut into tokens, it comes out whole, and never half a character at a time."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.engine.backend import LoadOptions
from khepri.engine.backends.llama_cpp import LlamaCppBackend
from khepri.engine.detokenize import Detokenizer
from tests.support.scripted_backend import END, TOOL_CALL, ByteVocabulary

HARD_TEXTS = ["naïve", "日本語", "🐞", "👩\u200d💻 🏳️\u200d🌈", "e\u0301", "a\0b", "\r\n", "\ufeffx", "\U0010ffff", ""]


def pieces(tokens: list[int]) -> list[str]:
    detokenizer = Detokenizer(ByteVocabulary())
    return [*map(detokenizer.push, tokens), detokenizer.flush()]


class SlicedVocabulary(ByteVocabulary):
    """Its tokens are the slices of one text."""

    def __init__(self, slices: list[bytes]) -> None:
        self._slices = slices

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return self._slices[token]


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


def pushed(slices: list[bytes]) -> list[str]:
    detokenizer = Detokenizer(SlicedVocabulary(slices))
    return [*(detokenizer.push(token) for token in range(len(slices))), detokenizer.flush()]


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_every_split_in_two_gives_the_text(text: str) -> None:
    data = text.encode()
    for cut in range(len(data) + 1):
        assert "".join(pushed(split(data, [cut]))) == text


@given(st.text(), st.data())
def test_any_split_gives_the_text_and_only_whole_characters(text: str, data: st.DataObject) -> None:
    encoded = text.encode()
    cuts = data.draw(st.lists(st.integers(0, len(encoded))))
    shown = ""
    for piece in pushed(split(encoded, cuts)):
        shown += piece
        assert text.startswith(shown)
    assert shown == text


@given(st.lists(st.binary(max_size=5)))
def test_bytes_that_are_no_text_are_shown_as_if_decoded_at_once(slices: list[bytes]) -> None:
    assert "".join(pushed(slices)) == b"".join(slices).decode("utf-8", "replace")


def test_a_byte_that_breaks_a_character_off_is_not_lost() -> None:
    assert pieces([0xE6, 0x97, ord("a"), ord("b")]) == ["", "", "\ufffda", "b", ""]


def test_an_unfinished_character_appears_at_the_flush_and_only_once() -> None:
    detokenizer = Detokenizer(ByteVocabulary())
    assert [detokenizer.push(byte) for byte in "🐞".encode()[:3]] == ["", "", ""]
    assert detokenizer.flush() == "\ufffd"
    assert detokenizer.flush() == ""


def test_a_control_token_inside_a_character_neither_shows_nor_breaks_it() -> None:
    first, second = "é".encode()
    assert pieces([first, END, second]) == ["", "", "é", ""]


def test_a_token_that_users_may_see_is_shown() -> None:
    assert "".join(pieces([TOOL_CALL])) == "<tool_call>"


@pytest.mark.parametrize("text", HARD_TEXTS)
def test_the_tokens_of_a_real_vocabulary_give_the_text(text: str, tiny_model: Path) -> None:
    backend = LlamaCppBackend(LoadOptions(tiny_model, context_tokens=256, threads=1))
    try:
        detokenizer = Detokenizer(backend.vocabulary)
        shown = [detokenizer.push(token) for token in backend.vocabulary.tokenize(text)]
        assert "".join([*shown, detokenizer.flush()]) == text
        assert "\ufffd" not in shown
    finally:
        backend.close()
