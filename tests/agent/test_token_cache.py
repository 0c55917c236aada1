import os
import sqlite3
import stat
from pathlib import Path

import numpy as np
import pytest

from khepri.agent.token_cache import TokenCache, trim_folder

IDS = np.array([3, 1, 2**31], dtype=np.uint32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "drafts" / "x.sqlite3"


def fill(path: Path | None) -> TokenCache:
    cache = TokenCache(path)
    cache.keep_content("a.py", "status", "content")
    cache.keep_tokens("content", IDS)
    return cache


def known(cache: TokenCache) -> tuple[str | None, int | None, list[int] | None]:
    tokens = cache.tokens("content")
    return cache.content("a.py", "status"), cache.count("content"), None if tokens is None else tokens.tolist()


ALL = ("content", 3, [3, 1, 2**31])
NOTHING = (None, None, None)


def test_what_is_kept_is_known_later_and_for_the_user_alone(path: Path) -> None:
    fill(path).close()
    with TokenCache(path) as cache:
        assert known(cache) == ALL
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_another_status_is_another_content(path: Path) -> None:
    with fill(path) as cache:
        assert cache.content("a.py", "later") is None


def test_an_entry_is_on_disk_before_the_cache_is_closed(path: Path) -> None:
    with fill(path), TokenCache(path) as other:
        assert known(other) == ALL


def test_without_a_file_the_cache_is_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (None, tmp_path / "file" / "x.sqlite3"):
        with fill(path) as cache:
            assert known(cache) == ALL


@pytest.mark.parametrize("damage", [b"not a database", b"SQLite format 3\0" + b"\xff" * 5000, b"\0" * 4096])
def test_a_file_that_is_no_cache_is_replaced(path: Path, damage: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(damage)
    fill(path).close()
    with TokenCache(path) as cache:
        assert known(cache) == ALL


def test_a_cache_of_another_format_is_replaced(path: Path) -> None:
    fill(path).close()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    with TokenCache(path) as cache:
        assert known(cache) == NOTHING


def test_a_link_in_the_place_of_the_cache_is_not_followed(path: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"mine")
    path.parent.mkdir()
    path.symlink_to(tmp_path / "elsewhere")
    with fill(path) as cache:
        assert known(cache) == ALL
    assert (tmp_path / "elsewhere").read_bytes() == b"mine"


def test_a_damaged_row_is_no_row(path: Path) -> None:
    fill(path).close()
    for damage in ("ids = x'0001'", "ids = 'text'", "checksum = 1", "count = 2"):
        connection = sqlite3.connect(path)
        with connection:
            connection.execute(f"UPDATE tokens SET {damage}")
        connection.close()
        with TokenCache(path) as cache:
            assert cache.tokens("content") is None
        fill(path).close()


def test_a_locked_cache_answers_that_it_knows_nothing(path: Path) -> None:
    fill(path).close()
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN EXCLUSIVE")
    try:
        with fill(path) as cache:
            assert known(cache) == ALL  # in memory
    finally:
        connection.close()


def test_files_that_are_gone_are_forgotten_with_their_contents(path: Path) -> None:
    with fill(path) as cache:
        cache.keep_content("b.py", "status", "other")
        cache.keep_tokens("other", IDS)
        cache.forget_others({"b.py"})
        assert known(cache) == NOTHING
        assert cache.count("other") == 3


def test_a_content_that_another_file_still_has_is_kept(path: Path) -> None:
    with fill(path) as cache:
        cache.keep_content("b.py", "status", "content")
        cache.forget_others({"b.py"})
        assert cache.count("content") == 3


def test_the_files_that_were_not_used_for_longest_are_deleted_first(tmp_path: Path) -> None:
    for age, name in enumerate(["new", "old", "oldest", "mine"]):
        (tmp_path / name).write_bytes(bytes(100))
        os.utime(tmp_path / name, (1_000_000 - age, 1_000_000 - age))
    trim_folder(tmp_path, 250, {tmp_path / "mine"})
    assert {path.name for path in tmp_path.iterdir()} == {"new", "mine"}
    trim_folder(tmp_path / "missing", 0, set())
