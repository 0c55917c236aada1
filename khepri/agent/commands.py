"""The commands that start with a slash: what there is, and what each one does to a conversation.

The terminal app and the plain loop run the same commands. What needs a screen of its own comes back as a wish, which
each of them fulfils in its way.
"""

import fnmatch
import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from pathlib import Path

from khepri.agent.conversation import Conversation
from khepri.agent.export import ExportFormat, export
from khepri.agent.own_changes import own_changes, undo_last
from khepri.agent.task import Attachment, Task
from khepri.agent.words import fenced
from khepri.edits.patch import patch_of
from khepri.errors import UsageError
from khepri.repo import git
from khepri.repo.exports import may_be_export
from khepri.repo.text import printable


class Wish(StrEnum):
    """What whoever shows the conversation has to do."""

    QUIT = "quit"
    """Leave."""
    HELP = "help"
    """Show commands and keys."""
    STATS = "stats"
    """Show the figures of the session."""
    THEME = "theme"
    """Let the user choose a theme, or take the one named in ``argument``."""
    SESSIONS = "sessions"
    """Show the sessions and let the user resume one."""
    MODELS = "models"
    """Show the models and let the user choose one."""
    MODEL = "model"
    """Go on with the model named in ``argument``."""
    CONFIG = "config"
    """Show the settings."""
    DOCTOR = "doctor"
    """Check the machine."""
    REDRAW = "redraw"
    """Show the conversation from its history; ``argument`` is put into the composer."""


@dataclass(frozen=True)
class Outcome:
    """What came of a command."""

    text: str = ""
    """Markdown to show; empty if there is nothing to say."""
    wish: Wish | None = None
    argument: str = ""
    """What belongs to the wish."""
    attachments: tuple[Attachment, ...] = ()
    """What belongs to the text that is put into the composer."""
    task: Task | None = None
    """Work that has begun and is to be followed."""


@dataclass(frozen=True)
class Command:
    """One command."""

    name: str
    argument: str
    """How its argument is written in help, such as ``[NAME]``; empty if it takes none."""
    summary: str
    run: Callable[[Conversation, str], Outcome]
    needs_idle: bool = False
    """True if it must wait until no question is being answered."""
    is_slow: bool = False
    """True if it may take seconds: a screen runs it on a thread."""


def _wish(wish: Wish) -> Callable[[Conversation, str], Outcome]:
    return lambda conversation, argument: Outcome(wish=wish, argument=argument)


def _model(conversation: Conversation, argument: str) -> Outcome:
    return Outcome(wish=Wish.MODEL if argument else Wish.MODELS, argument=argument)


def _new(conversation: Conversation, argument: str) -> Outcome:
    conversation.begin_anew()
    return Outcome("A new conversation; the one before can be resumed: `/sessions`.", Wish.REDRAW)


def _resume(conversation: Conversation, argument: str) -> Outcome:
    if not argument:
        return Outcome(wish=Wish.SESSIONS)
    conversation.resume(argument)
    return Outcome(wish=Wish.REDRAW)


def _fork(conversation: Conversation, argument: str) -> Outcome:
    conversation.fork()
    return Outcome(f"This is a copy now: session `{conversation.history.session_id}`.", Wish.REDRAW)


def _rewind(conversation: Conversation, argument: str) -> Outcome:
    try:
        turns = int(argument or "1")
    except ValueError:
        raise UsageError(f"{argument!r} is no number of turns", "such as: /rewind 2") from None
    first = conversation.rewind(turns)
    what = "The last turn is" if turns == 1 else f"{turns} turns are"
    return Outcome(f"{what} taken back; files are not changed.", Wish.REDRAW, first.asked, first.question.attachments)


def _add(conversation: Conversation, argument: str) -> Outcome:
    if not argument:
        added = "\n".join(f"- `{path}`" for path in conversation.history.added)
        return Outcome(f"Added files:\n\n{added}" if added else "No files were added; add one with `/add FILE`.")
    names = [name for word in _words(argument) for name in _matching(conversation, word)]
    paths = [conversation.add(name) for name in names]
    return Outcome(f"Looked at with the next question: {', '.join(f'`{path}`' for path in paths)}")


