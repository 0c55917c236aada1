"""Markdown on a terminal while it is still being written.

A block that is finished is rendered once and scrolls away; only the last, unfinished one is drawn again and again.
"""

from markdown_it import MarkdownIt
from rich.console import Console
from rich.live import Live
from rich.markdown import Markdown

_REFRESHES_PER_S = 8


class MarkdownStream:
    """Renders pieces of one Markdown text as they come."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._parser = MarkdownIt()
        self._open = ""
        self._live: Live | None = None

    def push(self, text: str) -> None:
        """Show a further piece."""
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
        lines = self._open.splitlines(keepends=True)
        return sum(len(line) for line in lines[: starts[-1]])

    def _print(self, text: str) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        if text.strip():
            self._console.print(Markdown(text))

    def _draw(self) -> None:
        """Draw the unfinished block, its last lines if it is taller than the screen."""
        visible = "\n".join(self._open.splitlines()[-max(1, self._console.height - 2) :])
        if self._live is None:
            self._live = Live(
                console=self._console, transient=True, refresh_per_second=_REFRESHES_PER_S, vertical_overflow="crop"
            )
            self._live.start()
        self._live.update(Markdown(visible))
