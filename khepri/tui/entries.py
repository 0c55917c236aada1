"""What a conversation on the screen is made of: entries, each a row of blocks that are drawn within a frame.

Entries know their text and how it is cut into blocks. Scrolling, focus and the terminal are not known here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from textual.strip import Strip

from khepri.agent.events import Notice, ToolFinished
from khepri.agent.history import History, NotSummarised, Summary, Turn, Work
from khepri.agent.words import describe_call, describe_outcome
from khepri.tui.markdown_blocks import MarkdownBlocks, Piece, code_of, cut
from khepri.tui.paint import CODE_BAR, Look, Tone, draw_line, draw_markdown, draw_plain
from khepri.tui.step_line import step_line

_MOST_PLAIN_LINES = 60
_MOST_PLAIN_CHARS = 4000


@dataclass(eq=False)
class Block:
    """A part of an entry that is drawn by itself and kept until the width or the theme changes."""

    draw: Callable[[Look, int], list[Strip]]
    """Draws it at a width in cells."""
    space_before: bool = True
    """True if a blank line comes before it."""
    mark_chars: int = 0
    """So many characters at the beginning of each line are none of the text: they are not copied with it."""
    language: str | None = None
    """For code, its language, in whose colours it is drawn once they are there."""
    strips: list[Strip] = field(default_factory=lambda: [Strip([])])
    """Its lines as they were last drawn; one blank line before that."""
    drawn_for: tuple[Look, int] | None = None
    """What it was last drawn for."""

    def is_drawn_for(self, look: Look, width: int) -> bool:
        """True if nothing has changed since it was drawn."""
        return self.drawn_for is not None and self.drawn_for[0] is look and self.drawn_for[1] == width

    def redraw(self, look: Look, width: int) -> None:
        """Draw it. Takes milliseconds at most, since blocks are small."""
        lines = self.draw(look, width)
        self.strips = [Strip([]), *lines] if self.space_before else lines
        self.drawn_for = (look, width)


class Entry:
    """One thing in the conversation: a message, a step, a remark."""

    is_open: bool = False
    """True while more of it is shown than one line."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.blocks: list[Block] = []

    def copy_text(self) -> str:
        """Return what is copied when the whole entry is."""
        return self.text

    def code_blocks(self) -> list[str]:
        """Return its code blocks; none if it has none."""
        return []

    def toggle(self) -> bool:
        """Show more or less of it; False if there is no more and no less."""
        return False


class UserEntry(Entry):
    """What the user wrote."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.blocks = _plain_blocks(text, Tone.USER, "> ", "  ")


class NoteEntry(Entry):
    """A remark of Khepri's, a warning, or an error with what to do about it."""

    def __init__(self, text: str, tone: Tone = Tone.NOTE) -> None:
        super().__init__(text)
        mark = {Tone.ERROR: "✗ ", Tone.WARNING: "! "}.get(tone, "· ")
        self.blocks = _plain_blocks(text, tone, mark, "  ")


