"""Fulfils what commands need of a screen: lists to choose from, panels, texts that take a while."""

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, TypeVar

from khepri import paths
from khepri.agent.commands import Outcome, Wish
from khepri.agent.listings import commands_text, describe_age, describe_size, models_text, no_model_text
from khepri.agent.recording import SessionInfo
from khepri.agent.words import fenced
from khepri.edits.checks import CheckOutcome
from khepri.edits.review import Review
from khepri.errors import UsageError
from khepri.models.stores import Model, find
from khepri.repo.text import counted
from khepri.tui.background import run_aside
from khepri.tui.entries import MarkdownEntry, NoteEntry, StepEntry
from khepri.tui.pastes import pastes_of
from khepri.tui.screens.picker import Choice, Picker

if TYPE_CHECKING:
    from khepri.tui.app import KhepriApp

T = TypeVar("T")
_END_S: Final = 2.0
_STILL_S: Final = 0.7
"""Who has pressed no key for so long is not in the middle of a word."""


class Wishes:
    """What commands wish for, done on the app's screen. The event loop's thread only."""

    def __init__(self, app: "KhepriApp") -> None:
        self._app = app
        # What stops each command of the user's that runs, and what tells that it has ended.
        self._commands: dict[threading.Event, threading.Event] = {}

    def fulfil(self, outcome: Outcome) -> None:
        """Do what a command asked for, and show what it said."""
        match outcome.wish:
            case Wish.QUIT:
                self._app.leave(0)
            case Wish.HELP:
                self._say(f"{commands_text()}\n\n{self._keys_text()}")
            case Wish.STATS:
                self._show_stats()
            case Wish.THEME:
                self._choose_theme(outcome.argument)
            case Wish.SESSIONS:
                self._choose_session()
            case Wish.MODELS:
                self._list_models()
            case Wish.MODEL:
                self._take_model(outcome.argument)
            case Wish.CONFIG:
                self._say(fenced(self._app.start.settings()))
            case Wish.DOCTOR:
                self._check_machine()
            case Wish.REDRAW:
                self._app.redraw()
                if outcome.argument:
                    self._app.composer.put(outcome.argument, pastes_of(outcome.attachments))
            case None:
                pass
        if outcome.text:
            self._say(outcome.text)

    def say_no_model(self, problem: str) -> None:
        """Say why no question can be answered, what was found on this machine, and how to get a model."""
        self.later(self._app.conversation.models, lambda models: self._say(no_model_text(models, problem)))

    def _list_models(self) -> None:
        def show(models: tuple[Model, ...]) -> None:
            if not models:
                self._say(models_text(models, ""))
                return
            current = self._app.status.status.model
            choices = [
                Choice(
                    model.name,
                    f"{model.name}{'  (in use)' if model.name == current else ''}",
                    f"{model.architecture}, {model.quantization}, {describe_size(model.size_bytes)}, {model.source}",
                )
                for model in models
            ]
            self._app.push_screen(Picker("Models on this machine", choices), self._take_chosen_model)

        self.later(self._app.conversation.models, show)

    def ask_about(self, review: Review) -> None:
        """Let the user decide about a change, once the keys that are pressed are meant for it."""
        from khepri.tui.screens.review import ReviewScreen

        was_busy = self._app.turns.is_busy

        def ask() -> None:
            if self._app.turns.is_busy or not was_busy:  # what asks may have been stopped meanwhile
                self._app.push_screen(ReviewScreen(review))

        self._when_nobody_types(ask)

    def _when_nobody_types(self, act: Callable[[], object]) -> None:
        """Act, but not before the user has stopped to type: what comes up would take the keys for its own."""
        if self._app.composer.still_s > _STILL_S:
            act()
            return

        def look() -> None:
            if self._app.composer.still_s > _STILL_S:
                timer.stop()
                act()

        timer = self._app.set_interval(_STILL_S / 5, look)

    def run_shell(self, command: str) -> None:
        """Run a command of the user's and show what it prints."""
        if not command:
            self._app.show_error(UsageError("there is no command", "such as: !git status"))
            return
        entry = StepEntry(f"! {command}")
        self._app.say(entry)
        cancelled, ended = threading.Event(), threading.Event()
        self._commands[cancelled] = ended

        def run() -> CheckOutcome:
            try:
                return self._app.conversation.run_shell(command, cancelled)
            finally:
                self._commands.pop(cancelled)
                ended.set()

        def show(outcome: CheckOutcome) -> None:
            said = f"{outcome.summary} ({outcome.confinement or 'not confined'}, {outcome.duration_ms / 1000:.1f} s)"
            entry.finish(said, outcome.output, is_error=not outcome.passed)
            entry.toggle()
            self._app.transcript.changed(entry)
            self._app.loader.gather_names()

        def fail(error: BaseException) -> None:
            entry.finish("not run", "", is_error=True)
            self._app.transcript.changed(entry)
            self._app.show_error(error)

        run_aside(self._app, run, show, fail)

    def stop_commands(self) -> bool:
        """Stop the commands of the user's that run; False if none does."""
        running = tuple(self._commands)
        for cancelled in running:
            cancelled.set()
        return bool(running)

    def end_commands(self) -> None:
        """Stop the commands of the user's that run, and wait a moment at most until they have ended. Any thread."""
        running = tuple(self._commands.values())
        self.stop_commands()
        for ended in running:
            ended.wait(_END_S)

    def _take_chosen_model(self, name: str | None) -> None:
        if name is not None and name != self._app.status.status.model:
            self._take_model(name)

    def _take_model(self, name: str) -> None:
        def take(model: Model) -> None:
            if self._app.turns.is_busy:
                self._app.say(NoteEntry("another model has to wait for the end of the answer: stop it, or wait"))
                return
            self._app.turns.serve_with(None)
            self._app.status.change(model=model.name, activity=f"loading {model.name}")
            self._app.loader.load(name)

        # What is not there takes the place of nothing.
        self.later(lambda: find(name), take)

    def _choose_session(self) -> None:
        self.later(self._app.conversation.sessions, self._show_sessions)

    def _show_sessions(self, sessions: tuple[SessionInfo, ...]) -> None:
        now = datetime.now(UTC)
        current = self._app.conversation.history.session_id
        choices = [
            Choice(
                info.session_id,
                info.title,
                f"{describe_age(info.changed, now)}, {counted(info.turns, 'turn')}"
                f"{', this one' * (info.session_id == current)}",
            )
            for info in sessions
        ]
        if not choices:
            self._say("There are no conversations about this repository yet.")
            return

        def resume(session: str | None) -> None:
            if session is not None and session != current:
                self._app.run_command(f"/resume {session}")

        self._app.push_screen(Picker("Conversations about this repository", choices), resume)

    def theme_names(self) -> list[str]:
        """Return the themes that can be chosen, Khepri's own first."""
        names = [each for each in sorted(self._app.available_themes) if "ansi" not in each]
        return sorted(names, key=lambda each: not each.startswith("khepri"))

    def _choose_theme(self, name: str) -> None:
        names = self.theme_names()
        if name:
            self._take_theme(next((each for each in names if each in (name, f"khepri-{name}")), None), name)
            return
        choices = [Choice(each, each, "in use" if each == self._app.theme else "") for each in names]
        self._app.push_screen(Picker("Themes", choices), lambda chosen: self._take_theme(chosen, ""))

    def _take_theme(self, theme: str | None, asked_for: str) -> None:
        if theme is None:
            if asked_for:
                self._say(f"There is no theme `{asked_for}`; see them all with `/theme`.")
            return
        self._app.theme = theme
        file = paths.theme_file()
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file.write_text(f"{theme}\n", encoding="utf-8")

    def _show_stats(self) -> None:
        finished = [turn.finished for turn in self._app.conversation.history.turns if turn.finished is not None]
        if not finished:
            self._say("Nothing has been answered yet.")
            return
        from khepri.tui.screens.stats import Stats

        self._app.push_screen(Stats(finished))

    def _check_machine(self) -> None:
        self._say("Checking the machine …")
        self.later(self._app.start.check_machine, lambda text: self._say(fenced(text)))

    def _keys_text(self) -> str:
        rows = [
            f"| `{binding.key_display or binding.key}` | {binding.description} | `{binding.id}` |"
            for binding in self._app.known_bindings()
        ]
        head = ["| key | what it does | name in keys.toml |", "|---|---|---|"]
        note = f'Change keys in `{paths.keys_file()}`, a line each: `"composer.newline" = "ctrl+n"`.'
        return "\n".join([*head, *rows, "", note])

    def _say(self, text: str) -> None:
        self._app.say(MarkdownEntry(text))

    def later(self, work: Callable[[], T], then: Callable[[T], None]) -> None:
        """Do something that takes a while on a thread, and go on with what came of it."""
        run_aside(self._app, work, then, self._app.show_error)
