import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import gguf
import pytest
from hypothesis import HealthCheck, settings

from khepri.engine.backend import Batch, Logits
from khepri.engine.backends.llama_cpp import LlamaCppBackend
from khepri.errors import NoModelError
from khepri.models import stores
from khepri.models.catalogue import DEFAULT_TARGET
from tests.support.lasting import TOKEN_S
from tests.support.tiny_model import CONTROL_TOKENS, USER_TOKENS, write_tiny_model

pytest.register_assert_rewrite("tests.engine.conformance", "tests.support.prefill")

# The same examples every time, on machines of any speed; `--hypothesis-profile=default` searches for others.
settings.register_profile(
    "steady", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

# What a shell starts in the background ignores interrupts, and so would every child that a test interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

Git = Callable[..., str]


@pytest.fixture
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps what Khepri writes outside the repository in folders of the test's own."""
    for kind in ("CACHE", "CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))


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
def endless_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model to which all control tokens are as likely as the average token, under a name like the other's.

    As long as the likely tokens are chosen, it always says something, and never ends its turn by itself.
    """
    path = write_tiny_model(tmp_path_factory.mktemp("models") / "an 'endless' model é 🐞.gguf")
    (output,) = (tensor for tensor in gguf.GGUFReader(path, "r+").tensors if tensor.name == "output.weight")
    output.data[-len(CONTROL_TOKENS) - len(USER_TOKENS) :] = 0
    return path


@pytest.fixture
def lasting_model(endless_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The endless model, taking its time over each token: with ``LASTING`` settings no answer ends within a test."""
    decode = LlamaCppBackend.decode

    def decode_slowly(backend: LlamaCppBackend, batch: Batch) -> Logits:
        if len(batch.tokens) == 1:
            time.sleep(TOKEN_S)
        return decode(backend, batch)

    monkeypatch.setattr(LlamaCppBackend, "decode", decode_slowly)
    return endless_model


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
