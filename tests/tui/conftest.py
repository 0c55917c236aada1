"""The app on a real session with a tiny model; what it says is noise, and how it is shown is not."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from khepri.agent.session import Session
from khepri.config import Config
from khepri.models import stores
from khepri.repo.root import Repository
from khepri.tui.app import KhepriApp, Start

MakeApp = Callable[..., KhepriApp]


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind in ("CACHE", "CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "retry.py").write_text("def retry(limit):\n    return limit - 1\n", encoding="utf-8")
    (root / "wait.py").write_text("def wait():\n    return '\\x1b[31mred'\n", encoding="utf-8")
    return root


@pytest.fixture
def make_app(root: Path, tiny_model: Path) -> MakeApp:
    """Makes an app whose model is random and loads in milliseconds."""

    def make(**changes: object) -> KhepriApp:
        values = {"max_tokens": 24, "threads": 1, "extra_buffers": "off", **changes}
        config = Config(**values)  # type: ignore[arg-type]
        return KhepriApp(
            Start(
                open_session=lambda: Session(Repository.open(root), config, stores.find(str(tiny_model))),
                model="tiny",
                context_tokens=config.context_tokens,
                network="network strong",
                branch="main",
            )
        )

    return make


async def wait_until(pilot: Pilot[int], is_so: Callable[[], bool], timeout_s: float = 30.0) -> None:
    """Wait until something holds, giving the app its turns."""
    async with asyncio.timeout(timeout_s):
        while not is_so():
            await pilot.pause(0.01)
