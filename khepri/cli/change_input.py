"""Puts a change before the user in a terminal: a coloured diff, and y, n, s, e or q."""

import signal
import sys
from collections.abc import Callable
from typing import Final

from rich.console import Console
from rich.text import Text

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.patch import file_patch
from khepri.edits.review import Decision
from khepri.edits.soundness import new_fault
from khepri.errors import KhepriError
from khepri.repo.text import counted, printable
from khepri.tui.editor import edit_change

_QUESTION: Final = "Write it? [y]es, [n]o, [s]ome of it, [e]dit, [q]uit: "
_STYLES: Final = {"+": "green", "-": "red", "@": "cyan"}


def decide(changes: ChangeSet, console: Console, cancel: Callable[[], None]) -> Decision | None:
    """Ask about a change while a task waits, and return what the user decides; the main thread.

    Args:
        changes: What is proposed.
        console: Where it is shown.
        cancel: Called when the user interrupts instead of answering, which ends the task; None is returned then.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return ask_about(changes, console)
    except KeyboardInterrupt:
        console.print()
        cancel()
        return None
    finally:
        signal.signal(signal.SIGINT, before)


def ask_about(changes: ChangeSet, console: Console) -> Decision:
    """Show a change and return what the user decides; end of input is no.

    Args:
        changes: What is proposed.
        console: Where it is shown; questions are read from the standard input.

    Raises:
        KeyboardInterrupt: The user interrupted instead of answering.
    """
    show(changes, console)
    while True:
        match _answer(console, _QUESTION):
            case "y" | "yes":
                return Decision.apply(changes)
            case "n" | "no" | "q" | "quit" | None:
                return Decision.reject()
            case "s" | "some":
                kept = _some(changes, console)
                if kept is None:
                    continue
                if not kept.files:
                    return Decision.reject()
                changes = kept
                show(changes, console)
            case "e" | "edit":
                edited = _edited(changes, console)
                if not edited.files:
                    return Decision.reject()
                if edited == changes:
                    continue
                changes = edited
                show(changes, console)
                _show_faults(changes, console)
            case _:
                console.print("y writes it, n and q do not, s asks for each part, e opens your editor", style="dim")


def show(changes: ChangeSet, console: Console) -> None:
    """Print all of a change as a coloured patch, and what it comes to."""
    for change in changes.files:
        for line in _patch_lines(change):
            console.print(_coloured(line), soft_wrap=True, highlight=False)
    files, added = counted(len(changes.files), "file"), counted(changes.added_lines, "line")
    console.print(f"{files}, {added} added, {changes.removed_lines} removed", highlight=False)


def _patch_lines(change: FileChange) -> list[str]:
    return printable(file_patch(change).decode("utf-8", "replace")).rstrip("\n").split("\n")


def _coloured(line: str) -> Text:
    is_header = line.startswith(("diff ", "--- ", "+++ ", "new file", "deleted file"))
    return Text(line, style="bold" if is_header else _STYLES.get(line[:1], ""))


def _some(changes: ChangeSet, console: Console) -> ChangeSet | None:
    """Ask for each hunk; return what is left, or None if the user wants to go back."""
    files = []
    for change in changes.files:
        accepted = set()
        hunks = change.hunks
        for hunk in hunks:
            part = change.keep({hunk.number})
            if part is None:
                continue
            for line in _patch_lines(part):
                console.print(_coloured(line), soft_wrap=True, highlight=False)
            match _answer(
                console, f"This part ({hunk.number + 1} of {len(hunks)} in {change.path})? [y]es, [n]o, [b]ack: "
            ):
                case "y" | "yes":
                    accepted.add(hunk.number)
                case "b" | "back" | None:
                    return None
                case _:
                    pass
        kept = change.keep(accepted)
        if kept is not None:
            files.append(kept)
    return change_set(changes.title, files)


def _edited(changes: ChangeSet, console: Console) -> ChangeSet:
    """Open the new text of each file in the user's editor, one after the other, until one fails."""
    files: list[FileChange] = []
    for at, change in enumerate(changes.files):
        try:
            edited = change if change.after is None else edit_change(change)
        except KhepriError as error:
            words = f"{error.message}: {change.path} is as it was; {error.hint or 'e opens the editor again'}"
            console.print(printable(words), style="red", markup=False, highlight=False, soft_wrap=True)
            return change_set(changes.title, [*files, *changes.files[at:]])
        if edited is not None:
            files.append(edited)
    return change_set(changes.title, files)


def _show_faults(changes: ChangeSet, console: Console) -> None:
    """Say what the user broke in the editor: it is his to write all the same, but not without a word."""
    for change in changes.files:
        fault = new_fault(change)
        if fault is not None:
            words = f"{change.path}:{fault.line}: {fault.message}; e opens the editor again, y writes it as it is"
            console.print(printable(words), style="red", markup=False, highlight=False, soft_wrap=True)


def _answer(console: Console, question: str) -> str | None:
    console.print(question, end="", highlight=False, markup=False)
    try:
        line = sys.stdin.readline()
    except OSError:
        console.print()
        return None
    return line.strip().lower() if line else None
