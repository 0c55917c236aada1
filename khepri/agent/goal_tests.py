"""Keeps the tests that a task wants to pass as they are: they say what is right, and are not to be bent."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from khepri.agent.task_reading import Candidate
from khepri.edits.change import ChangeSet, FileChange
from khepri.repo.roles import Role, role_of
from khepri.repo.symbols import outline

_TEST: Final = re.compile(r"\b(?:tests?|test_\w+|\w+_tests?)\b", re.IGNORECASE)
_OUTCOME: Final = re.compile(r"\b(?:pass(?:es)?|fail(?:s|ing|ed|ures?)?|green|succeeds?)\b", re.IGNORECASE)
_OF_TESTS: Final = re.compile(
    r"\b(?:add|write|create|update|change|adapt|adjust|extend|rename|move|remove|delete|drop|skip)\b[^.;:,\n]{0,40}\btest",
    re.IGNORECASE,
)


def bent_tests(task: str, changes: ChangeSet) -> tuple[str, ...]:
    """Return the tests that a change alters though the task wants them to pass, and asks for no other tests.

    Args:
        task: What the user asked for.
        changes: What is proposed.
    """
    if not _are_goals(task):
        return ()
    return tuple(name for change in changes.files if change.before is not None for name in _altered(change))


def without_goals(task: str, found: Sequence[Candidate]) -> Sequence[Candidate]:
    """Return the definitions that a task may be about without the tests that it wants to pass, if others are left."""
    others = [each for each in found if role_of(each.path) is not Role.TEST and not each.symbol.startswith("test_")]
    return others if others and _are_goals(task) else found


def _are_goals(task: str) -> bool:
    return bool(_TEST.search(task) and _OUTCOME.search(task)) and not _OF_TESTS.search(task)


def _altered(change: FileChange) -> Iterator[str]:
    old, new = _tests(change.path, change.before), _tests(change.path, change.after)
    names = [f"{name} in {change.path}" for name in old if old[name] != new.get(name)]
    yield from names or ([change.path] if role_of(change.path) is Role.TEST else [])


def _tests(path: str, data: bytes | None) -> dict[str, str]:
    text = (data or b"").decode("utf-8", "replace")
    lines = text.split("\n")
    return {
        each.qualified_name: "\n".join(lines[each.start_line - 1 : each.end_line])
        for each in outline(path, text)
        if each.name.lower().startswith("test_")
    }
