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
def khepri(tmp_path: Path, repository: Path, endless_model: Path) -> Command:
    """The real command in ``repository``, with a home that nobody else has."""
    home = tmp_path / "home"
    home.mkdir()
    return Command(home, repository, endless_model)


@pytest.fixture
def talkative(khepri: Command, endless_model: Path) -> Command:
    """The command with a model that does not end its turn by itself, in a context that outlasts a test."""
    settings = {"KHEPRI_TOP_K": "20", "KHEPRI_CONTEXT_TOKENS": "131072", "KHEPRI_MAX_TOKENS": "120000"}
    return Command(khepri.home, khepri.cwd, endless_model, settings)
