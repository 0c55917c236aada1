"""``khepri ask``: one question, one answer, for people and for scripts."""

import os
import select
import signal
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from khepri import config, egress
from khepri.agent.events import Finished
from khepri.agent.session import Session
from khepri.agent.task import Attachment, Question
from khepri.cli import exits, interrupts
from khepri.cli.render import Renderer, json_renderer, stream_json_renderer, text_renderer
from khepri.config import Value
from khepri.errors import ToolError, UsageError
from khepri.models.catalogue import DEFAULT_DRAFT
from khepri.models.stores import Model, default_model, find
from khepri.repo.root import Repository
from khepri.repo.text import decode, printable, read_text

_PATIENCE_S = 1.0
_MOST_BYTES = 2_000_000
_PART = "pass the part that matters: sed -n 1,200p FILE | khepri ask …"


class Output(StrEnum):
    """How the answer is printed."""

    TEXT = "text"
    JSON = "json"
    STREAM_JSON = "stream-json"


def run(
    question: str | None,
    files: Sequence[Path],
    flags: Mapping[str, Value],
    cwd: Path,
    output: Output,
    *,
    use_tools: bool,
) -> int:
    """Answer ``question`` and return the exit code.

    An error is also an object on stdout when JSON was asked for, so that a script has one thing to read.
    """
    renderer = _renderer(output)
    try:
        return _answer(question, files, flags, cwd, renderer, use_tools=use_tools)
    except BrokenPipeError:
        raise
    except (Exception, KeyboardInterrupt) as error:
        renderer.fail(error)
        raise


def _renderer(output: Output) -> Renderer:
    match output:
        case Output.JSON:
            return json_renderer()
        case Output.STREAM_JSON:
            return stream_json_renderer()
        case Output.TEXT:
            return text_renderer()


def _answer(
    question: str | None,
    files: Sequence[Path],
    flags: Mapping[str, Value],
    cwd: Path,
    renderer: Renderer,
    *,
    use_tools: bool,
) -> int:
    with interrupts.admitted():
        repository = Repository.open(cwd)
        settings = config.load(repository.root, flags, os.environ).config
        if settings.network_lock is config.NetworkLock.REQUIRED:
            egress.require_strong(egress.lock())
        asked = _compose(question, [_attach(cwd, file) for file in files], _standard_input(question))
        model = _model(settings.model)
        draft_model = draft_model_of(settings)
    with Session(repository, settings, model, draft_model=draft_model, use_tools=use_tools) as session:
        interrupts.admit()
        task = session.submit(asked)
        try:
            with _interrupt_calls(task.cancel):
                for event in task.events():
                    renderer.handle(event)
        except BrokenPipeError:
            task.cancel()
            raise
        finally:
            renderer.close()
    if renderer.finished is not None and renderer.finished.stop_reason == "interrupted":
        exits.say(KeyboardInterrupt())
    return _exit_code(renderer.finished)


@contextmanager
def _interrupt_calls(cancel: Callable[[], None]) -> Iterator[None]:
    """Let the first interrupt end the task in good order, so that no piece of the answer is lost; a second one cuts."""

    def stop(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        cancel()

    before = signal.signal(signal.SIGINT, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def draft_model_of(settings: config.Config) -> Model | None:
    """Return the smaller model that the settings ask for, or None if they ask for none.

    Raises:
        NoModelError: It is not on this machine.
        ModelFileError: It is damaged or truncated.
    """
    if settings.draft not in (config.Draft.MODEL, config.Draft.ALL):
        return None
    return find(settings.draft_model or DEFAULT_DRAFT.name)


def _model(name: str) -> Model:
    return find(name) if name else default_model()


def _exit_code(finished: Finished | None) -> int:
    return exits.INTERRUPTED if finished is None or finished.stop_reason == "interrupted" else exits.ANSWERED


def _compose(question: str | None, attachments: list[Attachment], piped: str) -> Question:
    """Put the parts together: text on stdin is the question when there is no other, and its material otherwise."""
    text = printable(question or "").strip()
    if text == "-":
        text = ""
    if not text:
        text, piped = piped.strip(), ""
    if not text:
        raise UsageError("there is no question", 'ask one: khepri ask "Where is the retry logic?"')
    if piped.strip():
        attachments = [*attachments, Attachment("stdin", piped)]
    return Question(text, tuple(attachments))


def _attach(cwd: Path, file: Path) -> Attachment:
    """Read a file that the user named, wherever it lies: naming it is the permission."""
    # Not Path.resolve, which gives up on a loop of links with an error of its own before Python 3.13.
    path = Path(os.path.realpath((cwd / file).expanduser()))
    try:
        content = read_text(path)
    except ToolError as error:
        raise UsageError(f"--file {file}: {error.message}", "name a text file") from error
    if content.is_cut:
        raise UsageError(
            f"--file {file}: {content.size_bytes / 1e6:.0f} MB is more than any context holds",
            _PART,
        )
    return Attachment(printable(str(file)), content.text)


def _standard_input(question: str | None) -> str:
    """Return what is piped in; empty on a terminal, and where there is nothing to read from.

    Raises:
        UsageError: It is not text.
    """
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return ""
    is_asked_for = question in (None, "", "-")
    if os.isatty(0) and not is_asked_for:
        return ""
    if not is_asked_for and not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)):
        return ""
    _say_if_waiting()
    data = sys.stdin.buffer.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise UsageError(f"standard input has more than {_MOST_BYTES / 1e6:.0f} MB: no context holds that", _PART)
    try:
        return decode(data).text if data else ""
    except ToolError as error:
        raise UsageError(f"standard input is not text: {error.message}", "pipe text in") from error


def _say_if_waiting() -> None:
    ready, _, _ = select.select([0], [], [], _PATIENCE_S)
    if not ready:
        how = "end it with Ctrl-D" if os.isatty(0) else "close it with < /dev/null if there is none"
        print(f"khepri: reading standard input; {how}", file=sys.stderr)
