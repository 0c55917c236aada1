from pathlib import Path

import pytest

from tests.support.command import Command


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / "src").mkdir(parents=True)
    (root / "src" / "retry.py").write_text("def retry(limit):\n    return limit - 1\n", encoding="utf-8")
    return root


@pytest.fixture
def khepri(tmp_path: Path, repository: Path, tiny_model: Path) -> Command:
    """The real command in ``repository``, with a home that nobody else has."""
    home = tmp_path / "home"
    home.mkdir()
    return Command(home, repository, tiny_model)
