"""Looks at what a refactoring library proposes, file by file, before anybody is asked about it.

The libraries work on text and on guesses of types. The compiler and its tables of names tell whether what they leave
is Python, and whether every name in it still stands for something.
"""

from khepri.edits.change import ChangeSet, FileChange
from khepri.edits.python.scopes import Names, clash, line_of, names_of
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.syntax import SyntaxFault, first_fault
from khepri.repo.text import decode


def check_sound(changes: ChangeSet, renamed: tuple[str, str] | None = None) -> tuple[str, ...]:
    """Make sure that Python files compile, use no name that nothing binds, and define nothing over something else.

    What was wrong in a file before may stay so.

    Args:
        changes: What is proposed.
        renamed: For a rename, the old name and the new one: every name must still stand for the same.

    Returns:
        Notes on names that are not defined any more, but that only type checkers look for.

    Raises:
        EditRefusedError: One would have such a fault that none of them has now.
    """
    for change in changes.files:
        fault = new_fault(change) if change.path.endswith(".py") else None
        if fault is not None:
            raise EditRefusedError(
                Refusal.SYNTAX,
                f"{changes.title}: {change.path} would not compile any more: {fault.message} in line {fault.line}",
                "choose other lines, or change it by hand",
            )
    files = _names(changes)
    # A module that has another name is two files, one that goes and one that is new.
    staying = {change.path for change in changes.files if change.before is not None and change.after is not None}
    known: frozenset[str] = frozenset().union(*(before.unresolved for _, before, _ in files))
    notes = []
    for path, before, after in files:
        lost = after.needed.keys() - known
        if renamed is not None and path in staying:
            _check_meaning(changes.title, path, before, after, *renamed)
        if lost:
            name = min(lost)
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"{changes.title}: nothing would define {name} at {path}:{after.line_of_unresolved(name)}",
                f"change what stands there first, so that it does without {name}",
            )
        for names, count in after.doubled.items():
            old_names = tuple(renamed[0] if renamed and name == renamed[1] else name for name in names)
            if count > max(max(each.doubled[names], each.doubled[old_names]) for _, each, _ in files):
                raise EditRefusedError(
                    Refusal.NOT_POSSIBLE,
                    f"{changes.title}: {path} would define {'.'.join(names)} more than once, the first time at line "
                    f"{line_of(after.text, names[-1])}",
                    "rename one of them first, or choose another place",
                )
        for name in sorted(after.unresolved.keys() - known):
            place = f"{path}:{after.line_of_unresolved(name)}"
            notes.append(f"{place} has {name} in an annotation, and nothing defines it there: import it")
    return tuple(notes)


def new_fault(change: FileChange) -> SyntaxFault | None:
    """Return the first syntax error of what is proposed for a file, in any language; None if it had one before."""
    fault = first_fault(change.path, change.plain_text)
    return fault if fault is not None and first_fault(change.path, _text(change.before)) is None else None


def _names(changes: ChangeSet) -> list[tuple[str, Names, Names]]:
    """Return path, names before and names after of each Python file that can be read."""
    files = []
    for change in changes.files:
        if change.path.endswith(".py"):
            before, after = names_of(_text(change.before)), names_of(_text(change.after))
            if before is not None and after is not None:
                files.append((change.path, before, after))
    return files


def _check_meaning(title: str, path: str, before: Names, after: Names, old: str, new: str) -> None:
    found = clash(before, after, old, new)
    if found is None:
        return
    if found.is_taken:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{old} cannot be called {new}: {new} stands for something else at {path}:{found.line}",
            "choose another name",
        )
    raise EditRefusedError(
        Refusal.NOT_POSSIBLE,
        f"{title}: {old} at {path}:{found.line} would keep its name, though it means the same",
        "give it another name there first",
    )


def _text(data: bytes | None) -> str:
    return decode(data).text if data is not None else ""
