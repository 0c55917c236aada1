"""``khepri --plain``: the conversation line by line, for screen readers, bare terminals and scripts.

Nothing is ever drawn over: what was printed stays, and each thing is said once. The commands are those of the app.
"""

import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from rich.console import Console

from khepri import config, paths
from khepri.agent import commands
from khepri.agent.commands import Outcome, Wish
from khepri.agent.conversation import Conversation
from khepri.agent.events import (
    AnswerDelta,
    ChangesApplied,
    CheckFinished,
    Compacted,
    Compacting,
    Event,
    Finished,
    ModelLoading,
    Notice,
    PlanMade,
    PrefillProgress,
    ReviewRequested,
    StepFinished,
    ToolFinished,
)
from khepri.agent.listings import commands_text, models_text, sessions_text, stats_text
from khepri.agent.mentioned import mentioned_words
from khepri.agent.task import Question, Task
from khepri.agent.words import (
    describe_call,
    describe_compacted,
    describe_compacting,
    describe_cut,
    describe_end,
    describe_error,
    describe_outcome,
    summarize,
)
from khepri.cli import exits
from khepri.cli.change_input import decide
from khepri.cli.config import as_answer
from khepri.cli.interactive import check_machine, open_conversation
from khepri.cli.spoken import spoken
from khepri.cli.task_input import interrupt_calls
from khepri.config import Loaded, Value
from khepri.errors import CancelledError, KhepriError, UsageError
from khepri.models.stores import find
from khepri.repo.root import Repository
from khepri.repo.text import counted, printable
from khepri.tui.completing import Names, completions, gather_files
from khepri.tui.composer_history import ComposerHistory
from khepri.tui.pastes import attachments_of, missing_pastes
from khepri.tui.terminal_guard import guarded_terminal

_PROMPT: Final = "\nyou> "
_LEAVES: Final = "Press Ctrl-C again to leave."
_PROGRESS_S: Final = 10.0
_LEAST_PROGRESS_S: Final = 2.0


def run(cwd: Path, flags: Mapping[str, Value], session: str | None, environ: Mapping[str, str]) -> int:
    """Talk until the user leaves, and return the exit code.

    Raises:
        UsageError: There is no such session.
        NoModelError: There is no model.
        ConfigError: A source of the configuration cannot be used.
    """
    repository = Repository.open(cwd)
    loaded = config.load(repository.root, flags, environ)
    conversation = open_conversation(repository, loaded, session)
    try:
        conversation.open()
        _say("Khepri, line by line. /help shows the commands, Ctrl-C stops an answer, Ctrl-D or Ctrl-C twice leaves.")
        with guarded_terminal(has_screen=False):
            _Talk(conversation, loaded).run()
    finally:
        conversation.close()
    if conversation.history.turns:
        print(f"khepri: go on with: khepri --plain --resume {conversation.history.session_id}", file=sys.stderr)
    return exits.ANSWERED


