import os
import random
import struct
import time
from contextlib import suppress
from pathlib import Path

import gguf
import pytest
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType, LlamaFileType
from hypothesis import given, settings
from hypothesis import strategies as st

from khepri.errors import ModelFileError
from khepri.models.gguf_header import read_header, read_summary
from khepri.models.gguf_types import FILE_TYPES, TENSOR_BLOCKS
from tests.models.tiny import write_gguf


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def header(tensors: int, keys: int, *rest: bytes, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys) + b"".join(rest)


def complaint(path: Path, content: bytes | None = None) -> str:
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelFileError) as caught:
        read_header(path)
    assert caught.value.hint
    return caught.value.message


def test_the_header_says_what_the_reference_writer_was_told(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf", architecture="qwen2", name="Kleines Modell", file_type=15)
    found = read_header(path)
    assert (found.architecture, found.name, found.quantization) == ("qwen2", "Kleines Modell", "Q4_K_M")
    assert (found.version, found.tensor_count, found.kind, found.has_tokenizer) == (3, 1, "model", True)
    assert found.expected_bytes is not None
    assert found.expected_bytes <= path.stat().st_size < found.expected_bytes + 32


def test_the_expected_size_agrees_with_the_reference_reader(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf")
    tensors = gguf.GGUFReader(path).tensors
    ends = [int(tensor.data_offset + tensor.n_bytes) for tensor in tensors]
    assert read_header(path).expected_bytes == max(ends)


def test_a_summary_names_the_model_as_the_whole_header_does(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf", tokens=5000)
    short, long = read_summary(path), read_header(path)
    assert (short.architecture, short.quantization, short.has_tokenizer) == ("llama", "F16", True)
    assert (short.architecture, short.quantization, short.has_tokenizer) == (
        long.architecture,
        long.quantization,
        long.has_tokenizer,
    )
    assert short.expected_bytes is None


def test_the_tables_agree_with_the_reference_implementation() -> None:
    sizes = {int(kind): GGML_QUANT_SIZES[kind] for kind in GGMLQuantizationType}
    assert {kind: sizes[kind] for kind in TENSOR_BLOCKS if kind in sizes} == TENSOR_BLOCKS
    names = {int(kind): kind.name.removeprefix("MOSTLY_").removeprefix("ALL_") for kind in LlamaFileType}
    assert {kind: names[kind] for kind in FILE_TYPES if kind in names} == FILE_TYPES


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"GGU", "is truncated, or not a GGUF file at all: it has 3 bytes"),
        (b"abc", "a text file"),
        ("Dies ist ein schöner Text.\n".encode() * 9, "a text file"),
        (b"<!DOCTYPE html><html><title>Log in</title>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\n", "Git LFS pointer"),
        (b"PK\x03\x04" + bytes(60), "zip archive"),
        (struct.pack("<Q", 90) + b'{"__metadata__":{}}' + bytes(90), "safetensors"),
        (os.urandom(8).join([b"\x80\x00"] * 9), "not a GGUF file"),
        (b"GGUF", "truncated"),
        (b"GGUF" + struct.pack(">I", 3) + bytes(16), "big-endian"),
        (header(0, 0, version=1), "version 1"),
        (header(0, 0, version=77), "version 77"),
        (header(1 << 62, 1), "damaged"),
        (header(1, 1 << 62), "damaged"),
        (header(0, 1, text(b"k") + struct.pack("<I", 99)), "unknown type 99"),
        (header(0, 1, text(b"k") + struct.pack("<IIQ", 9, 8, 1 << 60)), "damaged"),
        (header(0, 1, text(b"k") + struct.pack("<IIQ", 9, 9, 1)), "unknown type 9"),
        (header(0, 1, text(b"k") + struct.pack("<IIQ", 9, 0, 1 << 63)), "truncated"),
        (header(0, 1, struct.pack("<Q", 1 << 63)), "damaged"),
        (header(0, 1, text(b"k") + struct.pack("<IQ", 8, (1 << 64) - 1)), "truncated"),
        (header(1, 0, text(b"t"), struct.pack("<I", 1 << 31)), "dimensions"),
        (header(1, 0, text(b"t"), struct.pack("<IQQIQ", 2, 1 << 63, 1 << 63, 0, 0)), "truncated"),
        (header(0, 1, text(b"general.alignment"), struct.pack("<II", 4, 7)), "alignment"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_file_that_is_no_model_is_refused_in_words(tmp_path: Path, content: bytes, words: str) -> None:
    message = complaint(tmp_path / "x.gguf", content)
    assert words in message
    assert "x.gguf" in message


def test_a_missing_file_a_folder_and_a_pipe_are_refused_at_once(tmp_path: Path) -> None:
    assert "cannot read" in complaint(tmp_path / "none.gguf")
    assert "a folder" in complaint(tmp_path)
    os.mkfifo(tmp_path / "pipe.gguf")
    assert "is empty" in complaint(tmp_path / "pipe.gguf")


def test_a_truncated_file_tells_both_sizes(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf")
    expected = read_header(path).expected_bytes
    content = path.read_bytes()
    assert expected is not None
    message = complaint(tmp_path / "b.gguf", content[: expected - 1])
    assert f"should have {expected} bytes" in message
    assert f"has {expected - 1}" in message


def test_every_truncation_of_the_header_is_found(tmp_path: Path) -> None:
    content = write_gguf(tmp_path / "a.gguf", values=64).read_bytes()
    expected = read_header(tmp_path / "a.gguf").expected_bytes
    assert expected is not None
    for length in range(0, expected, 7):
        complaint(tmp_path / "b.gguf", content[:length])


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 1 << 32), flips=st.integers(1, 12))
def test_random_damage_gives_an_answer_or_a_model_file_error(
    tmp_path_factory: pytest.TempPathFactory, seed: int, flips: int
) -> None:
    folder = tmp_path_factory.mktemp("damage")
    content = bytearray(write_gguf(folder / "a.gguf", values=64).read_bytes())
    chance = random.Random(seed)
    for _ in range(flips):
        content[chance.randrange(min(600, len(content)))] = chance.randrange(256)
    (folder / "b.gguf").write_bytes(content)
    for read in (read_header, read_summary):
        with suppress(ModelFileError):
            assert read(folder / "b.gguf").version in (2, 3)


def test_hostile_headers_take_neither_minutes_nor_gigabytes(tmp_path: Path) -> None:
    """Four million strings in a sparse file of 64 GB: the worst that the limits let through."""
    path = tmp_path / "hostile.gguf"
    lists = text(b"a") + struct.pack("<IIQ", 9, 8, 1 << 22)
    far = text(b"b") + struct.pack("<IQ", 8, 60 << 30)
    for content in (header(0, 2, lists), header(0, 2, far)):
        path.write_bytes(content)
        os.truncate(path, 64 << 30)
        started = time.monotonic()
        with suppress(ModelFileError):
            read_header(path)
        assert time.monotonic() - started < 30


def test_a_vocabulary_of_150000_tokens_is_stepped_over(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "a.gguf", tokens=150_000)
    started = time.perf_counter()
    found = read_header(path)
    print(f"header of 150,000 tokens: {1000 * (time.perf_counter() - started):.0f} ms")
    assert found.has_tokenizer
