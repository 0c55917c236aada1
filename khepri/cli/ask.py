"""``khepri ask``: one question, one answer, for people and for scripts."""

import os
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path

from khepri import config, egress
from khepri.agent.events import Finished
from khepri.agent.session import Session
from khepri.agent.task import Attachment, Question
from khepri.cli import exits, interrupts
from khepri.cli.render import Renderer, json_renderer, stream_json_renderer, text_renderer
from khepri.cli.task_input import attach, interrupt_calls, standard_input
from khepri.config import Value
from khepri.errors import UsageError
from khepri.models.catalogue import DEFAULT_DRAFT
from khepri.models.stores import Model, default_model, find
from khepri.repo.root import Repository
from khepri.repo.text import printable


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
    """Answer ``question`` and return the exit code."""
    renderer = _renderer(output)
    try:
        return _answer(question, files, flags, cwd, renderer, use_tools=use_tools)
    except OSError:  # it may be the output itself that fails
        raise
    except (Exception, KeyboardInterrupt, exits.SignalledExit) as error:
        if output is Output.TEXT or renderer.finished is None:
            raise
        # The result is out, and a script has one thing to read.
        exits.say(error)
        return exits.exit_code(error)


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
        asked = _compose(question, [attach(cwd, file) for file in files], standard_input(question))
        model = model_of(settings.model)
        draft_model = draft_model_of(settings)
    with Session(repository, settings, model, draft_model=draft_model, use_tools=use_tools) as session:
        interrupts.admit()
        task = session.submit(asked)
        try:
            with interrupt_calls(task.cancel):
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


def draft_model_of(settings: config.Config) -> Model | None:
    """Return the smaller model that the settings ask for, or None if they ask for none.

    Raises:
        NoModelError: It is not on this machine.
        ModelFileError: It is damaged or truncated.
    """
    if settings.draft not in (config.Draft.MODEL, config.Draft.ALL):
        return None
    return find(settings.draft_model or DEFAULT_DRAFT.name)


def model_of(name: str) -> Model:
    """Return the model of that name, or the default one without a name.

    Raises:
        NoModelError: It is not on this machine.
        ModelFileError: It is damaged or truncated.
    """
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
