from collections.abc import Callable
from pathlib import Path

import pytest

from khepri.repo.root import Repository
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.registry import Registry

Call = Callable[..., Observation]


def count_tokens(text: str) -> int:
    return (len(text) + 3) // 4


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """Calls a tool through the registry that ships, in the repository at ``tmp_path``."""

    def run(name: str, arguments: Arguments, *, budget: int = 500, where: Path | None = None) -> Observation:
        context = ToolContext(Repository.open(where or tmp_path), count_tokens, budget)
        observation = Registry.load(user_dir=tmp_path / "no-user-tools").run(context, name, arguments)
        assert observation.tokens == count_tokens(observation.text) <= budget
        return observation

    return run