def _drop(conversation: Conversation, argument: str) -> Outcome:
    names = _words(argument) or list(conversation.history.added)
    if not names:
        return Outcome("No files were added.")
    paths = [conversation.drop(name) for name in names]
    return Outcome(
        f"Not looked at any more: {', '.join(f'`{path}`' for path in paths)}. "
        "What was already read stays in the context until `/compact` or `/new`."
    )


def _compact(conversation: Conversation, argument: str) -> Outcome:
    return Outcome(task=conversation.compact())


def _undo(conversation: Conversation, argument: str) -> Outcome:
    changes = undo_last(conversation.repository)
    if not changes.files:
        return Outcome("The files already were as before the change.")
    files = "\n".join(f"- `{file.path}` +{file.added_lines} -{file.removed_lines}" for file in changes.files)
    return Outcome(f"Taken back:\n\n{files}")


def _refactor(conversation: Conversation, argument: str) -> Outcome:
    if not argument:
        raise UsageError("there is no task", "such as: /refactor rename Session to Conversation everywhere")
    return Outcome(task=conversation.refactor(argument))


def _diff(conversation: Conversation, argument: str) -> Outcome:
    repository = conversation.repository
    if not repository.is_git:
        return _own_changes(conversation)
    patch = git.diff(repository, path=argument or None).text.rstrip()
    said = [fenced(patch, "diff")] if patch else []
    new = [row.removeprefix("?? ") for row in git.status(repository) if row.startswith("?? ")]
    folder = argument.rstrip("/")
    new = [name for name in new if not folder or name == folder or name.startswith(f"{folder}/")]
    if new:
        said.append(f"Not in git yet: {', '.join(f'`{printable(name)}`' for name in new)}")
    if not said and argument and not (repository.root / argument).exists():
        raise UsageError(f"there is no {printable(argument)}", "name a path from the repository's root")
    return Outcome("\n\n".join(said) or "Nothing differs from the last commit.")


def _own_changes(conversation: Conversation) -> Outcome:
    changes = own_changes(conversation.repository)
    if not changes.files:
        return Outcome("This folder is not in a git repository, and Khepri has changed nothing in it.")
    patch = patch_of(changes).decode("utf-8", "replace").rstrip()
    return Outcome(f"Not in git; this is what Khepri has changed:\n\n{fenced(patch, 'diff')}")


def _export(conversation: Conversation, argument: str) -> Outcome:
    history = conversation.history
    if not history.turns:
        raise UsageError("nothing has been said yet", "ask something first")
    words = _words(argument)
    wanted = ExportFormat.MARKDOWN
    if words and words[0] in ("json", "markdown", "md"):
        wanted = ExportFormat.JSON if words.pop(0) == "json" else ExportFormat.MARKDOWN
    elif words and words[0].endswith(".json"):
        wanted = ExportFormat.JSON
    suffix = ".json" if wanted is ExportFormat.JSON else ".md"
    path = Path(words[0] if words else _unused_name(conversation.repository.root, history.session_id, suffix))
    path = conversation.repository.root / path.expanduser()
    if not may_be_export(path.name):
        # Else later questions would take it for a file of the project.
        raise UsageError(f"{path.name} is no name for a document", "end it in .md, .txt or .json; nothing was written")
    try:
        _write_anew(path, export(history, wanted, goes_on=conversation.is_busy))
    except FileExistsError:
        raise UsageError(f"{path} exists", "name another file: /export json FILE") from None
    except OSError as error:
        raise UsageError(
            f"{path} cannot be written: {error.strerror}; nothing was exported", "name another file: /export json FILE"
        ) from None
    return Outcome(f"Exported to `{path}`.")


