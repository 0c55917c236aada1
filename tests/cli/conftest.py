from pathlib import Path

import gguf
import pytest

from tests.support.command import Command
from tests.support.tiny_model import CONTROL_TOKENS, USER_TOKENS, write_tiny_model


@pytest.fixture(scope="session")
def _endless_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny model to which all control tokens are as likely as the average token."""
    path = write_tiny_model(tmp_path_factory.mktemp("models") / "endless.gguf")
    (output,) = (tensor for tensor in gguf.GGUFReader(path, "r+").tensors if tensor.name == "output.weight")
    specials = len(CONTROL_TOKENS) + len(USER_TOKENS)
    output.data[-specials:] = 0
    return path


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


@pytest.fixture
def talkative(khepri: Command, _endless_model: Path) -> Command:
    """The command with a model that chooses among the likely tokens only, and so does not end its turn by itself."""
    return Command(khepri.home, khepri.cwd, _endless_model, {"KHEPRI_TOP_K": "20", "KHEPRI_MAX_TOKENS": "7000"})
