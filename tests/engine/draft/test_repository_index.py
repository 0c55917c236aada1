import os
import stat
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.engine.draft.repository_index import DEPTH_TOKENS, KEY_BYTES, SAMPLE, RepositoryIndex

KEY = bytes(range(KEY_BYTES))
files_of_tokens = st.lists(st.lists(st.integers(0, 3), max_size=20), max_size=5)


def build(files: Sequence[Sequence[int]], key: bytes = KEY) -> RepositoryIndex:
    index = RepositoryIndex.build([np.array(file, dtype=np.uint32) for file in files], key)
    assert index is not None
    return index


def places(files: Sequence[Sequence[int]], end: Sequence[int]) -> list[list[int]]:
    """The oracle: what follows each occurrence of ``end``."""
    size = len(end)
    return [
        list(file[start + size :])
        for file in files
        for start in range(len(file) - size + 1)
        if list(file[start : start + size]) == list(end)
    ]


@given(files_of_tokens, st.lists(st.integers(0, 4), min_size=1, max_size=8), st.integers(1, 6))
def test_the_longest_end_is_found_and_followed_as_most_occurrences_go_on(
    files: list[list[int]], context: list[int], limit: int
) -> None:
    match = next((n for n in range(len(context), 0, -1) if places(files, context[-n:])), 0)
    following = places(files, context[-match:]) if match else []
    found = build(files).follow(context, limit)
    if found is None:
        firsts = [rest[:1] for rest in following]
        assert all(not first or firsts.count(first) * 2 <= len(firsts) for first in firsts)
        return
    assert (found.match, found.occurrences) == (match, len(following))
    agreeing = following
    for index, token in enumerate(found.tokens):
        going_on = [rest for rest in agreeing if rest[index : index + 1] == [token]]
        assert len(going_on) * 2 > len(agreeing)
        agreeing = going_on
    assert len(found.tokens) <= limit
    assert build(files).read(found.position, 100) in agreeing


def test_no_match_and_no_continuation_crosses_the_end_of_a_file() -> None:
    index = build([[1, 2, 3], [4, 5, 6]])
    assert index.follow([1, 2, 3], 5) is None
    found = index.follow([3, 4], 5)
    assert found is not None
    assert (found.match, found.tokens) == (1, (5, 6))
    assert index.read(found.position, 5) == [5, 6]


def test_a_match_is_no_longer_than_the_depth() -> None:
    file = list(range(100))
    found = build([file]).follow(file[:60], 3)
    assert found is not None
    assert (found.match, found.tokens) == (DEPTH_TOKENS, (60, 61, 62))


def test_where_occurrences_part_the_continuation_ends() -> None:
    index = build([[1, 2, 7, 8], [1, 2, 7, 9]])
    found = index.follow([1, 2], 4)
    assert found is not None
    assert found.tokens == (7,)


def test_many_occurrences_are_sampled_and_all_counted() -> None:
    found = build([[1, 2, 3]] * (SAMPLE * 5 + 1)).follow([1, 2], 4)
    assert found is not None
    assert (found.occurrences, found.tokens) == (SAMPLE * 5 + 1, (3,))


def test_reading_outside_gives_nothing() -> None:
    index = build([[1, 2]])
    assert index.read(-5, 3) == index.read(99, 3) == []


@pytest.mark.parametrize("files", [[], [[]], [[], []]])
def test_an_empty_index_knows_nothing(files: list[list[int]]) -> None:
    assert build(files).follow([1], 3) is None


def test_an_empty_context_matches_nothing() -> None:
    assert build([[1, 2]]).follow([], 3) is None


def test_a_stopped_build_gives_no_index() -> None:
    assert RepositoryIndex.build([np.array([1, 2], dtype=np.uint32)], KEY, lambda: True) is None


def test_what_is_saved_is_loaded_for_the_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "x.index"
    assert build([[1, 2, 3, 1, 2]]).save(path)
    loaded = RepositoryIndex.load(path)
    assert loaded is not None
    assert loaded.key == KEY
    assert loaded.follow([1, 2], 4) == build([[1, 2, 3, 1, 2]]).follow([1, 2], 4)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_every_truncation_and_every_changed_byte_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.index"
    build([[1, 2, 3]]).save(path)
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        assert RepositoryIndex.load(path) is None
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        assert RepositoryIndex.load(path) is None
    path.write_bytes(whole + b"\0")
    assert RepositoryIndex.load(path) is None


def test_what_is_no_index_is_refused(tmp_path: Path) -> None:
    assert RepositoryIndex.load(tmp_path / "missing") is None
    assert RepositoryIndex.load(tmp_path) is None
    (tmp_path / "zeros").write_bytes(bytes(1000))
    assert RepositoryIndex.load(tmp_path / "zeros") is None


def test_a_folder_that_is_missing_or_a_name_that_is_taken_only_costs_the_file(tmp_path: Path) -> None:
    assert not build([[1]]).save(tmp_path / "no" / "x.index")
    os.mkdir(tmp_path / "taken")
    assert not build([[1]]).save(tmp_path / "taken")
    assert [each.name for each in tmp_path.iterdir()] == ["taken"]
