"""Pastes are taken whole, nothing inside one is a key, and what was typed before the app came is not lost."""

from hypothesis import given
from hypothesis import strategies as st
from textual import events

from khepri.tui.driver import PasteCutter
from tests.tui.real_terminal import end_of

START, END = "\x1b[200~", "\x1b[201~"
TYPED = st.text(st.sampled_from("ab\r[2\x1b"), max_size=8).filter(lambda text: START not in text and END not in text)
PASTED = st.text(st.sampled_from("xy\n\x1b[01mé"), max_size=30).filter(lambda text: END not in text)


def feed(cutter: PasteCutter, bits: list[str]) -> tuple[str, list[str]]:
    typed, pasted = "", []
    for bit in bits:
        for part in cutter.feed(bit):
            if isinstance(part, events.Paste):
                pasted.append(part.text)
            else:
                typed += part
    return typed + cutter.release(), pasted


@given(TYPED, PASTED, TYPED, st.integers(1, 40))
def test_a_paste_is_found_however_the_input_is_split(before: str, paste: str, after: str, size: int) -> None:
    text = f"{before}{START}{paste}{END}{after}"
    if text.count(START) != 1 or text.count(END) != 1:
        return
    bits = [text[start : start + size] for start in range(0, len(text), size)]
    assert feed(PasteCutter(), bits) == (before + after, [paste])


def test_an_escape_that_nothing_follows_is_a_key() -> None:
    cutter = PasteCutter()
    assert list(cutter.feed("\x1b")) == []
    assert cutter.is_holding
    assert cutter.release() == "\x1b"
    assert not cutter.is_holding


def test_escape_sequences_and_line_ends_inside_a_paste_are_text() -> None:
    text = "\x1b[31mred\x1b[0m\r\nrm -rf\r"
    assert feed(PasteCutter(), [f"{START}{text}{END}"]) == ("", [text])


def test_a_paste_comes_without_nul_which_no_file_and_no_shell_could_take() -> None:
    assert feed(PasteCutter(), [f"{START}a\x00", "\x00", f"b\x00{END}"]) == ("", ["ab"])


def test_two_megabytes_lose_nothing() -> None:
    text = "0123456789abcde\n" * 131_072
    whole = f"{START}{text}{END}"
    bits = [whole[start : start + 4096] for start in range(0, len(whole), 4096)]
    typed, (pasted,) = feed(PasteCutter(), bits)
    assert typed == ""
    assert pasted == text


def test_enter_before_the_app_has_the_terminal_is_enter() -> None:
    ended, _, written = end_of("time.sleep(0.5); send(signal.SIGINT)", typed_before=b"why\rso")
    assert ended == 0, written
    assert "KEYS w h y enter s o" in written
