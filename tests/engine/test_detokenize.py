import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.engine.detokenize import Detokenizer
from tests.support.scripted_backend import END, ByteVocabulary

TEXT = "naïve é 日本 🐞 🏳️‍🌈 e\u0301 \u202e\0\ufeff"


class _Pieces(ByteVocabulary):
    """A vocabulary whose tokens are any bytes."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def piece(self, token: int, *, special: bool = False) -> bytes:
        return self._pieces[token]


def push_all(pieces: list[bytes]) -> list[str]:
    detokenizer = Detokenizer(_Pieces(pieces))
    return [*(detokenizer.push(token) for token in range(len(pieces))), detokenizer.flush()]


@given(st.text(), st.sets(st.integers(0, 200)))
def test_text_that_is_split_anywhere_comes_out_whole_and_never_half(text: str, cuts: set[int]) -> None:
    data = text.encode()
    edges = [0, *sorted(cut for cut in cuts if cut < len(data)), len(data)]
    shown = push_all([data[start:end] for start, end in itertools.pairwise(edges)])
    assert "".join(shown) == text
    assert all("\ufffd" not in piece for piece in shown) or "\ufffd" in text


@pytest.mark.parametrize("cut", range(len(TEXT.encode()) + 1))
def test_what_is_shown_after_every_cut_is_a_prefix_of_the_text(cut: int) -> None:
    first, second, rest = push_all([TEXT.encode()[:cut], TEXT.encode()[cut:]])
    assert TEXT.startswith(first)
    assert (first + second, rest) == (TEXT, "")


@given(st.lists(st.binary(max_size=5), max_size=20))
def test_any_bytes_give_the_text_that_decoding_them_at_once_gives(pieces: list[bytes]) -> None:
    assert "".join(push_all(pieces)) == b"".join(pieces).decode("utf-8", "replace")


@pytest.mark.parametrize("broken", [b"\xff", b"\xc3(", b"\xe2\x82", b"\xf0\x9f\x90", b"\xc0\xaf", b"\xed\xa0\x80"])
def test_bytes_that_are_no_text_become_replacement_characters_and_spoil_nothing_after(broken: bytes) -> None:
    shown = "".join(push_all([b"a", broken, b"z"]))
    assert shown.startswith("a")
    assert shown.endswith("\ufffdz") or shown.endswith("(z") or shown.endswith("\ufffd\ufffdz")


def test_a_generation_that_ends_inside_a_character_shows_that_it_does() -> None:
    assert push_all(["🐞".encode()[:3]]) == ["", "\ufffd"]


def test_a_control_token_shows_nothing_and_does_not_break_a_character() -> None:
    detokenizer = Detokenizer(ByteVocabulary())
    assert [detokenizer.push(token) for token in (0xC3, END, 0xA9)] == ["", "", "é"]
