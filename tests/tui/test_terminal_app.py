"""The terminal is lent to other programs, and comes back whatever becomes of them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from textual.app import App

from khepri.errors import UsageError
from khepri.tui.terminal_app import TerminalApp


async def test_the_terminal_is_taken_back_from_a_program_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    happened = []

    @contextmanager
    def suspend(app: App[int]) -> Iterator[None]:
        happened.append("given away")
        yield
        happened.append("taken back")

    monkeypatch.setattr(App, "suspend", suspend)
    app = TerminalApp()
    async with app.run_test():
        with pytest.raises(UsageError, match="exit status 3"), app.suspend():
            raise UsageError("the editor ended with exit status 3", "set EDITOR")
    assert happened == ["given away", "taken back"]
