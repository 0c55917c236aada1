"""Tells which files that are no Python still name what has another name or place now: entry points, recipes, prose.

What they mean by it cannot be told; so it is told where it stands, and nothing is changed.
"""

import re
from typing import Final

from khepri.edits.change import ChangeSet
from khepri.edits.python.leftovers import name_pattern
from khepri.edits.workspace import Workspace
from khepri.errors import ToolError
from khepri.repo.text import text_or_nothing

_PYTHON: Final = (".py", ".pyi")
_MOST_BYTES: Final = 1_000_000
"""Larger files are data."""
_MOST_SHOWN: Final = 5


def note_on_name(workspace: Workspace, changes: ChangeSet, module: str, name: str) -> tuple[str, ...]:
    """Return a note on the files that name a definition by its old name, alone or behind its module.

    Args:
        workspace: Where.
        changes: What is proposed.
        module: The dotted name of the module that defines it.
        name: What it was called.
    """
    behind_module = rf"(?<![\w.]){re.escape(module)}[.:]{re.escape(name)}(?!\w)"
    as_entry = rf"(?<=\w:){re.escape(name)}(?!\w)"
    return _note(workspace, changes, name, re.compile(f"{behind_module}|{as_entry}|{name_pattern(name).pattern}"))


def note_on_place(workspace: Workspace, changes: ChangeSet, module: str, name: str) -> tuple[str, ...]:
    """Return a note on the files that name a definition behind the module where it was."""
    named = re.compile(rf"(?<![\w.]){re.escape(module)}[.:]{re.escape(name)}(?!\w)")
    return _note(workspace, changes, f"{module}:{name}", named)


def note_on_module(workspace: Workspace, changes: ChangeSet, path: str, module: str) -> tuple[str, ...]:
    """Return a note on the files that name a module, by its dotted name or its path, that is not there any more."""
    alone = rf"(?<=-m ){re.escape(module)}(?![\w.])|(?<![\w.]){re.escape(module)}(?=:\w)"
    dotted = rf"(?<![\w.]){re.escape(module)}(?!\w)" if "." in module else alone
    return _note(workspace, changes, module, re.compile(rf"{dotted}|(?<![\w/]){re.escape(path)}(?!\w)"))


def _note(workspace: Workspace, changes: ChangeSet, name: str, pattern: re.Pattern[str]) -> tuple[str, ...]:
    found = []
    changed = set(changes.paths)
    for path in workspace.files():
        if path.endswith(_PYTHON) or path in changed:
            continue
        data = workspace.read(path)
        if data is None or len(data) > _MOST_BYTES or b"\0" in data:
            continue
        try:
            lines = sum(1 for line in text_or_nothing(data).split("\n") if pattern.search(line))
        except ToolError:
            continue
        if lines:
            found.append(f"{path} ({lines} line{'s' * (lines != 1)})")
    more = f" and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    still = f"{name} still stands in {', '.join(found[:_MOST_SHOWN])}{more}: no Python, so it was left"
    return (still,) if found else ()
