"""The panel of figures, whatever a session has none of."""

import pytest
from textual.app import App
from textual.widgets._footer import FooterKey

from khepri.agent.events import DrafterFigures, Finished, Timing, Usage
from khepri.tui.screens.stats import Stats
from tests.tui.conftest import MakeApp, running, wait_until


def finished(acceptance_rate: float | None, tokens_per_s: float = 20.0, *drafts: DrafterFigures) -> Finished:
    timing = Timing(300.0, tokens_per_s, 50.0, 80.0, acceptance_rate, 1000.0, 0.0)
    return Finished("an answer", (), Usage(10, 5, 0), timing, "a model", "answered", drafts=drafts)


@pytest.mark.parametrize(
    ("turns", "untold"),
    [
        ([finished(None)], ["accepted drafts"]),
        ([finished(None, 20.0, DrafterFigures("suffix", 0, 0))], ["accepted drafts"]),
        ([finished(None), finished(0.5, 20.0, DrafterFigures("suffix", 4, 2))], []),
        ([finished(None, 0.0)], ["tokens/s", "accepted drafts"]),
    ],
    ids=["no drafts", "a drafter without a guess", "drafts in the second turn", "no speed"],
)
async def test_a_plot_without_a_value_says_so(turns: list[Finished], untold: list[str]) -> None:
    app: App[None] = App()
    async with app.run_test(size=(100, 40)) as pilot:
        await app.push_screen(Stats(turns))
        await pilot.pause()
        shown = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
    assert shown.count("none yet") == len(untold)
    assert all(title in shown for title in untold)


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_the_key_that_leaves_is_named(make_app: MakeApp, key: str) -> None:
    app = make_app()
    async with running(app, (60, 18)) as pilot:
        app.push_screen(Stats([finished(None)]))
        await wait_until(pilot, lambda: bool(app.screen.query(FooterKey)))
        named = {key.description: key.key_display for key in app.screen.query(FooterKey)}
        assert named["Close"] == "esc"
        await pilot.press(key)
        await wait_until(pilot, lambda: not isinstance(app.screen, Stats))


async def test_a_share_is_drawn_of_a_hundred() -> None:
    app: App[None] = App()
    async with app.run_test(size=(100, 40)) as pilot:
        await app.push_screen(Stats([finished(0.5, 20.0, DrafterFigures("suffix", 4, 4))]))
        await pilot.pause()
        shown = "\n".join(strip.text for strip in app.screen._compositor.render_strips())
    assert shown.count("100.0┤") == 2
