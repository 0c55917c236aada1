"""How the screens look; a difference that is meant is kept with --snapshot-update."""

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from khepri.edits.review import Review
from khepri.tui.app import KhepriApp
from khepri.tui.screens.review import ReviewScreen
from khepri.tui.widgets.composer import Composer
from tests.tui.conftest import MakeApp, wait_until
from tests.tui.test_commands import CHANGES
from tests.tui.test_conversation_on_screen import record

ANSWER = """## Where it is

In `retry.py`, **`retry`** calls up to *three* times:

```python
def retry(limit):
    return limit - 1
```

| name | value |
|---|---|
| LIMIT | 3 |

1. first
2. second
   - nested

> Quoted.
"""
SnapCompare = Callable[..., bool]


def settled(then: Callable[[KhepriApp, Pilot[int]], object] = lambda app, pilot: None) -> Callable[..., object]:
    """Return what runs before the picture: everything that comes late has come."""

    async def run(pilot: Pilot[int]) -> None:
        app = pilot.app
        assert isinstance(app, KhepriApp)
        await wait_until(pilot, lambda: app.status.status.activity == "" and bool(app._names.files))
        app.query_one(Composer).cursor_blink = False
        then(app, pilot)
        await pilot.pause(0.3)

    return run


@pytest.fixture(autouse=True)
def _end_with_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    # The picture is compared after the app has ended, and shows no ages or session ids.
    monkeypatch.setattr("khepri.tui.wishes.describe_age", lambda then, now: "2 hours ago")
    monkeypatch.setattr("khepri.paths.keys_file", lambda: Path("~/.config/khepri/keys.toml"))


@pytest.mark.parametrize("theme", ["khepri-dark", "khepri-light", "khepri-contrast"])
def test_a_conversation_looks_the_same(snap_compare: SnapCompare, make_app: MakeApp, root: Path, theme: str) -> None:
    app = make_app(record(root, 2, ANSWER))

    def choose(running: KhepriApp, pilot: Pilot[int]) -> None:
        running.theme = theme

    assert snap_compare(app, terminal_size=(100, 40), run_before=settled(choose))
    app.conversation.close()


@pytest.mark.parametrize(
    ("name", "typed"),
    [("palette", "/"), ("files", "what of @re"), ("lines", "one\\\ntwo")],
    ids=["palette", "files", "several lines"],
)
def test_the_composer_looks_the_same(
    snap_compare: SnapCompare, make_app: MakeApp, root: Path, name: str, typed: str
) -> None:
    app = make_app(record(root, 1))
    assert snap_compare(
        app,
        terminal_size=(60, 18),
        run_before=settled(lambda running, pilot: running.composer.insert(typed)),
    )
    app.conversation.close()


@pytest.mark.parametrize("command", ["/help", "/sessions", "/theme", "/stats", "/config"])
def test_what_a_command_shows_looks_the_same(
    snap_compare: SnapCompare, make_app: MakeApp, root: Path, command: str
) -> None:
    app = make_app(record(root, 3))
    assert snap_compare(
        app,
        terminal_size=(100, 30),
        run_before=settled(lambda running, pilot: running.run_command(command)),
    )
    app.conversation.close()


def test_a_review_looks_the_same(snap_compare: SnapCompare, make_app: MakeApp) -> None:
    app = make_app()
    assert snap_compare(
        app,
        terminal_size=(100, 30),
        run_before=settled(lambda running, pilot: running.push_screen(ReviewScreen(Review(CHANGES)))),
    )
    app.conversation.close()
