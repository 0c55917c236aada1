"""A changed text goes back into its bytes, and what did not change keeps every byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.edits.exact import replace_text
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.repo.text import decode

_WORDS = st.sampled_from(["x = 1", "", "    y", "é", "a\tb", "\x0cpage", "z\u2028w", "last"])
_ENDS = st.sampled_from(["\n", "\r\n", "\r"])
_ENCODINGS = st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"])


@st.composite
def files(draw: st.DrawFn) -> bytes:
    lines = draw(st.lists(st.tuples(_WORDS, _ENDS), min_size=1, max_size=12))
    text = "".join(word + end for word, end in lines)
    if draw(st.booleans()):
        text = text.removesuffix("\n").removesuffix("\r") + "end"
    return text.encode(draw(_ENCODINGS), "replace")


@given(files())
def test_the_same_text_gives_the_same_bytes(data: bytes) -> None:
    assert replace_text(data, decode(data).text) == data


@given(files(), st.integers(0, 11), st.sampled_from(["new", "two\nlines", ""]))
def test_only_the_changed_lines_differ_and_the_text_is_the_new_one(data: bytes, place: int, put: str) -> None:
    text = decode(data).text
    lines = text.split("\n")
    lines[place % len(lines)] = put
    new = "\n".join(lines)
    result = replace_text(data, new)
    if "\0" not in result.decode("latin-1"):
        # A single carriage return is a line end of its own only where most are.
        assert decode(result).text.replace("\r", "\n") == new.replace("\r", "\n")
    assert len(result.split(b"\r\n")) <= len(data.split(b"\r\n")) + put.count("\n") + 1


@pytest.mark.parametrize(
    ("before", "text", "after"),
    [
        (b"a\r\nb\nc\r\n", "a\nB\nc\n", b"a\r\nB\nc\r\n"),
        (b"a\nb\r\nc\r\n", "a\nb\nx\nc\n", b"a\nb\r\nx\r\nc\r\n"),
        (b"a\nb", "a\nB", b"a\nB"),
        (b"a\nb", "a\nb\nc", b"a\nb\nc"),
        (b"a\nb\n", "a\nb", b"a\nb"),
        (b"a\r\nb", "a\nb\n", b"a\r\nb\r\n"),
        (b"\xef\xbb\xbfa\nb\n", "A\nb\n", b"\xef\xbb\xbfA\nb\n"),
        (b"\xe9\nb\n", "é\nB\n", b"\xe9\nB\n"),
        (b"a\rb\r", "a\nB\n", b"a\rB\r"),
        (b"a\r\nb\rc\r\nd\n", "a\nb\nC\nd\n", b"a\r\nb\rC\r\nd\n"),
        (b"a\r\nb\rc\r\nd\n", "a\nb\rc\nD\n", b"a\r\nb\rc\r\nD\n"),
        (b"a\n", "", b""),
        (b"", "a\n", b"a\n"),
    ],
)
def test_examples(before: bytes, text: str, after: bytes) -> None:
    assert replace_text(before, text) == after


def test_what_the_encoding_cannot_hold_is_refused() -> None:
    with pytest.raises(EditRefusedError, match="latin-1") as caught:
        replace_text(b"caf\xe9\n", "café →\n")
    assert caught.value.reason is Refusal.ENCODING
