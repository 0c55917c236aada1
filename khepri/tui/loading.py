"""Brings what the app begins without: the model, and the names that can be mentioned. The user can type meanwhile."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from textual.timer import Timer

from khepri.agent.words import describe_error
from khepri.errors import NoModelError
from khepri.models.stores import Model
from khepri.tui import themes
from khepri.tui.background import run_aside
from khepri.tui.completing import Names, gather_files, gather_symbols, is_naming
from khepri.tui.paint import warm_up

if TYPE_CHECKING:
    from khepri.tui.app import KhepriApp

_LOOK_S: Final = 0.5


class Loader:
    """Loads on threads of its own, and tells the app. The event loop's thread only."""

    def __init__(self, app: "KhepriApp") -> None:
        self._app = app
        self._timer: Timer | None = None
        self._started_s = 0.0
        self._loads = 0
        self._is_naming = False
        self.names = Names()
        """What can be mentioned, as far as it is known yet."""
        self.problem = ""
        """Why there is no model; empty while there is one, or one is loading."""

    def load(self, unload_for: str | None = None) -> None:
        """Open the session and load its model. A load that is under way counts no more.

        Args:
            unload_for: Name of a model that takes the place of the one in use; None if there is none yet.
        """
        app = self._app
        look = themes.look_of(app.current_theme, app.lexers)
        self._loads += 1
        self.problem = ""
        number = self._loads

        def open_session() -> Model:
            if unload_for is not None:
                app.conversation.unload(unload_for)
            opened = app.conversation.open()
            app.call_later(self._if_newest, number, app.begin_to_serve)
            warm_up(look)
            opened.wait_loaded()
            return opened.model

        self._started_s = time.monotonic()
        if self._timer is None:
            self._timer = app.set_interval(_LOOK_S, self._show)
        else:
            self._timer.resume()
        run_aside(
            app,
            open_session,
            lambda model: self._if_newest(number, lambda: self._end(model)),
            lambda error: self._if_newest(number, lambda: self._fail(error)),
        )

    def _if_newest(self, number: int, act: Callable[[], object]) -> None:
        """Act on a load unless another one has taken its place."""
        if number == self._loads:
            act()

    def gather_names(self) -> None:
        """Find what can be mentioned, and the branch, as they are now: files first, which are there at once."""
        app, repository = self._app, self._app.conversation.repository

        def show(found: tuple[Names, str]) -> None:
            names, branch = found
            app.status.change(branch=branch)
            self._take_files(names)

        run_aside(app, lambda: (gather_files(repository), app.start.branch()), show, app.show_error)

    def follow_naming(self, before_cursor: str) -> None:
        """Look for files that were made or removed since, whenever the user begins to name one."""
        was_naming, self._is_naming = self._is_naming, is_naming(before_cursor)
        if not self._is_naming or was_naming:
            return
        repository = self._app.conversation.repository

        def show(found: Names) -> None:
            if found.files != self.names.files:
                self._take_files(replace(found, symbols=self.names.symbols))

        run_aside(self._app, lambda: gather_files(repository), show, self._app.show_error)

    def _take_files(self, names: Names) -> None:
        """Offer files, to what is being written too, and the symbols in them as soon as they are known."""
        app = self._app
        self.names = names
        if app.composer.text:
            app.composer.ask_again()

        def show(found: Names) -> None:
            self.names = found

        run_aside(app, lambda: gather_symbols(app.conversation.repository, names), show, app.show_error)

    def _show(self) -> None:
        """Say what the load is busy with, and for how long already: the first one may measure for a while."""
        conversation = self._app.conversation
        if not conversation.is_loading:
            return
        session = conversation.session
        doing = session.load_doing if session is not None else "loading"
        name = session.model.name if session is not None else conversation.model or "the model"
        self._app.status.change(activity=f"{doing} {name}, {time.monotonic() - self._started_s:.0f} s")

    def _end(self, model: Model) -> None:
        self._pause()
        self._app.status.change(model=model.name)
        if not self._app.turns.is_busy:
            # What the model before had been told counts no more.
            self._app.status.change(activity="", context_tokens=self._app.conversation.history.told_tokens)

    def _fail(self, error: BaseException) -> None:
        """Say what went wrong, and what there is to choose from."""
        app = self._app
        self._pause()
        app.turns.serve_with(None)
        app.status.change(activity="no model", model="")
        self.problem, _ = describe_error(error)
        if not isinstance(error, NoModelError) or app.conversation.model:
            app.show_error(error)
        app.say_no_model()

    def _pause(self) -> None:
        if self._timer is not None:
            self._timer.pause()
