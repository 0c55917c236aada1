import os
import sqlite3
import stat
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from khepri.repo import facts as facts_module
from khepri.repo.facts import Facts, FactsCache, parsed_files
from khepri.repo.root import Repository


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.py").write_text("def one(): ...\n")
    (root / "b.py").write_text("import a\na.one()\n")
    return root


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "symbols"


def names(root: Path, store: Path | None) -> dict[str, list[str]]:
    with FactsCache(Repository.open(root), store) as cache:
        found = cache.facts(cache.contents(Repository.open(root).files()))
    return {path: [symbol.name for symbol in known.symbols] for path, known in found.items()}


def database(store: Path) -> Path:
    (path,) = store.glob("*.sqlite3")
    return path


def test_facts_are_the_same_without_with_a_new_and_with_a_full_cache(project: Path, store: Path) -> None:
    expected = {"a.py": ["one"], "b.py": []}
    assert names(project, None) == names(project, store) == names(project, store) == expected


def test_a_warm_run_reads_no_file(project: Path, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names(project, store)

    def refuse(path: Path, max_bytes: int = 0) -> None:
        raise AssertionError(f"{path} was read")

    monkeypatch.setattr(facts_module, "read_text", refuse)
    assert names(project, store)["a.py"] == ["one"]


def test_a_change_of_equal_length_with_the_old_time_is_seen(project: Path, store: Path) -> None:
    names(project, store)
    before = os.stat(project / "a.py")
    (project / "a.py").write_text("def two(): ...\n")
    os.utime(project / "a.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert names(project, store)["a.py"] == ["two"]


def test_files_that_are_gone_are_forgotten(project: Path, store: Path) -> None:
    names(project, store)
    (project / "a.py").unlink()
    (project / "b.py").write_text("x = 1\n")
    assert names(project, store) == {"b.py": []}
    connection = sqlite3.connect(database(store))
    try:
        assert connection.execute("SELECT path FROM files").fetchall() == [("b.py",)]
        assert connection.execute("SELECT count(*) FROM facts").fetchall() == [(1,)]
    finally:
        connection.close()


def test_the_cache_is_for_the_user_alone(project: Path, store: Path) -> None:
    names(project, store)
    assert stat.S_IMODE(database(store).stat().st_mode) == 0o600
    assert stat.S_IMODE(store.stat().st_mode) == 0o700


@pytest.mark.parametrize("damage", [b"", b"not a database", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_cache_is_made_anew(project: Path, store: Path, damage: bytes) -> None:
    names(project, store)
    path = database(store)
    path.write_bytes(damage)
    assert names(project, store)["a.py"] == ["one"]
    assert path.read_bytes()[:6] == b"SQLite"
    assert names(project, store)["a.py"] == ["one"]


def test_a_truncated_cache_changes_no_answer(project: Path, store: Path) -> None:
    for number in range(60):
        (project / f"m{number}.py").write_text(f"def f{number}(): ...\n" * 20)
    expected = names(project, store)
    path = database(store)
    whole = path.read_bytes()
    for size in range(0, len(whole), len(whole) // 9):
        path.write_bytes(whole[:size])
        assert names(project, store) == expected


def test_rows_of_a_foreign_shape_are_ignored(project: Path, store: Path) -> None:
    names(project, store)
    connection = sqlite3.connect(database(store))
    with connection:
        connection.execute("UPDATE facts SET symbols = '[1, {}]', identifiers = 'x'")
    connection.close()
    assert names(project, store)["a.py"] == ["one"]


def test_a_cache_of_another_version_is_made_anew(project: Path, store: Path) -> None:
    names(project, store)
    connection = sqlite3.connect(database(store))
    with connection:
        connection.execute("UPDATE version SET text = 'older'")
        connection.execute("UPDATE facts SET symbols = '[]'")
    connection.close()
    assert names(project, store)["a.py"] == ["one"]


def test_a_locked_cache_does_without(project: Path, store: Path) -> None:
    names(project, store)
    (project / "a.py").write_text("def changed(): ...\n")
    other = sqlite3.connect(database(store), isolation_level=None)
    try:
        other.execute("BEGIN EXCLUSIVE")
        assert names(project, store)["a.py"] == ["changed"]
    finally:
        other.close()


def test_a_folder_that_cannot_be_made_does_without(project: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert names(project, tmp_path / "file" / "cache")["a.py"] == ["one"]


def test_a_link_in_place_of_the_cache_is_not_followed(project: Path, store: Path, tmp_path: Path) -> None:
    names(project, store)
    path = database(store)
    path.unlink()
    victim = tmp_path / "victim"
    victim.write_text("mine")
    path.symlink_to(victim)
    assert names(project, store)["a.py"] == ["one"]
    assert victim.read_text() == "mine"


def test_binaries_and_vanished_files_have_no_facts(project: Path) -> None:
    (project / "c.py").write_bytes(b"\0\1\2" * 100)
    with FactsCache(Repository.open(project), None) as cache:
        contents = cache.contents(["a.py", "c.py", "gone.py"])
        assert contents.keys() == {"a.py"}
        assert cache.facts({"gone.py": "no such content"}) == {"gone.py": Facts((), {})}


def test_the_budget_takes_source_before_tests_and_shallow_before_deep(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for path in ("tests/test_a.py", "pkg/deep/c.py", "docs/conf.py", "huge.py", "note.txt"):
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text("x = 1\n" * 10)
    assert parsed_files(Repository.open(project)) == (
        "a.py",
        "b.py",
        "huge.py",
        "pkg/deep/c.py",
        "docs/conf.py",
        "tests/test_a.py",
    )
    (project / "huge.py").write_text("x = 1\n" * 100_000)
    monkeypatch.setattr(facts_module, "MAX_PARSED_BYTES", 120)
    assert parsed_files(Repository.open(project)) == ("a.py", "b.py", "pkg/deep/c.py")


def test_parsing_ends_when_its_time_is_spent_and_the_next_run_goes_on(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts_module, "MAX_PARSE_S", 3.0)
    for number in range(7):
        (project / f"{number}.py").write_text(f"def f{number}(): ...\n")
    repository = Repository.open(project)
    known = []
    for _ in range(4):
        with FactsCache(repository, store, clock=count(0.0, 1.0).__next__) as cache:
            known.append(len(cache.facts(cache.contents(repository.files()))))
    assert known == [3, 6, 9, 9]


def test_damaged_rows_are_not_made_anew_when_the_time_is_spent(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names(project, store)
    with closing(sqlite3.connect(database(store))) as connection, connection:
        connection.execute("UPDATE facts SET symbols = '[1]'")
    assert names(project, store) == {"a.py": ["one"], "b.py": []}
    with closing(sqlite3.connect(database(store))) as connection, connection:
        connection.execute("UPDATE facts SET symbols = '[1]'")
    monkeypatch.setattr(facts_module, "MAX_PARSE_S", 0.0)
    assert names(project, store) == {}
