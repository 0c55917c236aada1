import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.errors import ToolError
from khepri.repo.text import cut_line, cut_middle, decode, is_binary, printable, read_text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


@pytest.mark.parametrize(
    ("data", "text", "encoding", "has_bom"),
    [
        (b"", "", "utf-8", False),
        ("naïve 🪲\n".encode(), "naïve 🪲\n", "utf-8", False),
        ("\ufeffhello\n".encode(), "hello\n", "utf-8", True),
        (b"\xff\xfe" + "héllo\n".encode("utf-16-le"), "héllo\n", "utf-16-le", True),
        (b"\xfe\xff" + "héllo\n".encode("utf-16-be"), "héllo\n", "utf-16-be", True),
        (b"\xff\xfe\0\0" + "hi\n".encode("utf-32-le"), "hi\n", "utf-32-le", True),
        (b"\0\0\xfe\xff" + "hi\n".encode("utf-32-be"), "hi\n", "utf-32-be", True),
        ("plain words\n".encode("utf-16-le"), "plain words\n", "utf-16-le", False),
        ("plain words\n".encode("utf-16-be"), "plain words\n", "utf-16-be", False),
        ("café\n".encode("latin-1"), "café\n", "latin-1", False),
        ("“quoted” €\n".encode("cp1252"), "“quoted” €\n", "cp1252", False),
        (b"odd \x81\n", "odd \x81\n", "latin-1", False),
    ],
)
def test_every_common_encoding_is_read(path: Path, data: bytes, text: str, encoding: str, has_bom: bool) -> None:
    path.write_bytes(data)
    file = read_text(path)
    assert (file.text, file.encoding, file.has_bom, file.size_bytes, file.is_cut) == (
        text,
        encoding,
        has_bom,
        len(data),
        False,
    )


@pytest.mark.parametrize(
    ("data", "text", "newline"),
    [
        (b"a\nb", "a\nb", "\n"),
        (b"a\r\nb\r\n", "a\nb\n", "\r\n"),
        (b"a\rb\r", "a\nb\n", "\r"),
        (b"a\r\nb\nc\nd\r\n\n", "a\nb\nc\nd\n\n", "\n"),
        (b"a\r\nb\r\nc\n", "a\nb\nc\n", "\r\n"),
        (b"a\rb\n", "a\rb\n", "\n"),
        (b"form\x0cfeed\n", "form\x0cfeed\n", "\n"),
    ],
)
def test_line_ends_become_one_and_the_usual_one_is_told(path: Path, data: bytes, text: str, newline: str) -> None:
    path.write_bytes(data)
    file = read_text(path)
    assert (file.text, file.newline) == (text, newline)


@pytest.mark.parametrize(
    "data",
    [
        b"text\0text",
        b"\x7fELF\x02\x01\x01" + bytes(50),
        bytes(range(32)) * 20,
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
        bytes(10),
    ],
)
def test_binary_is_refused_with_its_size(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(ToolError, match=f"binary file, {len(data)} bytes"):
        read_text(path)
    assert is_binary(path)


def test_a_broken_file_with_a_mark_is_binary(path: Path) -> None:
    path.write_bytes(b"\xff\xfea")
    with pytest.raises(ToolError, match="binary"):
        read_text(path)


def test_a_log_of_fifty_megabytes_is_read_only_to_the_limit(path: Path) -> None:
    line = b"2026-01-01 something happened again and again\n"
    path.write_bytes(line * (50_000_000 // len(line)))
    file = read_text(path)
    assert file.is_cut
    assert file.size_bytes == path.stat().st_size
    assert 1_990_000 < len(file.text) <= 2_000_000
    assert file.text.endswith("again\n")


@pytest.mark.parametrize("limit", range(2, 12))
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_a_cut_never_halves_a_character(path: Path, limit: int, encoding: str) -> None:
    path.write_bytes(("é🪲ü" * 5).encode(encoding))
    file = read_text(path, limit)
    assert file.encoding.startswith("utf-")
    assert ("é🪲ü" * 5).startswith(file.text)


def test_neither_pipe_nor_device_nor_link_nor_folder_is_opened_for_reading(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path / "link", tmp_path, tmp_path / "missing"):
        with pytest.raises(ToolError):
            read_text(path)
        assert is_binary(path)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_that_may_not_be_read_says_so(path: Path) -> None:
    path.write_text("x")
    path.chmod(0)
    with pytest.raises(ToolError, match="Permission denied"):
        read_text(path)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[1;31mred\x1b[0m\tand\nplain", "red\tand\nplain"),
        ("\x1b]0;title\x07x\x1b]8;;http://e\x1b\\y", "xy"),
        ("a\x1b", "a\\x1b"),
        ("bell\x07 back\x08 nul\0", "bell\\x07 back\\x08 nul\\x00"),
        ("over\u202ewritten\u2066", "over\\u202ewritten\\u2066"),
        ("line\u2028end\rgone", "line\\u2028end\\x0dgone"),
        ("half \udce9", "half \ufffd"),
        ("\x9b2Jx", "x"),
        ("emoji 👩\u200d💻 stays", "emoji 👩\u200d💻 stays"),
    ],
)
def test_control_characters_become_harmless(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_printable_text_has_no_control_character_and_stays_as_it_is(text: str) -> None:
    shown = printable(text)
    assert printable(shown) == shown
    assert all(char in "\n\t" or (ord(char) >= 0x20 and not 0x7F <= ord(char) <= 0x9F) for char in shown)
    shown.encode()


@given(st.binary())
def test_any_bytes_are_read_or_refused_as_binary(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(data)
    if is_binary(path):
        with pytest.raises(ToolError, match="binary"):
            read_text(path)
        return
    try:
        file = read_text(path)
    except ToolError:
        # A mark promised an encoding that the rest does not keep.
        assert data.startswith((b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\0\0\xfe\xff"))
        return
    assert file.size_bytes == len(data)
    assert "\r\n" not in file.text


def test_long_lines_are_cut_with_the_number_of_what_is_missing() -> None:
    assert cut_line("x" * 300) == "x" * 300
    assert cut_line("x" * 310) == "x" * 300 + " [cut: 10 more characters]"


@given(st.text(st.sampled_from("ab\n é"), max_size=400), st.integers(20, 300))
def test_of_a_long_text_both_ends_stay_and_what_is_missing_is_counted(text: str, most: int) -> None:
    cut = cut_middle(text, most)
    if len(text) <= most:
        assert cut == text
        return
    head, _, rest = cut.partition("\n[cut: ")
    count, _, tail = rest.partition(" characters left out here]\n")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert len(text) - most <= int(count.replace(",", "")) <= len(text)
    assert len(head) + len(tail) <= most


@pytest.mark.parametrize(
    ("declared", "encoding", "read"),
    [
        ("shift_jis", "shift_jis", "あ"),
        ("koi8-r", "koi8-r", "ж"),
        ("latin-1", "latin-1", "é"),
        ("utf-8", "utf-8", "あ"),
        ("nonsense", "latin-1", "é"),
        ("unicode_escape", "latin-1", "é"),
        ("utf-16", "latin-1", "é"),
    ],
)
def test_what_is_not_utf_8_is_read_by_the_encoding_that_it_declares(declared: str, encoding: str, read: str) -> None:
    text = f"#!/usr/bin/python\n# vim: set fileencoding={declared} :\nx = '{read}'\n"
    file = decode(text.encode(encoding))
    assert (file.text, file.encoding) == (text, encoding)
