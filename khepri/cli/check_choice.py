"""Which commands check a change: named on the command line, configured, or found and confirmed once."""

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress

from khepri import paths
from khepri.agent.permission_rules import load_rules
from khepri.agent.permissions import Permissions, Verdict
from khepri.config import Config
from khepri.edits.checks import detect_checks
from khepri.edits.files import write_atomically
from khepri.repo.root import Repository


def chosen_checks(repository: Repository, settings: Config, named: Sequence[str]) -> tuple[str, ...]:
    """Return the commands to run after a change.

    What is named by the user, in the command or in the configuration, is run as it is. What a repository looks like
    being checked with is run if a rule allows it, or if the user has said so once for this repository.

    Raises:
        ToolError: The files cannot be listed.
        ConfigError: A permission rule is not sound.
    """
    if named:
        return tuple(named)
    if settings.check:
        return (settings.check,)
    answers = _answers(str(repository.root))
    chosen, unasked = _found(repository, answers)
    for command in unasked:
        if not sys.stdin.isatty():
            print(
                f"khepri: not run, because nobody has confirmed it here: {command} (--check runs it)", file=sys.stderr
            )
            continue
        print(
            f"khepri: this repository looks like being checked with `{command}`. It would run after each change, "
            "without network, and write into this repository only.\nRun it, now and from now on? [y]es, [n]o: ",
            end="",
            file=sys.stderr,
            flush=True,
        )
        answers[command] = sys.stdin.readline().strip().lower() in ("y", "yes")
        _remember(str(repository.root), answers)
        if answers[command]:
            chosen.append(command)
    return tuple(chosen)


def confirmed_checks(repository: Repository, settings: Config) -> tuple[str, ...]:
    """Return the commands to run after a change that need no question: configured, allowed by a rule, or confirmed.

    Raises:
        ToolError: The files cannot be listed.
        ConfigError: A permission rule is not sound.
    """
    if settings.check:
        return (settings.check,)
    chosen, _ = _found(repository, _answers(str(repository.root)))
    return tuple(chosen)


def _found(repository: Repository, answers: Mapping[str, bool]) -> tuple[list[str], list[str]]:
    """Return the checks that may run, and those about which nobody was asked yet."""
    permissions = Permissions(load_rules(repository.root))
    chosen, unasked = [], []
    for command in detect_checks(repository):
        verdict = permissions.command(command).verdict
        if verdict is Verdict.ALLOW or (verdict is Verdict.ASK and answers.get(command)):
            chosen.append(command)
        elif verdict is Verdict.ASK and command not in answers:
            unasked.append(command)
    return chosen, unasked


def _answers(root: str) -> dict[str, bool]:
    try:
        record = json.loads(paths.confirmed_checks_file().read_bytes())
        return {str(command): answer is True for command, answer in record[root].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _remember(root: str, answers: dict[str, bool]) -> None:
    place = paths.confirmed_checks_file()
    try:
        record = json.loads(place.read_bytes())
    except (OSError, ValueError):
        record = {}
    record = {**record, root: answers} if isinstance(record, dict) else {root: answers}
    # An answer that cannot be kept is asked for again.
    with suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(place, json.dumps(record, indent=1).encode())
