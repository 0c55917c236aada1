"""What people are told of a rename: where the old name still stands, and what was decided without types."""

import re
from typing import Final

from khepri.edits.change import ChangeSet
from khepri.edits.locate import Target
from khepri.edits.python.inference import Inference
from khepri.edits.python.leftovers import leftovers
from khepri.edits.python.private_names import is_private
from khepri.edits.python.rope_project import RopeProject
from khepri.edits.rename.known_uses import KnownUses
from khepri.edits.syntax import first_fault
from khepri.edits.workspace import Workspace
from khepri.repo.text import decode, text_or_nothing

_MOST_SHOWN: Final = 5


def notes_on_rest(
    workspace: Workspace, project: RopeProject, changes: ChangeSet, path: str, name: str, *, is_module: bool
) -> list[str]:
    """Return notes on what still holds a name: strings first, then comments, the nearest files first; broken files."""
    after = {change.path: change.after for change in changes.files}
    found, unread, notes = [], [], []
    files = {*after, *(file.path for file in project.candidates(name))}
    for file in sorted(files, key=lambda each: (each != path, each not in after, each)):
        data = after[file] if file in after else workspace.read(file)
        if data is None:
            continue
        text = text_or_nothing(data)
        found += [(each.is_prose, f"{file}:{each.line}") for each in leftovers(text, name, is_module=is_module)]
        if data and not text:
            unread.append(file)
        elif file not in after and (fault := first_fault(file, text)) is not None:
            unread.append(f"{file}:{fault.line}")
    if unread:
        notes.append(f"{name} may be used in what is no valid Python, and was left there: {shown(unread)}")
    places = list(dict.fromkeys(place for _, place in sorted(found, key=lambda each: each[0])))
    if places:
        lines = "1 line" if len(places) == 1 else f"{len(places)} lines"
        notes.append(f"{name} also stands in strings or comments of {lines}, which were left: {shown(places)}")
    return notes


def notes_on_inferred(
    workspace: Workspace,
    changes: ChangeSet,
    target: Target,
    sharing: frozenset[tuple[str, str]],
    inference: Inference,
) -> tuple[str, ...]:
    """Return a note on uses that rope takes for the member's where those of another class may come too."""
    is_open = target.is_member and not is_private(target.name)
    known = KnownUses(workspace, target, sharing, inference) if is_open else None
    if known is None or not known.is_shared():
        return ()
    after = {change.path: change for change in changes.files}
    places, mixed, notes = [], [], []
    for path in sorted({*after, *workspace.files()}):
        change = after.get(path)
        data = change.after if change is not None else workspace.read(path) if path.endswith(".py") else None
        if not path.endswith(".py") or data is None or not (change is not None or target.name.encode() in data):
            continue
        text = text_or_nothing(data)
        mixed += [f"{path}:{line}" for line in known.mixed(path, text)]
        if change is not None and change.before is not None:
            places += [f"{path}:{line}" for line in known.inferred(path, decode(change.before).text, text)]
    if mixed:
        notes.append(note_on_uses(target.name, mixed, is_unique=False))
    if places:
        owner, were = target.symbol.rpartition(".")[0], "was" if len(places) == 1 else "were"
        notes.append(
            f"{shown(places)} may have other objects too, but {were} renamed as if of {owner}: "
            f"see that no other .{target.name} is there"
        )
    return tuple(notes)


def is_passed_at(changes: ChangeSet, at: str, name: str) -> bool:
    """Return True if a line of a file, as proposed, passes something by a name."""
    path, _, line = at.rpartition(":")
    change = next((each for each in changes.files if each.path == path), None)
    lines = change.new_text.split("\n") if change is not None else []
    return not lines or re.search(rf"\b{re.escape(name)}\s*=(?!=)", lines[int(line) - 1]) is not None


def note_on_uses(name: str, places: list[str], *, is_unique: bool) -> str:
    """Return a note on uses on objects of unknown type: renamed if nothing else has the name, and left otherwise."""
    if is_unique:
        return (
            f"nothing else here defines {name}, so its uses on objects of unknown type are renamed too: {shown(places)}"
        )
    uses = "1 use" if len(places) == 1 else f"{len(places)} uses"
    return (
        f"{uses} of .{name} may mean something else and {'was' if len(places) == 1 else 'were'} left: {shown(places)}"
    )


def shown(places: list[str]) -> str:
    """Return the first places of a list that may be long."""
    return ", ".join(places[:_MOST_SHOWN]) + (", …" if len(places) > _MOST_SHOWN else "")
