"""``khepri`` without a command: the terminal app."""

import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from khepri import config, egress, paths
from khepri.cli import exits
from khepri.cli.opening import LATEST
from khepri.config import Loaded, Value
from khepri.errors import ToolError, UsageError
from khepri.repo.root import Repository
from khepri.repo.text import printable
from khepri.tui.opening_screen import opening_screen
from khepri.tui.terminal_guard import guarded_terminal

if TYPE_CHECKING:
    from khepri.agent.conversation import Conversation
    from khepri.agent.session import Session
    from khepri.tui.start import Start

_LOAD_PATIENCE_S = 0.5


def run(cwd: Path, flags: Mapping[str, Value], session: str | None, *, choose: bool) -> int:
    """Run the app and return the exit code.

    Args:
        cwd: A folder of the repository.
        flags: Settings from the command line.
        session: Id of the session to go on with, or the beginning of one; ``opening.LATEST``; None begins anew.
        choose: Let the user choose a session first.

    Raises:
        UsageError: There is no terminal to draw on, or no such session.
        ConfigError: A source of the configuration cannot be used.
    """
    if not (os.isatty(0) and os.isatty(2)):
        raise UsageError("khepri needs a terminal", 'ask in a script with: khepri ask "…"; see khepri --help')
    if os.environ.get("TERM") == "dumb":
        raise UsageError("this terminal cannot be drawn on: TERM is dumb", "talk line by line: khepri --plain")
    # What the first frame loads and builds lasts: looking for garbage in it time and again takes a tenth of the start.
    gc.disable()
    repository = Repository.open(cwd)
    loaded = config.load(repository.root, flags, os.environ)
    with guarded_terminal():
        with opening_screen(f"khepri  {repository.root}"):
            start = _start(repository, loaded, session, choose=choose)
            from khepri.tui.app import KhepriApp

            app = KhepriApp(start)
        app.run()
    conversation = start.conversation
    app.end_work()
    if conversation.history.turns:
        print(f"khepri: go on with: khepri --resume {conversation.history.session_id}", file=sys.stderr)
    if app.defect is not None:
        conversation.close()
        raise app.defect
    code = exits.ANSWERED if app.return_value is None else app.return_value
    _close(conversation, code)
    return code


def _close(conversation: "Conversation", code: int) -> None:
    """Write what is left and free the model; a load that is under way, which nothing can break off, ends the process.

    What the load has started is told to end first.
    """
    is_loading = conversation.is_loading
    closing = threading.Thread(target=conversation.close, daemon=True)
    closing.start()
    closing.join(_LOAD_PATIENCE_S if is_loading else None)
    if is_loading:
        sys.stderr.flush()
        os._exit(code)


def open_conversation(repository: Repository, loaded: Loaded, session: str | None) -> "Conversation":
    """Return the conversation that the command line asks for: a new one, the latest one, or one by its id.

    Raises:
        UsageError: There is no such session, or the network lock that was asked for cannot be had.
    """
    from khepri.agent.conversation import Conversation
    from khepri.agent.recording import list_sessions

    settings = loaded.config
    tier = egress.lock()
    if settings.network_lock is config.NetworkLock.REQUIRED:
        egress.require_strong(tier)

    def open_session(name: str) -> "Session":
        # On a thread, and after the first frame: these load whatever a model needs.
        from khepri.agent.session import Session
        from khepri.cli.ask import draft_model_of
        from khepri.models.stores import default_model, find

        model = find(name) if name else default_model()
        return Session(repository, settings, model, draft_model=draft_model_of(settings))

    def checks() -> tuple[str, ...]:
        from khepri.cli.check_choice import confirmed_checks

        return confirmed_checks(repository, settings)

    if session == LATEST:
        sessions = list_sessions(paths.sessions_dir(repository.root))
        if not sessions:
            raise UsageError("there is no conversation about this repository yet", "begin one: khepri")
        session = sessions[0].session_id
    return Conversation(repository, settings, open_session, session, checks)


def _start(repository: Repository, loaded: Loaded, session: str | None, *, choose: bool) -> "Start":
    from khepri.cli.config import as_answer
    from khepri.tui import themes
    from khepri.tui.keys import load_keys
    from khepri.tui.start import Start

    conversation = open_conversation(repository, loaded, session)
    return Start(
        conversation=conversation,
        network=f"network {egress.lock().level}",
        branch=lambda: current_branch(repository),
        theme=_remembered_theme() or themes.DARK,
        settings=lambda: as_answer(loaded),
        check_machine=lambda: check_machine(conversation),
        keys=load_keys(paths.keys_file()),
        choose_session=choose,
        drawn=_collect_from_now_on,
    )


def _collect_from_now_on() -> None:
    """Collect garbage again, though never in what is there by now: going through all of it would hold up a frame."""
    gc.freeze()
    gc.enable()


def current_branch(repository: Repository) -> str:
    """Return the branch of the repository, or the commit where there is none; empty outside of git."""
    from khepri.repo.gitcommand import run_git

    if not repository.is_git:
        return ""
    try:
        branch = run_git(repository.root, ["rev-parse", "--abbrev-ref", "HEAD"]).decode("utf-8", "replace").strip()
        if branch != "HEAD":
            return branch
        return run_git(repository.root, ["rev-parse", "--short", "HEAD"]).decode("utf-8", "replace").strip()
    except ToolError:
        return ""


def check_machine(conversation: "Conversation") -> str:
    """Return what ``khepri doctor`` prints of the model in use; in a process of its own, as it loads it once more."""
    command = [sys.executable, "-m", "khepri", "doctor", "--json", "--cwd", str(conversation.repository.root)]
    session = conversation.session
    model = conversation.model or (session.model.name if session is not None else "")
    if model:
        command += ["--model", model]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False)
    try:
        report = json.loads(done.stdout)
    except ValueError:
        return printable((done.stdout + done.stderr).strip())  # it broke, and here is how
    lines: list[str] = []
    for each in report["checks"]:
        if each["name"] == "terminal":
            continue  # that process has none
        lines.append(f"{each['status']:<8}{each['name']}: {each['detail']}")
        if each["advice"]:
            lines.append(f"        -> {each['advice']}")
    return printable("\n".join([*lines, "", f"all in all: {report['status']}"]))


def _remembered_theme() -> str:
    try:
        return paths.theme_file().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
