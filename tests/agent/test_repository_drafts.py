import os
import stat
import threading
import time
from pathlib import Path

import pytest

from khepri import paths
from khepri.agent import repository_drafts
from khepri.agent.repository_drafts import RepositoryDrafts
from khepri.engine.draft.repository_index import RepositoryIndex
from khepri.errors import KhepriError
from tests.support.scripted_backend import ByteVocabulary

PATIENCE_S = 30.0


class Vocabulary(ByteVocabulary):
    """Bytes as tokens; counts what it is asked, and can be held at a text or closed."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.is_closed = False
        self.hold_at = ""
        self.is_held = threading.Event()
        self.let_go = threading.Event()

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        if self.is_closed:
            raise KhepriError("the engine is closed")
        if text != repository_drafts._PROBE:
            self.texts.append(text)
            if self.hold_at and self.hold_at in text:
                self.is_held.set()
                assert self.let_go.wait(PATIENCE_S)
        return list(text.encode())


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    (root / "a.py").write_text("def one(): ...\n")
    (root / "b.py").write_text("def second(): ...\n")
    return root


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "drafts"


def follows(index: RepositoryIndex | None, text: str) -> str | None:
    found = index.follow(list(text.encode()), 4) if index is not None else None
    return None if found is None or found.match < len(text) else bytes(found.tokens).decode()


def index_of(project: Path, store: Path | None, vocabulary: Vocabulary | None = None) -> RepositoryIndex:
    with RepositoryDrafts(project, store) as drafts:
        drafts.start(vocabulary or Vocabulary())
        assert drafts.wait_current(PATIENCE_S)
        assert drafts.index is not None
        return drafts.index


def test_the_files_are_indexed_in_the_background(project: Path, store: Path) -> None:
    index = index_of(project, store)
    assert follows(index, "def one") == "(): "
    assert follows(index, "def two") is None


def test_without_a_cache_folder_the_index_is_the_same(project: Path) -> None:
    assert follows(index_of(project, None), "def one") == "(): "


def test_before_the_start_there_is_no_index(project: Path, store: Path) -> None:
    with RepositoryDrafts(project, store) as drafts:
        assert drafts.index is None
        assert not drafts.wait_current(0)


def test_a_second_run_tokenizes_nothing_and_loads_the_index(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index_of(project, store)

    def refuse(*_: object) -> None:
        raise AssertionError("an index was built")

    monkeypatch.setattr(RepositoryIndex, "build", refuse)
    vocabulary = Vocabulary()
    assert follows(index_of(project, store, vocabulary), "def one") == "(): "
    assert vocabulary.texts == []


def test_after_a_refresh_the_index_shows_changed_new_and_deleted_files(project: Path, store: Path) -> None:
    vocabulary = Vocabulary()
    with RepositoryDrafts(project, store) as drafts:
        drafts.start(vocabulary)
        assert drafts.wait_current(PATIENCE_S)
        before = drafts.index
        (project / "a.py").write_text("def other(): ...\n")
        (project / "c.py").write_text("def third(): ...\n")
        (project / "b.py").unlink()
        drafts.refresh()
        assert drafts.wait_current(PATIENCE_S)
        assert follows(drafts.index, "def other") == follows(drafts.index, "def third") == "(): "
        assert follows(drafts.index, "def one") is follows(drafts.index, "def second") is None
        assert follows(before, "def one") == "(): "
    assert sorted(vocabulary.texts[2:]) == ["def other(): ...\n", "def third(): ...\n"]


def test_a_refresh_without_a_change_keeps_the_index(project: Path, store: Path) -> None:
    with RepositoryDrafts(project, store) as drafts:
        drafts.start(Vocabulary())
        assert drafts.wait_current(PATIENCE_S)
        before = drafts.index
        drafts.refresh()
        assert drafts.wait_current(PATIENCE_S)
        assert drafts.index is before


def test_an_old_index_serves_until_the_new_one_is_made(project: Path, store: Path) -> None:
    index_of(project, store)
    (project / "a.py").write_text("def other(): ...\n")
    vocabulary = Vocabulary()
    vocabulary.hold_at = "other"
    with RepositoryDrafts(project, store) as drafts:
        drafts.start(vocabulary)
        assert vocabulary.is_held.wait(PATIENCE_S)
        assert follows(drafts.index, "def one") == "(): "
        vocabulary.let_go.set()
        assert drafts.wait_current(PATIENCE_S)
        assert follows(drafts.index, "def one") is None


def test_work_that_is_interrupted_keeps_the_files_already_done(project: Path, store: Path) -> None:
    vocabulary = Vocabulary()
    vocabulary.hold_at = "second"
    drafts = RepositoryDrafts(project, store)
    drafts.start(vocabulary)
    assert vocabulary.is_held.wait(PATIENCE_S)
    closing = threading.Thread(target=drafts.close)
    closing.start()
    while not drafts._closed.is_set():
        pass
    vocabulary.let_go.set()
    closing.join(PATIENCE_S)
    assert drafts.index is None
    again = Vocabulary()
    assert follows(index_of(project, store, again), "def one") == "(): "
    assert "def one(): ...\n" not in again.texts


def test_a_closed_engine_leaves_the_index_as_it_is(project: Path, store: Path) -> None:
    vocabulary = Vocabulary()
    with RepositoryDrafts(project, store) as drafts:
        drafts.start(vocabulary)
        assert drafts.wait_current(PATIENCE_S)
        vocabulary.is_closed = True
        (project / "a.py").write_text("def other(): ...\n")
        drafts.refresh()
        assert drafts.wait_current(PATIENCE_S)
        assert follows(drafts.index, "def one") == "(): "


def test_another_vocabulary_has_an_index_of_its_own(project: Path, store: Path) -> None:
    index_of(project, store)
    vocabulary = Vocabulary()
    vocabulary.size += 1
    index_of(project, store, vocabulary)
    assert len(vocabulary.texts) == 2
    assert len(list(store.glob("*.index"))) == 2


@pytest.mark.parametrize("damage", [b"", b"rubbish", b"\xff" * 3000])
def test_damaged_caches_only_cost_time(project: Path, store: Path, damage: bytes) -> None:
    index_of(project, store)
    files = list(store.iterdir())
    assert len(files) == 2
    for path in files:
        path.write_bytes(damage)
    assert follows(index_of(project, store), "def one") == "(): "
    assert follows(index_of(project, store), "def one") == "(): "


def test_the_caches_are_for_the_user_alone(project: Path, store: Path) -> None:
    index_of(project, store)
    assert {stat.S_IMODE(path.stat().st_mode) for path in store.iterdir()} == {0o600}


def test_the_caches_of_all_repositories_together_are_bounded(
    project: Path, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.mkdir(parents=True)
    (store / "old.index").write_bytes(bytes(1000))
    os.utime(store / "old.index", (1, 1))
    monkeypatch.setattr(repository_drafts, "MAX_CACHE_BYTES", 900)
    index_of(project, store)
    names = {path.name for path in store.iterdir()}
    assert "old.index" not in names
    assert len(names) == 2


def test_a_folder_that_went_away_ends_nothing(project: Path, store: Path) -> None:
    with RepositoryDrafts(project / "missing", store) as drafts:
        drafts.start(Vocabulary())
        assert drafts.wait_current(PATIENCE_S)
        assert drafts.index is None


def test_the_work_rests_so_that_the_passes_of_the_model_keep_the_processors(project: Path, store: Path) -> None:
    class Slow(Vocabulary):
        worked_s = 0.0

        def tokenize(self, text: str, *, special: bool = False) -> list[int]:
            time.sleep(0.02)
            self.worked_s += 0.02
            return super().tokenize(text, special=special)

    slow, started_s = Slow(), time.monotonic()
    index_of(project, store, slow)
    assert time.monotonic() - started_s >= 3 * slow.worked_s


def test_the_work_has_the_priority_of_all_others_as_it_may_hold_the_lock_of_the_interpreter(
    project: Path, store: Path
) -> None:
    found: set[int] = set()

    class Watching(Vocabulary):
        def tokenize(self, text: str, *, special: bool = False) -> list[int]:
            found.add(os.getpriority(os.PRIO_PROCESS, threading.get_native_id()))
            return super().tokenize(text, special=special)

    index_of(project, store, Watching())
    assert found == {os.getpriority(os.PRIO_PROCESS, 0)}


def test_the_caches_lie_below_the_folder_of_caches() -> None:
    assert paths.drafts_cache_dir().parent == paths.cache_dir()
