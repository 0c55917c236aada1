"""What the status bar finds room for."""

import pytest

from khepri.tui.widgets.status_bar import Status
from tests.tui.conftest import MakeApp, running, wait_until

FULL = Status(
    model="qwen2.5-coder-1.5b-instruct-q4_k_m",
    activity="writing, 123 tokens",
    context_tokens=3866,
    context_limit=8192,
    speed="20.1 tokens/s (acceptance 85%, gamma 4)",
    cache="1,937/3,866 cached",
    network="network strong",
    branch="main",
)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        ((60, 18), ("writing", "tokens/s", "gamma 4")),
        ((100, 30), ("writing", "gamma 4", "3,866/8,192", "cached", "qwen2.5", "network strong", "main")),
        ((300, 100), ("writing", "gamma 4", "3,866/8,192", "cached", "qwen2.5", "network strong", "main")),
    ],
    ids=str,
)
async def test_what_matters_is_seen_at_any_size(
    make_app: MakeApp, size: tuple[int, int], words: tuple[str, ...]
) -> None:
    app = make_app()
    async with running(app, size) as pilot:
        await wait_until(pilot, lambda: app.status.status.activity == "" and bool(app._names.symbols))
        app.status.status = FULL
        await pilot.pause()
        shown = str(app.status.render())
        assert all(word in shown for word in words)
        assert len(shown.split("\n")) == app.status.size.height
        assert all(len(line) <= app.status.size.width for line in shown.split("\n"))
