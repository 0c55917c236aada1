"""The app: composes the screen, routes what the user does, and begins and ends the rest.

What is drawn where belongs to the widgets, what a turn is to ``turns``, how events are shown to ``pump``, what
comes late to ``loading``, what a command needs of the screen to ``wishes``, and the terminal itself to
``terminal_app``.
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Final

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widgets import Footer

from khepri import paths
from khepri.agent import commands
from khepri.agent.mentioned import known_names, mentioned_words
from khepri.agent.task import Attachment, Question
from khepri.agent.words import describe_error
from khepri.errors import KhepriError
from khepri.repo.text import counted
from khepri.tui import themes
from khepri.tui.code import Lexers
from khepri.tui.completing import completions
from khepri.tui.composer_history import ComposerHistory
from khepri.tui.editor import edit_in_editor
from khepri.tui.entries import Entry, NoteEntry, UserEntry, entries_of
from khepri.tui.keys import check_names
from khepri.tui.loading import Loader
from khepri.tui.paint import Look, Tone
from khepri.tui.pastes import Paste, attachments_of, pastes_of
from khepri.tui.pump import Pump
from khepri.tui.screens.picker import Picker
from khepri.tui.start import Start
from khepri.tui.terminal_app import TerminalApp
from khepri.tui.turns import Turns
from khepri.tui.widgets.completion import Completion
from khepri.tui.widgets.composer import Composer
from khepri.tui.widgets.status_bar import Status, StatusBar
from khepri.tui.widgets.transcript import Transcript
from khepri.tui.wishes import Wishes

_FOLDER: Final = Path(__file__).parent
_FRAME_S: Final = 1 / 30
_REST: Final = 4
"""A frame that takes long is followed by the next one after so many times as long: keys and the model come between."""
_SECOND_PRESS_S: Final = 2.0


class KhepriApp(TerminalApp):
    """A conversation about one repository on a whole terminal."""

    TITLE = "Khepri"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH: ClassVar = [
        _FOLDER / "app.tcss",
        *sorted(_FOLDER.glob("screens/*.tcss")),
        *sorted(_FOLDER.glob("widgets/*.tcss")),
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "Stop", id="app.interrupt", priority=True),
        Binding("escape", "stop", "Stop", id="app.stop", show=False),
        Binding("ctrl+q,ctrl+d", "leave", "Quit", id="app.quit", priority=True, show=False),
        Binding("ctrl+z", "suspend_process", "Suspend", id="app.suspend", priority=True, show=False),
        Binding("ctrl+o", "toggle_last", "Open step", id="app.toggle_last"),
        Binding("f1", "help", "Help", id="app.help"),
        Binding("pageup", "scroll_back", "Page up", id="app.page_up", priority=True, show=False),
        Binding("pagedown", "scroll_on", "Page down", id="app.page_down", priority=True, show=False),
    ]

    def __init__(self, start: Start) -> None:
        super().__init__()
        self.start = start
        self.conversation = start.conversation
        self.turns = Turns()
        self.lexers = Lexers()
        self.loader = Loader(self)
        self._wishes = Wishes(self)
        self._names_are_old = False
        self._pump: Pump | None = None
        self._frames: Timer | None = None
        self._draft: tuple[tuple[Attachment, ...], tuple[str, ...]] = ((), ())
        self._interrupted_s = -_SECOND_PRESS_S
        self._rests_until_s = 0.0
        for theme in themes.themes():
            self.register_theme(theme)
        self.theme = start.theme if start.theme in self.available_themes else themes.DARK
        if start.keys:
            known = (binding.id for binding in self.known_bindings())
            check_names(start.keys, frozenset(filter(None, known)), paths.keys_file())
        self.set_keymap(start.keys)

    @property
    def transcript(self) -> Transcript:
        """The conversation on the screen."""
        return self.screen_stack[0].query_one(Transcript)

    @property
    def composer(self) -> Composer:
        """Where the user writes."""
        return self.screen_stack[0].query_one(Composer)

    @property
    def status(self) -> StatusBar:
        """The status line."""
        return self.screen_stack[0].query_one(StatusBar)

    def get_css_variables(self) -> dict[str, str]:
        """Return the colours of the theme, those that could not be read made so."""
        return themes.legible_variables(super().get_css_variables())

    def _look(self) -> Look:
        return themes.look_of(self.current_theme, self.lexers)

    def compose(self) -> ComposeResult:
        """Lay the screen out."""
        yield Transcript(self._look())
        completion = Completion()
        yield completion
        yield Composer(completion, ComposerHistory(paths.composer_history_file()))
        yield StatusBar()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Begin: the first frame first, everything that takes time after it."""
        start = self.start
        self.status.status = Status(
            model=self.conversation.model or self.conversation.history.model or "default model",
            context_limit=self.conversation.config.context_tokens,
            network=start.network,
            activity="loading the model",
        )
        self._pump = Pump(self.transcript, self.status, self._wishes.ask_about)
        self._frames = self.set_interval(_FRAME_S, self._frame, pause=True)
        self.composer.focus()
        self.theme_changed_signal.subscribe(self, lambda _: self.transcript.set_look(self._look()))
        self.answer_signals()
        self.redraw()
        self.call_after_refresh(start.drawn)
        self.call_after_refresh(self.loader.load)
        self.call_after_refresh(self.loader.gather_names)
        if start.choose_session:
            self.call_after_refresh(self.run_command, "/sessions")

    async def on_event(self, event: events.Event) -> None:
        """Take what the terminal sends. What is typed or pasted is for the composer, wherever the focus is."""
        for each in self.as_pressed(event):
            # Here, before anything is handed on: a key after it must not overtake it on the way to the composer.
            if isinstance(each, events.Key | events.Paste) and not each.is_forwarded and self._is_for_composer(each):
                self.screen.set_focus(self.composer)
            await super().on_event(each)

    def _is_for_composer(self, event: events.Key | events.Paste) -> bool:
        """True if nothing that has the focus knows what to do with it."""
        if len(self.screen_stack) > 1 or self.focused is self.composer:
            return False
        return isinstance(event, events.Paste) or event.key not in self.screen.active_bindings

    def begin_to_serve(self) -> None:
        """Let questions begin: the session is there, though its model may still be loading."""
        self.turns.serve_with(self.conversation.submit)
        self._say_note()
        self._read_ahead()
        self._begin_next()

    def say_no_model(self) -> None:
        """Say why no question can be answered and what to do."""
        self._wishes.say_no_model(self.loader.problem)

    def on_composer_written(self, message: Composer.Written) -> None:
        """Offer what could be meant, and let the model read the files that are named while the user still writes."""
        if not self.screen_stack:  # the app has ended meanwhile
            return
        themes_by_word = (name.removeprefix("khepri-") for name in self._wishes.theme_names())
        arguments = self.loader.names.arguments(self.conversation.history.added, themes_by_word)
        replaced, candidates = completions(message.before_cursor, self.loader.names, arguments)
        self.composer.offer(message, candidates, replaced)
        self.loader.follow_naming(message.before_cursor)
        self._read_ahead()

    def on_completion_picked(self, message: Completion.Picked) -> None:
        """Put what was clicked on."""
        self.composer.accept(message.candidate)
        self.composer.focus()

    def on_composer_sent(self, message: Composer.Sent) -> None:
        """Run a command, or ask: now, or when what was asked before is answered."""
        if commands.is_command(message.text) and not message.pastes:
            self.run_command(message.text)
            return
        if message.text.startswith("!"):
            self._wishes.run_shell(message.text[1:].strip())
            return
        self.ask(message.text, message.pastes)

    def on_composer_editor_wanted(self) -> None:
        """Let the user write in an editor of his own."""
        try:
            with self.suspend():
                written = edit_in_editor(self.composer.text)
        except KhepriError as error:
            self.show_error(error)
            return
        self.composer.put(written)

    def on_transcript_left(self) -> None:
        """Let the user write again."""
        self.composer.focus()

    def on_transcript_copied(self, message: Transcript.Copied) -> None:
        """Put text into the clipboard, over SSH as well."""
        self.copy_to_clipboard(message.text)
        self.notify(f"copied {message.what}: {counted(len(message.text), 'character')}")

    def ask(self, text: str, pastes: tuple[Paste, ...] = ()) -> None:
        """Put a question at the end of the line."""
        self._draft = ((), ())
        self.turns.ask(Question(text.strip(), attachments_of(pastes), mentioned_words(text)))
        self._begin_next()
        if self.loader.problem:
            self.say_no_model()

    def _read_ahead(self) -> None:
        """Let the model read what the message so far brings along, unless that is what it read last."""
        text, pastes = self.composer.draft
        draft = (attachments_of(pastes), known_names(text, self.loader.names.files))
        if draft != self._draft and not self.turns.is_busy and self.conversation.session is not None:
            self._draft = draft
            self.conversation.read_ahead(*draft)

    def redraw(self) -> None:
        """Show the conversation from its history."""
        self.transcript.show_only(entries_of(self.conversation.history))
        # Speed and cache are those of a turn that may not be there any more.
        self.status.change(context_tokens=self.conversation.history.told_tokens, speed="", cache="")

    def say(self, *entries: Entry) -> None:
        """Show something of Khepri's own."""
        self.transcript.add(*entries)
        self.transcript.action_follow()

    def show_error(self, error: BaseException) -> None:
        """Show what went wrong and what to do."""
        words, hint = describe_error(error)
        self.say(NoteEntry(f"{words}\n{hint}" if hint else words, Tone.ERROR))

    def action_interrupt(self) -> None:
        """Stop what runs; copy what is selected; clear what is written; a second press leaves."""
        now_s = time.monotonic()
        if now_s - self._interrupted_s < _SECOND_PRESS_S:
            self.leave(0)
            return
        if len(self.screen_stack) > 1:
            if self.turns.is_busy:  # a review, which stops with its screen
                self._interrupted_s = now_s
            self.pop_screen()
            return
        selected = self.screen.get_selected_text() or self.composer.selected_text
        if selected:
            self.copy_to_clipboard(selected)
            # What is selected no longer means a copy: the next press stops or leaves.
            self.screen.clear_selection()
            self.composer.move_cursor(self.composer.cursor_location)
            self.notify(f"copied {counted(len(selected), 'character')}")
            return
        self._interrupted_s = now_s
        was_waiting = bool(self.turns.waiting)
        if self._stop():
            return
        if self.composer.text and not was_waiting:
            self.composer.take()
        self.notify("press again to leave", timeout=_SECOND_PRESS_S)

    def action_stop(self) -> None:
        """Stop what runs."""
        self._stop()

    def action_leave(self) -> None:
        """Leave."""
        self.leave(0)

    def leave(self, code: int) -> None:
        """End the app. What is half written is found among the earlier messages next time."""
        self.composer.take()
        self.exit(code)

    def end_work(self) -> None:
        """Stop what still runs when the screen is gone, and wait for the user's commands to end. Any thread."""
        self.turns.stop()
        self._wishes.end_commands()

    def action_help(self) -> None:
        """Show commands and keys."""
        self.run_command("/help")

    def action_toggle_last(self) -> None:
        """Open or close the last step."""
        self.transcript.toggle_last()

    def action_scroll_back(self) -> None:
        """Scroll the conversation one page up."""
        self.transcript.scroll_page_up(animate=False)

    def action_scroll_on(self) -> None:
        """Scroll the conversation one page down."""
        self.transcript.scroll_page_down(animate=False)

    def known_bindings(self) -> list[Binding]:
        """Return the bindings that can be given other keys, with the keys that they have."""
        from khepri.tui.screens.review import Hunks, ReviewScreen
        from khepri.tui.screens.stats import Stats

        kinds = (KhepriApp, Composer, Transcript, Picker, ReviewScreen, Hunks, Stats)
        bindings = [binding for kind in kinds for binding in kind.BINDINGS if isinstance(binding, Binding)]
        return [
            replace(binding, key=self.start.keys.get(binding.id, binding.key))
            for binding in bindings
            if binding.id is not None
        ]

    def run_command(self, text: str) -> None:
        """Run a command."""
        try:
            command, argument = commands.find_command(text, is_busy=self.turns.is_busy)
            if command.is_slow:
                self._wishes.later(lambda: command.run(self.conversation, argument), self._wishes.fulfil)
                return
            outcome = command.run(self.conversation, argument)
        except (KhepriError, OSError) as error:
            self.show_error(error)
            return
        self._wishes.fulfil(outcome)
        self._say_note()
        if outcome.task is not None:
            self.say(UserEntry(text))
            self.turns.watch(outcome.task)
            self._names_are_old = True
            self._follow()

    def _say_note(self) -> None:
        note = self.conversation.take_note()
        if note:
            # It may come late, and whoever has scrolled up by then stays there.
            self.transcript.add(NoteEntry(note))

    def _stop(self) -> bool:
        """Stop what runs and give the waiting messages back; False if nothing ran."""
        waiting = self.turns.take_back()
        if waiting:
            written, pastes = self.composer.draft
            texts = [question.text for question in waiting] + [written] * bool(written)
            for question in waiting:
                pastes += pastes_of(question.attachments)
            self.composer.put("\n".join(texts), pastes)
            self.status.change(queued=0)
        has_stopped_commands = self._wishes.stop_commands()
        return self.turns.stop() or has_stopped_commands

    def _begin_next(self) -> None:
        question = self.turns.begin_next()
        if question is not None:
            self.say(UserEntry(question.text))
            self._say_note()
            self._follow()
        self.status.change(queued=len(self.turns.waiting))

    def _follow(self) -> None:
        """Show what happens in the turn that has begun, without the figures of the one before."""
        assert self._frames is not None
        self._frames.resume()
        self.status.change(speed="", cache="")

    def _frame(self) -> None:
        """Show what has happened since the last frame."""
        assert self._pump is not None
        assert self._frames is not None
        before_s = time.perf_counter()
        if before_s < self._rests_until_s:
            return
        self._pump.show(self.turns.poll())
        took_s = time.perf_counter() - before_s
        self._rests_until_s = before_s + took_s * _REST
        if not self.turns.is_busy:
            self._frames.pause()
            self.status.change(context_tokens=self.conversation.history.told_tokens)
            if self.conversation.problem:
                self.say(NoteEntry(self.conversation.problem, Tone.WARNING))
            self._begin_next()
            self._read_ahead()
            if self._names_are_old:
                self._names_are_old = False
                self.loader.gather_names()
