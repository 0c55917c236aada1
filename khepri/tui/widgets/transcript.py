"""The conversation on the screen: a list of entries of which only the visible lines are ever drawn.

However long a conversation grows, a frame costs what is visible. After the width or the theme changed, what is visible
is drawn again at once and the rest in slices of a few milliseconds.
"""

import time
from bisect import bisect_right
from collections.abc import Iterable
from functools import partial
from itertools import accumulate, islice, takewhile
from typing import ClassVar, Final

from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer

from khepri.tui.background import run_aside
from khepri.tui.code_steps import CodeSteps
from khepri.tui.entries import Block, Entry, NoteEntry
from khepri.tui.paint import Look
from khepri.tui.selecting import lit, selected_text

_SLICE_S: Final = 0.004
_SLICE_EVERY_S: Final = 1 / 60


class Transcript(ScrollView, can_focus=True):
    """All entries of the conversation, scrolled to the end until the user scrolls up.

    With the focus in it, one entry is marked; it can be opened, closed and copied. No key that writes something does
    that: who types with the focus in here means the composer, to which such keys go.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "mark(-1)", "Previous", id="transcript.previous", show=False),
        Binding("down", "mark(1)", "Next", id="transcript.next", show=False),
        Binding("enter", "open", "Open", id="transcript.open"),
        Binding("f2", "copy_entry", "Copy", id="transcript.copy"),
        Binding("f3", "copy_code", "Copy code", id="transcript.copy_code"),
        Binding("pageup", "page_up", "Page up", id="transcript.page_up", show=False),
        Binding("pagedown", "page_down", "Page down", id="transcript.page_down", show=False),
        Binding("escape", "leave", "Write", id="transcript.leave"),
        Binding("home", "start", "Start", id="transcript.start", show=False),
        Binding("end", "follow", "End", id="transcript.end", show=False),
    ]

    COMPONENT_CLASSES: ClassVar[set[str]] = {"transcript--marked", "transcript--selected"}

    class Left(Message):
        """The user wants to write again."""

    class Copied(Message):
        """The user wants text in the clipboard."""

        def __init__(self, text: str, what: str) -> None:
            super().__init__()
            self.text = text
            self.what = what

    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look
        self._entries: list[Entry] = []
        self._blocks: list[Block] = []
        self._owners: list[Entry] = []
        self._ends: list[int] = []
        self._marked: Entry | None = None
        self._left_end_for: Entry | None = None
        self._code_steps = CodeSteps()
        self._page_style = Style.null()
        self._follows = True
        self._slices: Timer | None = None

    @property
    def entries(self) -> tuple[Entry, ...]:
        """What is shown, oldest first."""
        return tuple(self._entries)

    @property
    def allow_select(self) -> bool:
        """Text can be selected with the mouse."""
        return True

    def on_mount(self) -> None:
        """Set the timer up that draws what is out of sight."""
        self._slices = self.set_interval(_SLICE_EVERY_S, self._draw_slice, pause=True)

    def add(self, *entries: Entry) -> None:
        """Show further entries at the end."""
        before = len(self._blocks)
        for entry in entries:
            self._entries.append(entry)
            self._blocks += entry.blocks
            self._owners += [entry] * len(entry.blocks)
        self._arrange(before)

    def changed(self, entry: Entry) -> None:
        """Show an entry anew whose blocks have changed; blocks that are still the same are not drawn again."""
        if entry not in self._entries:
            return  # it was shown in a conversation that is not shown any more
        first, end = self._span(entry)
        pairs = zip(self._blocks[first:end], entry.blocks, strict=False)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] is pair[1], pairs))
        self._blocks[first:end] = entry.blocks
        self._owners[first:end] = [entry] * len(entry.blocks)
        self._arrange(first + same)

    def show_only(self, entries: Iterable[Entry]) -> None:
        """Show these entries and no others."""
        self._entries, self._blocks, self._owners, self._ends = [], [], [], []
        self._marked = None
        self._code_steps.begin_anew()
        self._follows = True
        self.add(*entries)

    def set_look(self, look: Look) -> None:
        """Draw everything in another theme."""
        self._look = look
        self._arrange(0)

    def on_resize(self, event: events.Resize) -> None:
        """Draw everything at the new width."""
        self._arrange(0)

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Stop following the end when the user scrolls up, and follow it again when he is back."""
        super().watch_scroll_y(old_value, new_value)
        self._follows = self.is_vertical_scroll_end
        if round(old_value) != round(new_value) and self._draw_visible():
            self._measure()
            self._learn_languages()

    def action_start(self) -> None:
        """Go to the start."""
        self.scroll_home(animate=False, immediate=True, x_axis=False)

    def action_follow(self) -> None:
        """Go to the end and stay there."""
        self._follows = True
        self.scroll_end(animate=False, immediate=True, x_axis=False)

    def action_mark(self, step: int) -> None:
        """Mark the entry before or after the marked one."""
        if not self._entries:
            return
        last = len(self._entries) - 1
        index = self._entries.index(self._marked) + step if self._marked in self._entries else last
        self._marked = self._entries[min(max(index, 0), last)]
        self._bring_in_sight(self._marked)
        self.refresh()

    def action_open(self) -> None:
        """Open or close the marked entry."""
        if self._marked is None:
            self.notify("mark an entry first")
        elif not self._toggle(self._marked):
            self.notify("there is nothing in it to open")

    def _toggle(self, entry: Entry) -> bool:
        if not entry.toggle():
            return False
        self._follows = False
        self.changed(entry)
        self._bring_in_sight(entry)
        self._follows = self.is_vertical_scroll_end
        return True

    def toggle_last(self) -> None:
        """Open or close the last entry that can be; once it is closed, the end is in sight again if it was before."""
        follows = self._follows
        entry = next((entry for entry in reversed(self._entries) if entry.toggle()), None)
        if entry is None:
            self.notify("there is no step to open")
            return
        self.changed(entry)
        if not entry.is_open and (follows or entry is self._left_end_for):
            self.action_follow()
        else:
            self._bring_in_sight(entry)
        self._left_end_for = entry if entry.is_open and follows else None

    def action_leave(self) -> None:
        """Give the focus back."""
        self._code_steps.begin_anew()
        self.post_message(self.Left())

    def action_copy_entry(self) -> None:
        """Copy the marked entry, or the last one that is more than a remark."""
        last = (entry for entry in reversed(self._entries) if not isinstance(entry, NoteEntry))
        entry = self._marked or next(last, self._entries[-1] if self._entries else None)
        if entry is None:
            self.notify("there is nothing to copy")
        else:
            self._copy(entry.copy_text(), "the entry")

    def action_copy_code(self) -> None:
        """Copy the last code block of the marked entry, or of the last one that has code.

        Each further press takes the block before it, and the one after the first block takes all of them.
        """
        candidates = [self._marked] if self._marked is not None else reversed(self._entries)
        found = ((entry, blocks) for entry in candidates if (blocks := entry.code_blocks()))
        for entry, blocks in islice(found, 1):
            self._copy(*self._code_steps.step(entry, blocks))
            return
        where = "it" if self._marked is not None else "the conversation"
        self.notify(f"there is no code block in {where}")

    def _copy(self, text: str, what: str) -> None:
        if text:
            self.post_message(self.Copied(text, what))
        else:
            self.notify(f"there is nothing in {what}")

    def on_click(self, event: events.Click) -> None:
        """Mark what was clicked on, and open or close it."""
        if self.text_selection is not None:
            return
        offset = event.get_content_offset(self)
        if offset is None:
            return
        index = bisect_right(self._ends, offset.y + self.scroll_offset.y)
        if index < len(self._owners):
            self._marked = self._owners[index]
            self._toggle(self._marked)
            self.refresh()

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return visible lines. Their common style is looked up once: each time it costs more than a line does."""
        self._page_style = self.rich_style
        return super().render_lines(crop)

    def render_line(self, y: int) -> Strip:
        """Return one visible line."""
        width = self.size.width
        style = self._page_style
        line = y + self.scroll_offset.y
        index = bisect_right(self._ends, line)
        if index >= len(self._ends):
            return Strip.blank(width, style)
        # Counted from the end of the block, whose last line is -1.
        strip = self._blocks[index].strips[line - self._ends[index]]
        if self.text_selection is not None and (span := self.text_selection.get_span(line)) is not None:
            strip = lit(strip, span, self.get_component_rich_style("transcript--selected"))
        strip = strip.crop_extend(0, width, None).apply_style(style).apply_offsets(0, line)
        if self.has_focus and self._owners[index] is self._marked:
            strip = strip.apply_style(Style(bgcolor=self.get_component_rich_style("transcript--marked").bgcolor))
        return strip

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, without the marks before lines and the spaces that only fill them."""
        lines = ((block.mark_chars, strip.text) for block in self._blocks for strip in block.strips)
        return selected_text(lines, selection), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Show the selection."""
        self.refresh()

    def _span(self, entry: Entry) -> tuple[int, int]:
        """Return where the blocks of an entry begin and end; it may have none yet."""
        end = len(self._owners)
        if self._entries[-1] is not entry:
            later = set(map(id, self._entries[self._entries.index(entry) + 1 :]))
            end = next((index for index, owner in enumerate(self._owners) if id(owner) in later), end)
        first = end
        while first > 0 and self._owners[first - 1] is entry:
            first -= 1
        return first, end

    @property
    def _text_width(self) -> int:
        """Columns of a line that are seen: the scrollbar covers the last one."""
        return self.scrollable_content_region.width

    def _arrange(self, since: int) -> None:
        """Draw what is visible, put everything in its place, and have the rest drawn later.

        Args:
            since: Blocks before this one are as they were.
        """
        del self._ends[since:]
        if not self.size.width:
            self._ends = []  # nothing is in its place before the first layout
            return
        if self._follows:
            self._draw_before(len(self._blocks))
        self._measure()
        if self._draw_visible():
            self._measure()
        if self._slices is not None and not all(map(self._is_drawn, self._blocks[since:])):
            self._slices.resume()
        self._learn_languages()
        self.refresh()

    def _learn_languages(self) -> None:
        """Have the code coloured whose language is not known yet, once it is."""
        lexers = self._look.lexers
        for language in lexers.take_missing():
            learn, colour = partial(lexers.learn, language), partial(self._colour, language)
            run_aside(self.app, learn, colour, lambda _: None)  # without it the code stays plain

    def _colour(self, language: str, _: None) -> None:
        """Draw the code of a language anew."""
        changed = [index for index, block in enumerate(self._blocks) if block.language == language]
        for index in changed:
            self._blocks[index].drawn_for = None
        if changed:
            self._arrange(changed[0])

    def _measure(self) -> None:
        """Put the blocks in their places that are not in one yet."""
        placed = len(self._ends)
        heights = (len(block.strips) for block in self._blocks[placed:])
        self._ends += islice(accumulate(heights, initial=self._ends[-1] if placed else 0), 1, None)
        total = self._ends[-1] if self._ends else 0
        size = Size(self._text_width, total)
        if size != self.virtual_size:
            follows = self._follows
            self.virtual_size = size
            self._follows = follows
        if self._follows:
            self.scroll_end(animate=False, immediate=True, x_axis=False)

    def _draw_before(self, end: int) -> None:
        """Draw the blocks before ``end``, as many as the screen holds."""
        lines = 0
        for index in reversed(range(end)):
            self._draw(index)
            lines += len(self._blocks[index].strips)
            if lines > self.size.height:
                return

    def _draw_visible(self) -> bool:
        """Draw the blocks in sight; True if one of them was not drawn yet."""
        top = self.scroll_offset.y
        index = bisect_right(self._ends, top)
        lines = 0
        has_drawn = False
        while index < len(self._blocks) and lines <= self.size.height + 1:
            has_drawn = self._draw(index) or has_drawn
            lines += len(self._blocks[index].strips)
            index += 1
        return has_drawn

    def _draw(self, index: int) -> bool:
        """Draw a block unless it is drawn already; where its height changes, the places after it have to be found."""
        block = self._blocks[index]
        if self._is_drawn(block):
            return False
        before = len(block.strips)
        block.redraw(self._look, self._text_width)
        if len(block.strips) != before:
            del self._ends[index:]
        return True

    def _is_drawn(self, block: Block) -> bool:
        return block.is_drawn_for(self._look, self._text_width)

    def _draw_slice(self) -> None:
        """Draw some of the blocks out of sight, nearest to the end first, and keep what is in sight where it is."""
        assert self._slices is not None
        deadline_s = time.perf_counter() + _SLICE_S
        first_in_sight = bisect_right(self._ends, self.scroll_offset.y)
        shift = 0
        for index in reversed(range(len(self._blocks))):
            block = self._blocks[index]
            before = len(block.strips)
            if not self._draw(index):
                continue
            if index < first_in_sight:
                shift += len(block.strips) - before
            if time.perf_counter() > deadline_s:
                break
        else:
            self._slices.pause()
        self._measure()
        if shift and not self._follows:
            self.scroll_to(y=self.scroll_offset.y + shift, animate=False, immediate=True)
        self._learn_languages()
        self.refresh()

    def _bring_in_sight(self, entry: Entry) -> None:
        """Scroll so that an entry can be seen, from its first line if it is higher than the screen."""
        first, end = self._span(entry)
        if first == end or not self.size.width:
            return
        self._draw_before(end)
        self._measure()
        top, bottom = self._ends[first - 1] if first else 0, self._ends[end - 1]
        seen_from = min(top, max(self.scroll_offset.y, bottom - self.size.height))
        self.scroll_to(y=seen_from, animate=False, immediate=True)
