import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from khepri.errors import NoModelError
from khepri.models import stores
from khepri.models.catalogue import DEFAULT_TARGET
from tests.support.tiny_model import write_tiny_model

pytest.register_assert_rewrite("tests.engine.conformance")

# What a shell starts in the background ignores interrupts, and so would every child that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

Git = Callable[..., str]


@pytest.fixture
def git(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Git:
    """Runs the real git in a folder, with a home of its own so that nobody's configuration matters."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    identity = {
        f"GIT_{who}_{what}": value
        for who in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "Ann"), ("EMAIL", "ann@example.org"), ("DATE", "2026-01-02T03:04:05Z"))
    }

    def run(folder: Path, *arguments: str) -> str:
        command = ["git", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", *arguments]
        done = subprocess.run(command, cwd=folder, env={**os.environ, **identity}, capture_output=True, check=True)
        return done.stdout.decode()

    return run


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random llama model of half a megabyte, under a name that every layer must carry through."""
    return write_tiny_model(tmp_path_factory.mktemp("models") / "a 'tiny' model é 🐞.gguf")


@pytest.fixture(scope="session")
def default_model() -> Path:
    """The default target of the catalogue; a test that asks for it carries the mark ``real_model``."""
    return _real_model(DEFAULT_TARGET.name)


@pytest.fixture(scope="session")
def small_model() -> Path:
    """The smallest real model of the catalogue; a test that asks for it carries the mark ``real_model``."""
    return _real_model("tiny")


def _real_model(name: str) -> Path:
    try:
        return stores.find(name).path
    except NoModelError as error:
        pytest.fail(f"{error.message}; run `make models`", pytrace=False)
