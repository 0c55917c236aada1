from pathlib import Path

import pytest

from tests.support.tiny_model import write_tiny_model


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny random model, under a name that every layer must carry through."""
    return write_tiny_model(tmp_path_factory.mktemp("models") / "a 'tiny' model é 🐞.gguf")
