"""``khepri`` without a command: the terminal app."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from khepri import config, egress
from khepri.cli import exits
from khepri.cli.ask import draft_model_of
from khepri.config import Config, Value
from khepri.errors import UsageError
from khepri.models.stores import default_model, find
from khepri.repo.root import Repository
from khepri.tui.app import KhepriApp, Start
from khepri.tui.terminal_guard import guarded_terminal

if TYPE_CHECKING:
    from khepri.agent.session import Session


def run(cwd: Path, flags: Mapping[str, Value]) -> int:
    """Run the app and return the exit code.

    Raises:
        UsageError: There is no terminal to draw on.
        ConfigError: A source of the configuration cannot be used.
    """
    if not (os.isatty(0) and os.isatty(2)):
        raise UsageError("khepri needs a terminal", 'ask in a script with: khepri ask "…"; see khepri --help')
    repository = Repository.open(cwd)
    settings = config.load(repository.root, flags, os.environ).config
    tier = egress.lock()
    if settings.network_lock is config.NetworkLock.REQUIRED:
        egress.require_strong(tier)
    start = Start(
        open_session=lambda: _open_session(repository, settings),
        model=settings.model or "default",
        context_tokens=settings.context_tokens,
        network=f"network {tier.level}",
        branch="",
    )
    with guarded_terminal():
        app = KhepriApp(start)
        app.run()
    if app.session is not None:
        app.session.close()
    return exits.ANSWERED if app.return_value is None else app.return_value


def _open_session(repository: Repository, settings: Config) -> "Session":
    from khepri.agent.session import Session

    model = find(settings.model) if settings.model else default_model()
    return Session(repository, settings, model, draft_model=draft_model_of(settings))
