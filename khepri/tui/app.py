"""The app: composes the screen, routes what the user does, and begins and ends the rest.

What is drawn where belongs to the widgets, what a turn is to ``turns``, how events are shown to ``pump``.
"""

import asyncio
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Footer

from khepri.agent.task import Attachment, Question
from khepri.agent.words import describe_error
from khepri.tui import themes
from khepri.tui.driver import TerminalDriver
from khepri.tui.entries import NoteEntry, UserEntry
from khepri.tui.paint import Tone
from khepri.tui.pump import Pump
from khepri.tui.turns import Turns
from khepri.tui.widgets.composer import Composer, Paste
from khepri.tui.widgets.status_bar import Status, StatusBar
from khepri.tui.widgets.transcript import Transcript

if TYPE_CHECKING:
    from khepri.agent.session import Session

_FRAME_S: Final = 1 / 30
_SECOND_PRESS_S: Final = 2.0
_TERMINATED: Final = 143
_HUNG_UP: Final = 129


@dataclass(frozen=True)
class Start:
    """What the app begins with."""

    open_session: Callable[[], "Session"]
    """Makes the session; called on a thread, because it loads libraries."""
    model: str
    """Name of the model."""
    context_tokens: int
    """Tokens that the context will hold."""
    network: str
    """How the network is locked, in two words."""
    branch: str
    """The branch of the repository; empty where there is none."""