class _Talk:
    """One sitting: reads lines, runs them, prints what happens."""

    def __init__(self, conversation: Conversation, loaded: Loaded) -> None:
        self._conversation = conversation
        self._loaded = loaded
        self._has_quit = False
        self._was_interrupted = False
        self._history = ComposerHistory(paths.composer_history_file())

    def run(self) -> None:
        """Read and answer until the user leaves."""
        _prepare_readline(self._conversation.repository, self._history)
        if self._conversation.history.turns:
            self._retell()
            self._say_note()
        while not self._has_quit:
            try:
                line = _read()
                self._was_interrupted = False
                self._obey(line)
            except EOFError:
                return
            except KeyboardInterrupt:
                if self._was_interrupted:
                    _say("")
                    return
                # Without the app's clock: whom a program reads to hears of it seconds later.
                self._was_interrupted = True
                _say(f"\n{_LEAVES}")

    def _obey(self, line: str) -> None:
        if not line.strip():
            return
        if sys.stdin.isatty():
            self._history.add(line.strip())
        try:
            self._take(line)
        except (KhepriError, OSError) as error:
            _say_error(error)
        if self._was_interrupted:
            _say(_LEAVES)

    def _note_interrupt(self) -> None:
        """Take the first interrupt as one that stops what runs.

        Raises:
            KeyboardInterrupt: It is the second one.
        """
        if self._was_interrupted:
            raise KeyboardInterrupt
        self._was_interrupted = True

    def _take(self, line: str) -> None:
        if commands.is_command(line):
            outcome = commands.run_command(self._conversation, line)
            self._fulfil(outcome)
            if outcome.task is not None:
                self._follow(outcome.task)
            return
        if line.startswith("!"):
            if not line[1:].strip():
                raise UsageError("there is no command", "such as: !git status")
            cancelled = threading.Event()

            def stop_command() -> None:
                self._note_interrupt()
                cancelled.set()

            with interrupt_calls(stop_command):
                ran = self._conversation.run_shell(line[1:].strip(), cancelled)
            if cancelled.is_set() and _shows_interrupts():
                _say("")
            _say(f"{ran.output.rstrip()}\n{ran.summary}")
            return
        pastes = self._history.pastes_in(line)
        missing = missing_pastes(line, pastes)
        if missing:
            raise UsageError(f"the text of {' and '.join(missing)} is not kept", "paste it again; nothing was sent")
        task = self._conversation.submit(Question(line, attachments_of(pastes), mentioned_words(line)))
        self._say_note()
        self._follow(task)
        if self._conversation.problem:
            _say(f"warning: {self._conversation.problem}")

    def _follow(self, task: Task) -> None:
        """Print what happens until the task ends; Ctrl-C stops it."""

        def stop() -> None:
            self._note_interrupt()
            printer.is_within_line |= _shows_interrupts()
            task.cancel()

        printer = _Printer(stop)
        with interrupt_calls(stop):
            try:
                for event in task.events():
                    printer.handle(event)
            except CancelledError:
                printer.end_line()
                _say("stopped")
            except KhepriError as error:
                printer.end_line()
                _say_error(error)

    def _fulfil(self, outcome: Outcome) -> None:
        match outcome.wish:
            case Wish.QUIT:
                self._has_quit = True
            case Wish.HELP:
                _say(spoken(commands_text()))
            case Wish.STATS:
                finished = [turn.finished for turn in self._conversation.history.turns if turn.finished is not None]
                _say(spoken(stats_text(finished)))
            case Wish.THEME:
                _say("Themes belong to the app; here the terminal's own colours hold.")
            case Wish.SESSIONS:
                _say(spoken(sessions_text(self._conversation.sessions(), datetime.now(UTC))))
            case Wish.MODELS:
                session = self._conversation.session
                _say(
                    spoken(models_text(self._conversation.models(), session.model.name if session is not None else ""))
                )
            case Wish.MODEL:
                find(outcome.argument)  # what is not there takes the place of nothing
                self._conversation.unload(outcome.argument)
                _say(f"The model is now {self._conversation.open().model.name}.")
            case Wish.CONFIG:
                _say(as_answer(self._loaded))
            case Wish.DOCTOR:
                _say(check_machine(self._conversation))
            case Wish.REDRAW:
                self._retell()
                if outcome.argument:
                    _say(f"The question was: {outcome.argument}")
            case None:
                pass
        if outcome.text:
            _say(spoken(outcome.text))
        self._say_note()

    def _say_note(self) -> None:
        note = self._conversation.take_note()
        if note:
            _say(f"note: {note}")

    def _retell(self) -> None:
        for turn in self._conversation.history.turns:
            work = "\n".join(f"{work.title}: {work.outcome}" for work in turn.work)
            told = turn.answer or turn.failure or work or "(no answer)"
            _say(f"you> {turn.asked}\n\n{told}")
            if turn.ending:
                _say(turn.ending)


