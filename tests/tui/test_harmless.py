"""Nothing that a name, a file or a text holds reaches the terminal as a command, on no screen."""

import unicodedata

import pytest
from textual.screen import Screen

from khepri.edits.change import ChangeSet, FileChange
from khepri.edits.review import Review
from khepri.tui import loading
from khepri.tui.completing import Names
from khepri.tui.screens.picker import Choice, Picker
from khepri.tui.screens.review import ReviewScreen
from tests.tui.conftest import MakeApp, is_ready, running, wait_until

EVIL = "evil\x1b[2J\x1b]52;c;aGk=\x07\x9b31m\u202e\rabc"


def written(screen: Screen[object]) -> str:
    """Return the characters of a screen as they go to the terminal."""
    return "".join(segment.text for strip in screen._compositor.render_strips() for segment in strip)


def steering(screen: Screen[object]) -> set[str]:
    """Return what is on a screen and moves the cursor, or the text."""
    return {char for char in written(screen) if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")}


def evil_screens() -> list[Screen[None] | Screen[str | None]]:
    changes = ChangeSet(EVIL, (FileChange(f"{EVIL}.py", EVIL.encode(), f"{EVIL}\n{EVIL}".encode()),))
    return [Picker("Models", [Choice("a", EVIL, EVIL)]), ReviewScreen(Review(changes))]


@pytest.mark.parametrize("number", [0, 1], ids=["a list", "a review"])
async def test_a_screen_is_harmless(make_app: MakeApp, number: int) -> None:
    app = make_app()
    async with running(app) as pilot:
        screen = evil_screens()[number]
        await app.push_screen(screen)
        await wait_until(pilot, lambda: written(app.screen).count("evil") > 1)
        assert not steering(app.screen)


async def test_the_main_screen_is_harmless_whatever_is_put_into_it(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app()
    async with running(app) as pilot:
        await wait_until(pilot, lambda: is_ready(app) and bool(app.loader.names.symbols))
        monkeypatch.setattr(loading, "gather_files", lambda repository: Names((f"{EVIL}.py",)))
        app.status.change(branch=EVIL)
        app.status.change(activity=EVIL)
        app.notify(EVIL, markup=False)
        await pilot.press(*"see @ev")
        await wait_until(pilot, lambda: written(app.screen).count("evil") >= 3)
        assert not steering(app.screen)
        app.composer.put(EVIL)  # the list of files goes with what it was for
        await wait_until(pilot, lambda: written(app.screen).count("evil") >= 3)
        assert not steering(app.screen)
