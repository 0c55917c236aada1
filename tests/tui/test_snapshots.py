"""How the screens look, and what commands show; a difference that is meant is kept with --snapshot-update.

Nothing that a model says, no time, no id and no path is in a picture.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from khepri.agent.events import Compacted, Compacting
from khepri.agent.session import Session
from khepri.edits.review import Review
from khepri.models.layouts import Store
from khepri.models.stores import Model, default_model
from khepri.tui.app import KhepriApp
from khepri.tui.screens.picker import Picker
from khepri.tui.screens.review import ReviewScreen
from khepri.tui.screens.stats import Stats
from tests.tui.conftest import MakeApp, wait_until
from tests.tui.test_commands import CHANGES, said
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
MODELS = (
    Model("qwen2.5-coder-1.5b", Path("one.gguf"), 1_117_320_768, "Q4_K_M", "qwen2", Store.KHEPRI, True),
    Model("smollm2-135m", Path("two.gguf"), 98_362_432, "Q4_1", "llama", Store.OLLAMA, False),
)
pytestmark = pytest.mark.slow
SnapCompare = Callable[..., bool]
RESTFUL_TURNS = 5
Do = Callable[[KhepriApp], object]
IsSo = Callable[[KhepriApp], bool]


def nothing(app: KhepriApp) -> None:
    """Do nothing."""


def settled(do: Do, is_so: IsSo = lambda app: True, activity: str = "") -> Callable[..., Awaitable[None]]:
    """Return what runs before a picture: everything that comes late has come, and nothing blinks or vanishes."""

    async def run(pilot: Pilot[int]) -> None:
        app = pilot.app
        assert isinstance(app, KhepriApp)
        await wait_until(pilot, lambda: app.status.status.activity == activity and bool(app.loader.names.symbols))
        do(app)
        # A screen that has just come up has no fields yet.
        await wait_until(pilot, lambda: is_so(app) and app.screen.is_mounted)
        fields = (app.composer, *app.screen.query(Input))
        for field in fields:
            field.cursor_blink = False  # a cursor that does not blink is seen as long as its field has the focus
        if any(field.screen is app.screen for field in fields):
            await wait_until(pilot, lambda: app.focused is not None)
        app.clear_notifications()
        await rest(pilot)

    return run


async def rest(pilot: Pilot[int]) -> None:
    """Wait until every widget has had several turns in which nothing changed."""
    seen, turns = "", 0
    while turns < RESTFUL_TURNS:
        await pilot.pause()
        picture = pilot.app.export_screenshot()
        turns = turns + 1 if picture == seen else 0
        seen = picture


@pytest.fixture(autouse=True)
def _without_what_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("khepri.tui.wishes.describe_age", lambda then, now: "2 hours ago")
    monkeypatch.setattr("khepri.models.stores.discover", lambda: MODELS)
    monkeypatch.setattr("khepri.paths.keys_file", lambda: Path("~/.config/khepri/keys.toml"))


@pytest.mark.parametrize("theme", ["khepri-dark", "khepri-light", "khepri-contrast"])
def test_a_conversation_looks_the_same(snap_compare: SnapCompare, make_app: MakeApp, root: Path, theme: str) -> None:
    app = make_app(record(root, 2, ANSWER))
    choose = settled(lambda running: setattr(running, "theme", theme))
    assert snap_compare(app, terminal_size=(100, 40), run_before=choose)


@pytest.mark.parametrize("typed", ["/", "what of @re", "one\ntwo"], ids=["commands", "files", "several lines"])
def test_the_composer_looks_the_same(snap_compare: SnapCompare, make_app: MakeApp, root: Path, typed: str) -> None:
    app = make_app(record(root, 1))
    write = settled(
        lambda running: running.composer.insert(typed),
        lambda running: running.composer._completion.is_open == (len(typed.split("\n")) == 1),
    )
    assert snap_compare(app, terminal_size=(60, 18), run_before=write)


def shows(words: str) -> IsSo:
    return lambda app: words in said(app)


def is_open(kind: type) -> IsSo:
    return lambda app: isinstance(app.screen, kind)


@pytest.mark.parametrize(
    ("command", "is_so"),
    [
        ("/help", shows("composer.newline")),
        ("/model", is_open(Picker)),
        ("/models", is_open(Picker)),
        ("/new", shows("A new conversation")),
        ("/clear", shows("A new conversation")),
        ("/sessions", is_open(Picker)),
        ("/resume", is_open(Picker)),
        ("/rewind", shows("taken back")),
        ("/add retry.py", shows("Looked at")),
        ("/drop", shows("No files")),
        ("/undo", shows("changed nothing")),
        ("/diff", shows("has changed nothing")),
        ("/refactor", shows("there is no task")),
        ("/stats", is_open(Stats)),
        ("/theme", is_open(Picker)),
        ("/config", shows("tiny  default")),
        ("/doctor", shows("all is well")),
        ("/nothing", shows("no command")),
    ],
    ids=lambda value: value[1:] if isinstance(value, str) else "shown",
)
def test_what_a_command_shows_looks_the_same(
    snap_compare: SnapCompare, make_app: MakeApp, root: Path, command: str, is_so: IsSo
) -> None:
    app = make_app(record(root, 3))
    run = settled(lambda running: running.run_command(command), is_so)
    assert snap_compare(app, terminal_size=(100, 30), run_before=run)


@pytest.mark.parametrize("found", [(), MODELS[1:]], ids=["none found", "one found"])
def test_a_first_run_looks_the_same(
    snap_compare: SnapCompare,
    make_app: MakeApp,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    found: tuple[Model, ...],
) -> None:
    def no_model(name: str) -> Session:
        default_model({}, root)
        raise AssertionError("there is none")

    monkeypatch.setattr("khepri.models.stores.discover", lambda: found)
    app = make_app()
    app.conversation._open_session = no_model
    assert snap_compare(app, terminal_size=(100, 40), run_before=settled(nothing, shows("models pull"), "no model"))


def test_an_export_looks_the_same(
    snap_compare: SnapCompare, make_app: MakeApp, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The path is said in full, and the folder of a test has another name each time.
    monkeypatch.setattr("khepri.agent.commands._write_anew", lambda path, text: None)
    app = make_app(record(root, 3))
    export = settled(lambda running: running.run_command("/export /home/me/talk.md"), shows("Exported to"))
    assert snap_compare(app, terminal_size=(100, 30), run_before=export)


def test_a_copy_looks_the_same(
    snap_compare: SnapCompare, make_app: MakeApp, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(record(root, 3))
    monkeypatch.setattr("khepri.agent.conversation.new_path", lambda folder: folder / "20260102-030405-abcd.jsonl")
    fork = settled(lambda running: running.run_command("/fork"), shows("This is a copy now"))
    assert snap_compare(app, terminal_size=(100, 30), run_before=fork)


@pytest.mark.parametrize("is_open", [False, True], ids=["closed", "open"])
def test_a_summary_looks_the_same(snap_compare: SnapCompare, make_app: MakeApp, root: Path, *, is_open: bool) -> None:
    def summarise(running: KhepriApp) -> None:
        assert running._pump is not None
        running._pump.show([Compacting(7100, 8192), Compacted("You said what limits the retries.", 3, 7100, 210)])
        if is_open:
            running.action_toggle_last()

    app = make_app(record(root, 3))
    show = settled(summarise, shows("7,100 tokens are a summary of 210 now"))
    assert snap_compare(app, terminal_size=(100, 30), run_before=show)


def test_a_review_looks_the_same(snap_compare: SnapCompare, make_app: MakeApp) -> None:
    show = settled(lambda running: running.push_screen(ReviewScreen(Review(CHANGES))), is_open(ReviewScreen))
    assert snap_compare(make_app(), terminal_size=(100, 30), run_before=show)