class MarkdownEntry(Entry):
    """A complete Markdown text of Khepri's own, or an answer that was given before."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.blocks = [_markdown_block(piece) for piece in cut(text)]

    def code_blocks(self) -> list[str]:
        """Return its code blocks."""
        return code_of(self.copy_text())


class AnswerEntry(MarkdownEntry):
    """An answer while it comes: finished pieces stay as they are, only the last one is drawn again."""

    def __init__(self) -> None:
        super().__init__("")
        self._parts: list[str] = []
        self._cutter = MarkdownBlocks()
        self._finished = 0

    def append(self, text: str) -> None:
        """Take a further bit of the answer."""
        self._parts.append(text)
        del self.blocks[self._finished :]
        self.blocks += [_markdown_block(piece) for piece in self._cutter.push(text)]
        self._finished = len(self.blocks)
        tail = self._cutter.tail()
        if tail is not None:
            self.blocks.append(_markdown_block(tail))

    def copy_text(self) -> str:
        """Return all of the answer so far."""
        return "".join(self._parts)


class StepEntry(Entry):
    """A step of the agent: one line, and what the tool showed when it is opened."""

    def __init__(self, call: str) -> None:
        super().__init__("")
        self._call = call
        self._outcome = "…"
        self._tone = Tone.STEP
        self._rebuild()

    def finish(self, outcome: str, text: str, *, is_error: bool) -> None:
        """Set what came of it."""
        self._outcome = outcome
        self.text = text
        self._tone = Tone.ERROR if is_error else Tone.STEP
        self._rebuild()

    def toggle(self) -> bool:
        """Open or close it."""
        if not self.text:
            return False
        self.is_open = not self.is_open
        self._rebuild()
        return True

    def copy_text(self) -> str:
        """Return the call and what the tool showed."""
        return f"{self._call}\n{self.text}"

    def _rebuild(self) -> None:
        mark = "▾ " if self.is_open else "▸ "
        call, outcome, tone = self._call, self._outcome, self._tone

        def draw(look: Look, width: int) -> list[Strip]:
            return draw_line(step_line(call, outcome, width - len(mark)), look, width, tone, mark)

        self.blocks = [Block(draw, space_before=False, mark_chars=len(mark))]
        if self.is_open:
            self.blocks += _plain_blocks(self.text, Tone.DETAIL, "│ ", "│ ", space_before=False)


class SummaryEntry(StepEntry):
    """The place where the conversation was summarised, with the summary inside."""

    def __init__(self, summary: str) -> None:
        super().__init__("summarised what was said before")
        self.finish("the model goes on from the summary; the session keeps everything", summary, is_error=False)


def entries_of(history: History) -> list[Entry]:
    """Return what is shown of a session from before."""
    return [entry for turn in history.turns for entry in _entries_of_turn(turn)]


def _entries_of_turn(turn: Turn) -> list[Entry]:
    entries: list[Entry] = [UserEntry(turn.asked), *map(_entry_of, turn.happened)]
    if turn.answer:
        entries.append(MarkdownEntry(turn.answer))
    if turn.failure:
        entries.append(NoteEntry(turn.failure, Tone.ERROR))
    elif turn.ending:
        is_whole = turn.is_change and turn.finished is not None
        entries.append(NoteEntry(turn.ending, Tone.NOTE if is_whole else Tone.WARNING))
    return [*entries, *map(_entry_of, turn.afterwards)]


def _entry_of(happened: ToolFinished | Notice | Work | Summary | NotSummarised) -> Entry:
    match happened:
        case ToolFinished():
            entry = StepEntry(describe_call(happened.tool, happened.arguments))
            entry.finish(describe_outcome(happened), happened.text, is_error=happened.is_error)
            return entry
        case Work(title, outcome, text, is_error):
            entry = StepEntry(title)
            entry.finish(outcome, text, is_error=is_error)
            return entry
        case Notice(text, is_warning):
            return NoteEntry(text, Tone.WARNING if is_warning else Tone.NOTE)
        case Summary(text):
            return SummaryEntry(text)
        case NotSummarised(reason):
            return NoteEntry(f"the conversation was not summarised: {reason}", Tone.WARNING)


def _markdown_block(piece: Piece) -> Block:
    mark_chars = 0 if piece.language is None else len(CODE_BAR)
    return Block(lambda look, width: draw_markdown(piece, look, width), not piece.continues, mark_chars, piece.language)


def _plain_blocks(text: str, tone: Tone, first: str, rest: str, *, space_before: bool = True) -> list[Block]:
    blocks = []
    for number, part in enumerate(_plain_parts(text)):
        mark = first if number == 0 else rest

        def draw(look: Look, width: int, part: str = part, mark: str = mark) -> list[Strip]:
            return draw_plain(part, look, width, tone, mark, rest)

        blocks.append(Block(draw, space_before and number == 0, len(rest)))
    return blocks


def _plain_parts(text: str) -> Sequence[str]:
    parts: list[str] = []
    lines: list[str] = []
    chars = 0
    for line in text.split("\n"):
        for start in range(0, max(1, len(line)), _MOST_PLAIN_CHARS):
            bit = line[start : start + _MOST_PLAIN_CHARS]
            if len(lines) >= _MOST_PLAIN_LINES or chars + len(bit) > _MOST_PLAIN_CHARS:
                parts.append("\n".join(lines))
                lines, chars = [], 0
            lines.append(bit)
            chars += len(bit) + 1
    parts.append("\n".join(lines))
    return [part for part in parts if part] or [""]
