"""What the status bar and the transcript show of a turn's events."""

from pathlib import Path

import pytest
from textual.widgets import SelectionList

from khepri.agent.events import AnswerDelta, Thinking
from khepri.tui.widgets.composer import Composer
from tests.tui.conftest import MakeApp, running, wait_until
from tests.tui.test_conversation_on_screen import record


@pytest.mark.parametrize("kind", [Thinking, AnswerDelta], ids=["thinking", "writing"])
async def test_a_speed_stands_with_the_acceptance_rate_and_gamma(
    make_app: MakeApp, kind: type[Thinking | AnswerDelta]
) -> None:
    app = make_app()
    async with running(app) as pilot:
        await pilot.pause()
        assert app._pump is not None
        app._pump.show([kind("some", 12, 20.14, 0.85, 4)])
        assert app.status.status.speed == "20.1 tokens/s (acceptance 85%, gamma 4)"
        app._pump.show([kind("some more", 13, 20.14)])
        assert app.status.status.speed == "20.1 tokens/s (nothing drafted)"
        app._pump.show([kind("some more yet", 14, 0.0)])
        assert app.status.status.speed == ""


@pytest.mark.parametrize("begins", ["why", "/compact", "/refactor rename retry to again"])
async def test_the_figures_of_a_turn_go_when_the_next_one_begins(make_app: MakeApp, root: Path, begins: str) -> None:
    app = make_app(record(root, 1))
    async with running(app) as pilot:
        await wait_until(pilot, lambda: app.conversation.session is not None and app.status.status.activity == "")
        app.status.change(speed="20.1 tokens/s (nothing drafted)", cache="1,937/3,866 cached")
        app.on_composer_sent(Composer.Sent(begins, ()))
        # Nothing has been awaited: nothing of the turn has been shown yet.
        assert app.turns.is_busy
        assert (app.status.status.speed, app.status.status.cache) == ("", "")
        await wait_until(pilot, lambda: not app.turns.is_busy or bool(app.screen.query(SelectionList)))
