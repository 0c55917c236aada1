from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from khepri.repo import occurrences
from khepri.repo.occurrences import count_terms, lines_with_terms, terms_in
from khepri.repo.root import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    (tmp_path / "a.py").write_text("def retry(limit):\n    return max_limit - limit\n", encoding="utf-8")
    (tmp_path / "b.py").write_text("pass\nRETRY_LIMIT = 3\n", encoding="utf-8")
    (tmp_path / "c.py").write_text("delimiter = retrospect\n", encoding="utf-8")
    return Repository.open(tmp_path)


def test_a_name_has_the_stems_of_its_words() -> None:
    assert terms_in("maxRetryLimit", ["retr", "max", "x"]) == ["max", "retr"]


def test_stems_are_counted_by_file_and_by_line(repository: Repository) -> None:
    assert count_terms(repository, repository.files(), ["retr", "limit"]) == {
        "a.py": {"retr": 1, "limit": 3},
        "b.py": {"retr": 1, "limit": 1},
    }
    assert lines_with_terms(repository, repository.files(), ["retr", "limit"]) == {
        "a.py": {1: {"retr": 1, "limit": 1}, 2: {"limit": 2}},
        "b.py": {2: {"retr": 1, "limit": 1}},
    }


def test_no_stems_are_nowhere(repository: Repository) -> None:
    assert count_terms(repository, repository.files(), []) == lines_with_terms(repository, repository.files(), []) == {}


@pytest.mark.parametrize("look", [count_terms, lines_with_terms])
def test_counting_ends_when_its_time_is_spent(
    repository: Repository, look: Callable[..., dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(occurrences, "MOST_S", 3.0)
    found = []
    for step in (0.0, 1.0, 4.0):
        found.append(len(look(repository, repository.files(), ["retr", "limit"], count(0.0, step).__next__)))
    assert found == [2, 1, 0]
