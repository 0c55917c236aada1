"""Markdown on a terminal while it is still being written.

A block that is finished is rendered once and scrolls away; only the last, unfinished one is drawn again and again.
"""

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.markdown import Markdown
from rich.segment import Segment, SegmentLines

from khepri.repo.text import printable

_REFRESHES_PER_S = 8


class MarkdownStream:
    """Renders pieces of one Markdown text as they come."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._parser = MarkdownIt()
        self._finished = ""
        self._open = ""
        self._live: Live | None = None

    def push(self, text: str) -> None:
        """Show a further piece."""
        # Text that a file may have put into the model's mouth must not steer the terminal.
        text = printable(text)
        self._open += text
        if "\n" in text:
            finished = self._finished_length()
            if finished:
                self._print(self._open[:finished])
                self._open = self._open[finished:]
        self._draw()

    def finish(self) -> None:
        """Render what is left."""
        self._print(self._open)
        self._open = ""

    def _finished_length(self) -> int:
        """Return how many characters belong to blocks that nothing can change any more: all but the last one."""
        starts = [token.map[0] for token in self._parser.parse(self._open) if token.level == 0 and token.map]
        if len(starts) < 2:
            return 0
        return sum(len(line) + 1 for line in self._open.split("\n")[: starts[-1]])

    def _print(self, text: str) -> None:
        """Print the lines by which the screen of the whole text grows with ``text``.

        The space between two blocks depends on both, so that no block can be rendered by itself.
        """
        if self._live is not None:
            self._live.stop()
            self._live = None
        if text.strip():
            printed = len(_rendered(self._finished, self._console, self._console.options))
            self._finished += text
            lines = _rendered(self._finished, self._console, self._console.options)[printed:]
            self._console.print(SegmentLines(lines, new_lines=True), end="")

    def _draw(self) -> None:
        """Draw the unfinished block."""
        if self._live is None:
            self._live = Live(
                console=self._console, transient=True, refresh_per_second=_REFRESHES_PER_S, vertical_overflow="crop"
            )
            self._live.start()
        self._live.update(_Tail(self._open))


class _Tail:
    """The last lines of a Markdown text, as many as the screen holds; rendered when the screen is refreshed."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = _rendered(self._text, console, options.update(height=None))
        yield SegmentLines(lines[-max(1, console.height - 2) :], new_lines=True)


def _rendered(text: str, console: Console, options: ConsoleOptions) -> list[list[Segment]]:
    return console.render_lines(Markdown(text), options, pad=False) if text.strip() else []