class _Printer:
    """Prints the events of one task, each thing once.

    Args:
        stop: Called when the user interrupts a review, which ends the task.
    """

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._said_s = 0.0
        self.is_within_line = False
        """True if something stands on the last line."""

    def handle(self, event: Event) -> None:
        """Print one event, if there is something to say about it."""
        match event:
            case ModelLoading(model, doing):
                self._say(f"{doing} {model}")
            case PrefillProgress() if event.done_tokens < event.total_tokens:
                self._say_progress(event)
            case ToolFinished(tool=tool, arguments=arguments):
                self._say(f"step: {describe_call(tool, arguments)}: {describe_outcome(event)}")
            case Notice(text):
                self._say(f"note: {text}")
            case Compacting():
                self._say(describe_compacting(event))
            case Compacted():
                self._say(f"{describe_compacted(event)}:\n{event.summary.rstrip()}")
            case AnswerDelta(text):
                self._write(printable(text))
            case PlanMade(steps):
                self._say("\n".join(["plan:", *(f"  {number}. {step}" for number, step in enumerate(steps, 1))]))
            case StepFinished(number, total, text):
                self._say(f"step {number} of {total}: {text}")
            case ReviewRequested(review):
                self.end_line()
                decision = decide(review.changes, Console(stderr=True), self._stop)
                if decision is not None:
                    review.answer(decision)
            case ChangesApplied(_, changes):
                self._say(f"wrote {counted(len(changes.files), 'file')}; /undo takes it back")
            case CheckFinished(command, _, summary, output):
                self._say(f"{command}: {summary}\n{output}")
            case Finished(stop_reason="compacted"):
                pass
            case Finished():
                self.end_line()
                ended = describe_cut(event.stop_reason) if event.report is None else describe_end(event.report.outcome)
                if ended:
                    self._say(ended)
                self._say(summarize(event))
            case _:
                pass

    def _say_progress(self, event: PrefillProgress) -> None:
        now_s = time.monotonic()
        left = event.total_tokens - event.done_tokens
        if left > _LEAST_PROGRESS_S * event.tokens_per_s > 0 and now_s - self._said_s > _PROGRESS_S:
            self._said_s = now_s
            self._say(f"reading {left:,} tokens, about {left / event.tokens_per_s:.0f} seconds")

    def end_line(self) -> None:
        """Let what comes next begin a line."""
        if self.is_within_line:
            self._write("\n")

    def _say(self, text: str) -> None:
        self.end_line()
        _say(text)

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()
        self.is_within_line = not text.endswith("\n") if text else self.is_within_line


def _shows_interrupts() -> bool:
    """True if the terminal writes ``^C`` where the cursor is."""
    return sys.stdin.isatty()


def _prepare_readline(repository: Repository, history: ComposerHistory) -> None:
    """Make lines editable, recall earlier ones and complete commands and files, where the terminal allows it."""
    with suppress(ImportError):
        import readline

        names = Names()

        def complete(text: str, state: int) -> str | None:
            nonlocal names
            if state == 0 and text.startswith("@"):
                names = gather_files(repository)
            _, found = completions(text, names)
            return found[state].insert if state < len(found) else None

        for message in history.messages:
            readline.add_history(message)
        readline.set_completer_delims(" ")
        readline.set_completer(complete)
        readline.parse_and_bind("tab: complete")
        # Else each line of what is pasted would be a message of its own.
        readline.parse_and_bind("set enable-bracketed-paste on")


def _read() -> str:
    """Read a message; a backslash at the end of a line asks for another one."""
    line = input(_PROMPT)
    while line.endswith("\\"):
        line = f"{line[:-1]}\n{input('...> ')}"
    return line


def _say(text: str) -> None:
    print(printable(text), flush=True)


def _say_error(error: BaseException) -> None:
    message, hint = describe_error(error)
    _say(f"error: {message}" + (f"\n  {hint}" if hint else ""))
