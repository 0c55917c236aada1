"""A conversation with a name: its session file, its engine, and the way to other conversations.

The terminal app and the plain loop both stand on this; nothing here is shown. ``open`` imports what is heavy
and is for a thread; everything else is quick and for the thread of whoever shows the conversation, who shows it first:
what runs commands and writes files is imported when it is called.
"""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from khepri import paths
from khepri.agent.enclosures import Enclosures
from khepri.agent.history import History, Turn
from khepri.agent.recording import Recording, SessionInfo, find_session, list_sessions, new_path
from khepri.agent.task import Attachment, Instruction, Question, Task
from khepri.config import Config
from khepri.errors import KhepriError, ModelFileError, NoModelError, RefusedError, ToolError, UsageError
from khepri.repo.root import Repository
from khepri.repo.text import counted

if TYPE_CHECKING:
    from khepri.agent.session import Session
    from khepri.edits.checks import CheckOutcome
    from khepri.models.stores import Model

OpenSession = Callable[[str], "Session"]
"""Opens a session with the model of a name; an empty name means the default."""


class Conversation:
    """One conversation about a repository, and the way to others.

    Args:
        repository: What it is about.
        config: The settings in force.
        open_session: Makes the engine's side of it.
        checks: Returns the commands that check a change without a question.
        session: Id, or the beginning of one, of the session to go on with; None begins anew.
    """

    def __init__(
        self,
        repository: Repository,
        config: Config,
        open_session: OpenSession,
        session: str | None = None,
        checks: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self.repository = repository
        self.config = config
        self.model = config.model
        """Name of the model that was asked for; empty means the default."""
        self._folder = paths.sessions_dir(repository.root)
        self._open_session = open_session
        self._checks = checks
        self._note = ""
        self._session: Session | None = None
        self._lock = threading.Lock()
        self._opening_lock = threading.Lock()
        self._is_closed = False
        self._is_opening = False
        path = new_path(self._folder) if session is None else find_session(self._folder, session)
        self._recording = Recording(path, repository.root, config.model)
        self._enclosures = Enclosures(config.context_tokens, self.history.added)

    @property
    def history(self) -> History:
        """What was said so far."""
        return self._recording.history

    @property
    def problem(self) -> str:
        """Why the session is not written any more; empty while all is well."""
        return self._recording.problem

    @property
    def path(self) -> Path:
        """The session file, which is there once something was asked."""
        return self._recording.path

    @property
    def session(self) -> "Session | None":
        """The engine's side; None until ``open`` is done."""
        return self._session

    def open(self) -> "Session":
        """Open the session with ``model`` and return it; its model loads in the background.

        Where no model was asked for, a conversation from before goes on with its own, if that is still there. Imports
        libraries, which takes a second: call it on a thread. One model is opened at a time: a thread that calls
        meanwhile waits, and all get the session with the model that was asked for last.

        Raises:
            NoModelError: There is no such model.
            ModelFileError: It is damaged.
        """
        with self._opening_lock:
            self._is_opening = True
            try:
                while True:
                    with self._lock:
                        if self._session is not None:
                            return self._session
                        wanted = self.model
                    session = self._open_with_own_model() or self._open_session(wanted)
                    if self._serve_with(session, wanted):
                        return session
            finally:
                self._is_opening = False

    def _serve_with(self, session: "Session", wanted: str) -> bool:
        """Take a session into use; False, with it closed, if another model was asked for while it was opened."""
        with self._lock:
            if not self._is_closed and self.model == wanted:
                self._session = session
                self._tell_model(session.model.name)
                session.go_on_with(self._recording)
                self.read_ahead()
                return True
        session.close()
        return self._is_closed

    def _open_with_own_model(self) -> "Session | None":
        if self.model or not self.history.model or not self.history.turns:
            return None
        try:
            return self._open_session(self.history.model)
        except (NoModelError, ModelFileError):
            return None

    @property
    def is_loading(self) -> bool:
        """True while the model is not there yet, and has not failed either."""
        if self._session is None:
            return self._is_opening
        try:
            return not self._session.wait_loaded(0)
        except KhepriError:
            return False

    @property
    def is_busy(self) -> bool:
        """True while a question is answered, the repository changed, or the conversation summarised."""
        return self._session is not None and self._session.is_busy

    def take_note(self) -> str:
        """Return, once, what the user should know of the model that goes on, or of what it reads; empty if nothing."""
        note, self._note = self._note, ""
        return note

    def unload(self, model: str) -> None:
        """Let go of the engine, so that ``open`` takes another one. It may wait for a pass: call it on a thread.

        Args:
            model: Name of the model that ``open`` shall take.
        """
        with self._lock:
            session, self._session = self._session, None
            self.model = model
        if session is not None:
            session.close()

    def close(self) -> None:
        """Write what is left and free the model. Harmless twice."""
        with self._lock:
            self._is_closed = True
            session, self._session = self._session, None
        if session is not None:
            session.close()
        self._recording.close()

    def read_ahead(self, attachments: tuple[Attachment, ...] = (), mentions: tuple[str, ...] = ()) -> None:
        """Let the model read what comes before the question that is being written; returns at once.

        Args:
            attachments: What was pasted.
            mentions: Files that the text names so far.
        """
        if self._session is not None:
            self._session.prefill_early(self._enclosures.with_question(Question("", attachments, mentions)))

    def refactor(self, text: str) -> Task:
        """Start to change the repository; the change is put before the user as a review.

        Raises:
            UsageError: The model is not there yet, or there is none.
            ConfigError: A permission rule is not sound.
        """
        if self._session is None:
            raise self._no_session()
        return self._session.change(Instruction(text, checks=self._checks()))

    def _no_session(self) -> UsageError:
        if self.is_loading:
            return UsageError("the model is still being loaded", "wait a moment")
        return UsageError("there is no model", "choose one with /model, or fetch one: khepri models pull")

    def run_shell(self, command: str, cancelled: threading.Event | None = None) -> "CheckOutcome":
        """Run a command of the user's as the agent's are run: without network, writing into the repository only.

        What it prints goes to the model with the next question. It takes as long as the command: call it on a thread.

        Args:
            command: As the user wrote it.
            cancelled: Ends it at once when another thread sets it; what it printed so far counts.

        Raises:
            RefusedError: A rule denies the command.
            ConfigError: A permission rule is not sound.
        """
        from khepri.agent.permission_rules import load_rules
        from khepri.agent.permissions import Permissions, Verdict
        from khepri.edits.checks import run_check

        ruling = Permissions(load_rules(self.repository.root)).command(command)
        if ruling.verdict is Verdict.DENY:
            raise RefusedError(f"{command} is not run: {ruling.reason}", "the rules are in the configuration files")
        recording = self._recording
        outcome = run_check(self.repository, command, self.config.check_seconds, cancelled)
        self.repository.refresh()
        if recording is self._recording:  # else it was printed into another conversation
            self._enclosures.add_output(command, outcome.output)
        return outcome

    def submit(self, question: Question) -> Task:
        """Start a question, with what was added and what commands printed since the last one.

        Raises:
            UsageError: The model is not there yet, or there is none.
        """
        if self._session is None:
            raise self._no_session()
        task = self._session.submit(self._enclosures.with_question(question))
        self._note = self._enclosures.sent() or self._note
        return task

    def compact(self) -> Task:
        """Start to summarise the conversation.

        Raises:
            UsageError: The model is not there yet, or there is none.
        """
        if self._session is None:
            raise self._no_session()
        self._enclosures.show_again(self.history.added)
        return self._session.compact()

    def begin_anew(self) -> None:
        """Begin another conversation; this one can be resumed."""
        self._leave_for(Recording(new_path(self._folder), self.repository.root, self.history.model))

    def resume(self, session: str) -> None:
        """Go on with another conversation.

        Raises:
            UsageError: There is no such session, or it is open in another process.
        """
        path = find_session(self._folder, session)
        if path != self._recording.path:
            self._leave_for(Recording(path, self.repository.root, self.history.model))

    def fork(self) -> None:
        """Go on in a copy; the original stays as it is now.

        Raises:
            UsageError: Nothing has been said yet.
        """
        self._go_on(self._recording.fork(new_path(self._folder)))

    def rewind(self, turns: int) -> Turn:
        """Take the last ``turns`` turns back and return the first of them; what commands printed before it waits again.

        Raises:
            UsageError: There are not so many.
        """
        said = self.history.turns
        if not said:
            raise UsageError("nothing has been said yet, so there is nothing to take back", "ask something first")
        if not 1 <= turns <= len(said):
            raise UsageError(
                f"{counted(len(said), 'turn')} can be taken back", "see them above; /rewind takes the last one"
            )
        kept = len(said) - turns
        first = said[kept]
        self._enclosures.take_back(first)
        self._recording.append("rewind", turns=kept)
        if self._session is not None:
            self._session.go_on_with(self._recording)
        return first

    def sessions(self) -> tuple[SessionInfo, ...]:
        """Return the conversations about this repository, the latest first. Reads all of their files."""
        return list_sessions(self._folder)

    def models(self) -> "tuple[Model, ...]":
        """Return the models on this machine, the one in use among them wherever it lies. Reads their heads.

        Call it on a thread.
        """
        from khepri.models import stores

        found = stores.discover()
        used = self._session.model if self._session is not None else None
        return found if used is None or used.path in [each.path for each in found] else (used, *found)

    def add(self, path: str) -> str:
        """Have a file looked at with the next question, and again after each summary; return its path.

        Raises:
            UsageError: It may not be read, does not exist, or is a folder.
        """
        try:
            real = self.repository.resolve(path)
        except ToolError as error:
            # Its hint is for the model, which has other means.
            raise UsageError(error.message, "paths are taken from the repository's root; Tab completes them") from None
        relative = self.repository.relative(real)
        if real.is_dir():
            raise UsageError(f"{path} is a folder", "add the files that matter, such as: /add src/*.py")
        self._recording.append("added", path=relative)
        self._enclosures.add_file(relative)
        self.read_ahead()
        return relative

    def drop(self, path: str) -> str:
        """Have a file looked at no more; return its path.

        Raises:
            UsageError: It was not added.
        """
        found = [added for added in self.history.added if added == path.strip("/") or added.endswith(f"/{path}")]
        if not found:
            raise UsageError(f"{path} was not added", "see what was: /add")
        self._recording.append("dropped", path=found[0])
        self._enclosures.drop_file(found[0])
        return found[0]

    def _leave_for(self, recording: Recording) -> None:
        self._enclosures.forget_outputs()
        self._go_on(recording)

    def _go_on(self, recording: Recording) -> None:
        self._recording.close()
        self._recording = recording
        self._enclosures.show_again(self.history.added)
        if self._session is not None:
            self._tell_model(self._session.model.name)
            self._session.go_on_with(recording)
            self.read_ahead()

    def _tell_model(self, name: str) -> None:
        """Note whose tokens the prompt consists of; those of another model mean nothing to this one."""
        history = self.history
        if history.turns and history.model != name:
            if history.model:
                self._note = f"this was held with {history.model}; {name} goes on with it, and reads it anew"
            self._recording.append("model", model=name)
        history.model = name
