"""The app on a real session with a tiny model; what it says is noise, and how it is shown is not."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from khepri.agent.conversation import Conversation
from khepri.agent.session import Session
from khepri.config import Config
from khepri.models import stores
from khepri.repo.root import Repository
from khepri.tui.app import KhepriApp
from khepri.tui.start import Start

MakeApp = Callable[..., KhepriApp]


@pytest.fixture(autouse=True)
def _own_folders(own_folders: None) -> None:
    """No test of the app writes into anybody's folders."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "retry.py").write_text("def retry(limit):\n    return limit - 1\n", encoding="utf-8")
    (root / "wait.py").write_text("def wait():\n    return '\\x1b[31mred'\n", encoding="utf-8")
    return root


@pytest.fixture
def make_app(root: Path, endless_model: Path) -> Iterator[MakeApp]:
    """Makes an app whose model is random and loads in milliseconds."""
    made: list[KhepriApp] = []

    def make(
        session: str | None = None,
        keys: Mapping[str, str] = {},
        model: Path = endless_model,
        drawn: Callable[[], object] = lambda: None,
        **changes: object,
    ) -> KhepriApp:
        values = {"max_tokens": 24, "threads": 1, "backend": "llama_cpp", "extra_buffers": "off", **changes}
        config = Config(**values)  # type: ignore[arg-type]
        repository = Repository.open(root)

        def open_session(name: str) -> Session:
            return Session(repository, config, stores.find(name or str(model)))

        made.append(
            KhepriApp(
                Start(
                    conversation=Conversation(repository, config, open_session, session),
                    network="network strong",
                    branch=lambda: "main",
                    theme="khepri-dark",
                    settings=lambda: "model  tiny  default",
                    check_machine=lambda: "all is well",
                    keys=keys,
                    drawn=drawn,
                )
            )
        )
        return made[-1]

    yield make
    for app in made:
        app.conversation.close()


@asynccontextmanager
async def running(app: KhepriApp, size: tuple[int, int] = (100, 30)) -> AsyncIterator[Pilot[int]]:
    """Run an app, and free its model after it."""
    try:
        async with app.run_test(size=size) as pilot:
            yield pilot
            app.exit(0)
    finally:
        app.conversation.close()


def is_ready(app: KhepriApp) -> bool:
    """Tell if the model is loaded and the app does nothing."""
    return app.conversation.session is not None and app.status.status.activity == ""


async def wait_until(pilot: Pilot[int], is_so: Callable[[], bool], timeout_s: float = 300.0) -> None:
    """Wait until something holds, giving the app its turns."""
    async with asyncio.timeout(timeout_s):
        while not is_so():
            await pilot.pause(0.01)