def _write_anew(path: Path, text: str) -> None:
    """Write a file that is not there yet, for the user's eyes only as the session is."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError:
        # Half a conversation would be taken for the whole one.
        path.unlink()
        raise


def _unused_name(folder: Path, session_id: str, suffix: str) -> str:
    names = (f"khepri-{session_id}{f'-{number}' * (number > 1)}{suffix}" for number in count(1))
    return next(name for name in names if not (folder / name).exists())


COMMANDS: Mapping[str, Command] = {
    command.name: command
    for command in (
        Command("help", "", "commands and keys", _wish(Wish.HELP)),
        Command("model", "[NAME]", "go on with another model", _model, needs_idle=True),
        Command("models", "", "models on this machine", _wish(Wish.MODELS)),
        Command("new", "", "begin a new conversation", _new, needs_idle=True),
        Command("clear", "", "the same as /new", _new, needs_idle=True),
        Command("sessions", "", "earlier conversations about this repository", _wish(Wish.SESSIONS)),
        Command("resume", "[ID]", "go on with an earlier conversation", _resume, needs_idle=True),
        Command("fork", "", "go on in a copy of this conversation", _fork, needs_idle=True),
        Command("rewind", "[N]", "take the last turns back and edit the question", _rewind, needs_idle=True),
        Command(
            "refactor", "TASK", "change files; you review it before anything is written", _refactor, needs_idle=True
        ),
        Command(
            "undo", "", "take the last change that Khepri made to files back", _undo, needs_idle=True, is_slow=True
        ),
        Command("diff", "[FILE]", "what differs from the last commit", _diff, is_slow=True),
        Command("add", "[FILE …]", "have files looked at with the next question", _add),
        Command("drop", "[FILE …]", "have files looked at no more", _drop),
        Command("compact", "", "go on from a summary, to make room in the context", _compact, needs_idle=True),
        Command("export", "[json] [FILE]", "write the conversation to a file that only you can read (0600)", _export),
        Command("stats", "", "speed, acceptance and cache use of this session", _wish(Wish.STATS)),
        Command("theme", "[NAME]", "change the colours", _wish(Wish.THEME)),
        Command("config", "", "the settings in force and where they come from", _wish(Wish.CONFIG)),
        Command("doctor", "", "check the machine, the model and the network lock", _wish(Wish.DOCTOR), needs_idle=True),
        Command("quit", "", "leave; the conversation can be resumed", _wish(Wish.QUIT)),
    )
}
"""Every command by name, in the order in which help shows them."""


def is_command(text: str) -> bool:
    """True if a message is a command: a slash and a word, and not a path."""
    word = text.split(maxsplit=1)[0] if text.strip() else ""
    return word.startswith("/") and "/" not in word[1:] and word[1:].replace("-", "").isalpha()


def find_command(text: str, *, is_busy: bool) -> tuple[Command, str]:
    """Return the command that a line names, and its argument.

    Args:
        text: The line, with its slash.
        is_busy: True while a question is being answered.

    Raises:
        UsageError: There is none, it has to wait, or it takes no argument and has one.
    """
    name, *rest = text.strip()[1:].split(maxsplit=1)
    command = COMMANDS.get(name) or _only_match(name)
    argument = rest[0] if rest else ""
    if argument and not command.argument:
        raise UsageError(f"/{command.name} takes nothing after it", "write it alone; nothing was done")
    if command.needs_idle and is_busy:
        raise UsageError(f"/{command.name} has to wait until the answer is there", "stop it, or wait")
    return command, argument


def run_command(conversation: Conversation, text: str) -> Outcome:
    """Run a command while nothing else is being done, and return what came of it.

    Raises:
        KhepriError: It could not be done; the error says why.
        OSError: The system refused.
    """
    command, argument = find_command(text, is_busy=False)
    return command.run(conversation, argument)


def _only_match(name: str) -> Command:
    found = [command for command in COMMANDS.values() if command.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    if found:
        raise UsageError(f"/{name} could be {' or '.join(f'/{command.name}' for command in found)}", "write more of it")
    raise UsageError(f"there is no command /{name}", "see /help")


def _matching(conversation: Conversation, word: str) -> list[str]:
    """Return the files that a pattern matches; a word that is none stands for itself."""
    if not set("*?[") & set(word) or word in conversation.repository.files():
        return [word]
    found = fnmatch.filter(conversation.repository.files(), word)
    if not found:
        raise UsageError(f"no file of this repository matches {word}", "a pattern is taken from the root: src/*.py")
    return found


def _words(argument: str) -> list[str]:
    try:
        return shlex.split(argument)
    except ValueError as error:
        raise UsageError(f"{argument}: {error}", "close the quotes") from None
