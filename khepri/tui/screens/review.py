"""A change before it is written: each file as a diff, each hunk to be taken or left.

What is chosen goes back to the task that waits for it. Writing files is not known here.
"""

from collections.abc import Collection, Mapping
from typing import ClassVar, Final

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import Footer, Label, SelectionList
from textual.widgets.selection_list import Selection

from khepri.edits.change import ChangeSet, FileChange, Hunk, change_set
from khepri.edits.review import Decision, Review
from khepri.edits.soundness import new_fault
from khepri.errors import KhepriError
from khepri.repo.text import counted, printable
from khepri.tui.editor import edit_change
from khepri.tui.screens.modal import Modal
from khepri.tui.widgets.diff import Diff

_PAGE_HUNKS: Final = 20
Choice = tuple[str, int]
"""A file's path and the number of one of its hunks."""


class Hunks(SelectionList[Choice]):
    """The hunks, each to be taken or left."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "select", "Take or leave", id="review.toggle")]


class ReviewScreen(Modal[None]):
    """Asks the user about a change; closing it rejects what has not been decided."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,a", "apply", "Write chosen", id="review.apply", priority=True),
        Binding("r,escape,ctrl+c", "reject", "Write nothing", id="review.reject"),
        Binding("e", "edit", "Edit", id="review.edit"),
        Binding("s", "toggle_split", "Side by side", id="review.split"),
    ]

    def __init__(self, review: Review) -> None:
        super().__init__()
        self._review = review
        self._files: dict[str, FileChange] = {change.path: change for change in review.changes.files}
        self._shown = ""
        self._page = 0
        self._is_split = False

    def compose(self) -> ComposeResult:
        """Lay out the hunks at the left and the diff of one file at the right."""
        changes = self._review.changes
        head = (
            f"{changes.title} · {counted(len(changes.files), 'file')}, +{changes.added_lines} -{changes.removed_lines}"
        )
        yield Label(Content(printable(head)))
        with Horizontal():
            yield Hunks(*_selections(self._files), compact=True)
            yield VerticalScroll(can_focus=True)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Begin at the first hunk, side by side where there is room for it."""
        self._is_split = self.app.size.width >= 140
        self.query_one(SelectionList).focus()

    def on_unmount(self) -> None:
        """Reject what has not been decided; a decision that was made before counts."""
        self._review.answer(Decision.reject())

    @on(SelectionList.SelectionHighlighted)
    async def show_file(self, event: SelectionList.SelectionHighlighted[Choice]) -> None:
        """Show the file of the hunk."""
        await self._show(*event.selection.value)

    @on(SelectionList.SelectionToggled)
    def say_what_is_left_out(self, event: SelectionList.SelectionToggled[Choice]) -> None:
        """Say it in words, as colours alone are not for everyone."""
        hunks = self.query_one(SelectionList)
        path, number = event.selection.value
        hunk = next(each for each in self._files[path].hunks if each.number == number)
        is_chosen = event.selection.value in hunks.selected
        hunks.replace_option_prompt_at_index(event.selection_index, _label(path, hunk, is_chosen=is_chosen))

    def action_apply(self) -> None:
        """Have the chosen hunks written."""
        chosen = frozenset(self.query_one(SelectionList).selected)
        self._review.answer(Decision.apply(chosen_changes(self._review.changes.title, self._files, chosen)))
        self.dismiss()

    def action_reject(self) -> None:
        """Have nothing written."""
        self._review.answer(Decision.reject())
        self.dismiss()

    async def action_edit(self) -> None:
        """Let the user edit the new text of the file that is shown."""
        before, change = dict(self._files), self._files[self._shown]
        try:
            with self.app.suspend():
                edited = edit_change(change)
        except KhepriError as error:
            self.notify(printable(f"{error.message}: nothing is changed"), severity="error", markup=False)
            return
        if edited is None:
            del self._files[self._shown]
        else:
            self._files[self._shown] = edited
            fault = new_fault(edited)
            if fault is not None:
                words = f"{edited.path}:{fault.line}: {fault.message}; it would be written like this"
                self.notify(printable(words), severity="warning", markup=False)
        hunks = self.query_one(SelectionList)
        left_out = {_content(*hunk) for choice, hunk in _hunks(before) if choice not in hunks.selected}
        hunks.clear_options()
        hunks.add_options(_selections(self._files, left_out))
        if self._files:
            self._shown = ""
            await self._show(next(iter(self._files)), 0)
        else:
            self.action_reject()

    def action_toggle_split(self) -> None:
        """Show old and new side by side, or one above the other."""
        self._is_split = not self._is_split
        for view in self.query(Diff):
            view.split = self._is_split

    async def _show(self, path: str, number: int) -> None:
        """Show a file with the hunk of a number and its neighbours: all hunks of a long change would take seconds."""
        page = number // _PAGE_HUNKS
        if (path, page) == (self._shown, self._page):
            return
        self._shown, self._page = path, page
        change, note = self._files[path], ""
        if len(change.hunks) > _PAGE_HUNKS:
            numbers = [hunk.number for hunk in change.hunks][page * _PAGE_HUNKS : (page + 1) * _PAGE_HUNKS]
            note = f"hunks {page * _PAGE_HUNKS + 1} to {page * _PAGE_HUNKS + len(numbers)} of {len(change.hunks)}"
            change = change.keep(numbers) or change
        view = Diff(printable(path), change.old_text, change.new_text, note=note, is_split=self._is_split)
        await view.prepare()
        pane = self.query_one(VerticalScroll)
        await pane.remove_children()
        # The screen may have been closed meanwhile, or another file chosen.
        if pane.is_attached and (self._shown, self._page) == (path, page):
            await pane.mount(view)


def chosen_changes(title: str, files: Mapping[str, FileChange], chosen: frozenset[Choice]) -> ChangeSet:
    """Return the change with the chosen hunks only."""
    kept = (change.keep([number for path, number in chosen if path == change.path]) for change in files.values())
    return change_set(title, [change for change in kept if change is not None])


def _selections(
    files: Mapping[str, FileChange], left_out: Collection[tuple[object, ...]] = ()
) -> list[Selection[Choice]]:
    """Return a line for each hunk, those with a content that was left out before unselected."""
    lines = []
    for choice, (path, hunk) in _hunks(files):
        is_chosen = _content(path, hunk) not in left_out
        lines.append(Selection(_label(path, hunk, is_chosen=is_chosen), choice, initial_state=is_chosen))
    return lines


def _hunks(files: Mapping[str, FileChange]) -> list[tuple[Choice, tuple[str, Hunk]]]:
    return [((path, hunk.number), (path, hunk)) for path, change in files.items() for hunk in change.hunks]


def _content(path: str, hunk: Hunk) -> tuple[object, ...]:
    """Return what makes a hunk the same one, whatever its number is by now."""
    return path, hunk.old_start, hunk.old_lines, hunk.new_lines


def _label(path: str, hunk: Hunk, *, is_chosen: bool) -> Content:
    place = f"{printable(path)}:{hunk.old_start}  +{len(hunk.new_lines)} -{len(hunk.old_lines)}"
    # First, as the end of a line is cut on a narrow screen.
    return Content(place if is_chosen else f"left out  {place}")