class KhepriApp(App[int]):
    """A conversation about one repository on a whole terminal."""

    TITLE = "Khepri"
    ENABLE_COMMAND_PALETTE = False
    CSS_PATH: ClassVar = [
        "app.tcss",
        "widgets/transcript.tcss",
        "widgets/composer.tcss",
        "widgets/status_bar.tcss",
    ]
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "Stop", id="app.interrupt", priority=True),
        Binding("escape", "stop", "Stop", id="app.stop", show=False),
        Binding("ctrl+d,ctrl+q", "quit", "Quit", id="app.quit", priority=True, show=False),
        Binding("ctrl+z", "suspend_process", "Suspend", id="app.suspend", priority=True, show=False),
        Binding("ctrl+o", "toggle_last", "Open step", id="app.toggle_last"),
        Binding("pageup", "scroll_back", "Page up", id="app.page_up", priority=True, show=False),
        Binding("pagedown", "scroll_on", "Page down", id="app.page_down", priority=True, show=False),
    ]

    class SessionOpened(Message):
        """The session is there; its model may still be loading."""

        def __init__(self, session: "Session") -> None:
            super().__init__()
            self.session = session

    class ModelReady(Message):
        """The model has been loaded."""

    class SessionFailed(Message):
        """There will be no session, or no model in it."""

        def __init__(self, error: BaseException) -> None:
            super().__init__()
            self.error = error

    def __init__(self, start: Start) -> None:
        super().__init__(driver_class=TerminalDriver)
        self._start = start
        self.session: Session | None = None
        self._turns = Turns()
        self._pump: Pump | None = None
        self._frames: Timer | None = None
        self._interrupted_s = -_SECOND_PRESS_S
        for theme in themes.themes():
            self.register_theme(theme)
        self.theme = themes.DARK

    def compose(self) -> ComposeResult:
        """Lay the screen out."""
        yield Transcript(themes.look_of(self.current_theme))
        yield Composer()
        yield StatusBar()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Begin: the first frame first, everything that takes time after it."""
        start = self._start
        status = self.query_one(StatusBar)
        status.status = Status(
            model=start.model,
            context_limit=start.context_tokens,
            network=start.network,
            branch=start.branch,
            activity=f"loading {start.model}",
        )
        self._pump = Pump(self.query_one(Transcript), status)
        self._frames = self.set_interval(_FRAME_S, self._frame, pause=True)
        self.query_one(Composer).focus()
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, self.exit, _TERMINATED)
        loop.add_signal_handler(signal.SIGHUP, self.exit, _HUNG_UP)
        loop.add_signal_handler(signal.SIGINT, self.action_interrupt)
        self.call_after_refresh(self._load)

    @work(thread=True, exit_on_error=False)
    def _load(self) -> None:
        """Open the session and wait for its model; on a thread, since it loads libraries."""
        try:
            session = self._start.open_session()
            self.post_message(self.SessionOpened(session))
            session.wait_loaded()
            self.post_message(self.ModelReady())
        except Exception as error:  # whatever it was, the user reads it in the app
            self.post_message(self.SessionFailed(error))

    def on_khepri_app_session_opened(self, message: SessionOpened) -> None:
        """Let questions begin."""
        self.session = message.session
        self._turns.serve_with(message.session.submit)
        self._begin_next()

    def on_khepri_app_model_ready(self) -> None:
        """Say that nothing is awaited any more."""
        if not self._turns.is_busy:
            self.query_one(StatusBar).change(activity="")

    def on_khepri_app_session_failed(self, message: SessionFailed) -> None:
        """Say what went wrong."""
        words, hint = describe_error(message.error)
        self.query_one(Transcript).add(NoteEntry(f"{words}\n{hint}" if hint else words, Tone.ERROR))
        self.query_one(StatusBar).change(activity="no model")

    def on_composer_sent(self, message: Composer.Sent) -> None:
        """Ask, now or when what was asked before is answered."""
        self._turns.ask(_question(message.text, message.pastes))
        self._begin_next()

    def on_transcript_copied(self, message: Transcript.Copied) -> None:
        """Put text into the clipboard, over SSH as well."""
        if message.text:
            self.copy_to_clipboard(message.text)
            self.notify(f"copied {message.what}: {len(message.text):,} characters")

    def action_interrupt(self) -> None:
        """Stop what runs; copy what is selected; clear what is written; a second press leaves."""
        composer = self.query_one(Composer)
        now_s = time.monotonic()
        if now_s - self._interrupted_s < _SECOND_PRESS_S:
            self.exit(0)
            return
        selected = self.screen.get_selected_text() or composer.selected_text
        if selected:
            self.copy_to_clipboard(selected)
            self.screen.clear_selection()
            self.notify(f"copied {len(selected):,} characters")
            return
        self._interrupted_s = now_s
        if self._stop():
            return
        if composer.text:
            composer.take()
        self.notify("press Ctrl-C again to leave", timeout=_SECOND_PRESS_S)

    def action_stop(self) -> None:
        """Stop what runs."""
        self._stop()

    def action_toggle_last(self) -> None:
        """Open or close the last step."""
        self.query_one(Transcript).toggle_last()

    def action_scroll_back(self) -> None:
        """Scroll the conversation one page up."""
        self.query_one(Transcript).scroll_page_up(animate=False)

    def action_scroll_on(self) -> None:
        """Scroll the conversation one page down."""
        self.query_one(Transcript).scroll_page_down(animate=False)

    def _stop(self) -> bool:
        """Stop what runs and give the waiting messages back; False if nothing ran."""
        waiting = self._turns.take_back()
        if waiting:
            self.query_one(Composer).put("\n".join(question.text for question in waiting))
            self.query_one(StatusBar).change(queued=0)
        return self._turns.stop()

    def _begin_next(self) -> None:
        question = self._turns.begin_next()
        if question is not None:
            self.query_one(Transcript).add(UserEntry(question.text))
            assert self._frames is not None
            self._frames.resume()
        self.query_one(StatusBar).change(queued=len(self._turns.waiting))

    def _frame(self) -> None:
        """Show what has happened since the last frame."""
        assert self._pump is not None
        assert self._frames is not None
        self._pump.show(self._turns.poll())
        if not self._turns.is_busy:
            self._frames.pause()
            self._begin_next()


def _question(text: str, pastes: tuple[Paste, ...]) -> Question:
    attachments = tuple(Attachment(paste.label.strip("[]"), paste.text) for paste in pastes)
    return Question(text.strip(), attachments)
