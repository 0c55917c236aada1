"""Draws Markdown other than fenced code: what a piece costs is bounded by how it was cut.

Code in a quote or a list is drawn without colours, and a table that is too wide for the screen as one line a cell.
Rich's Markdown comes with a parser, which no first frame waits for: whoever draws imports this when there is something.
"""

from typing import ClassVar, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, MarkdownElement, TableElement
from rich.markdown import TextElement as _TextElement
from rich.padding import Padding
from rich.text import Text

_LEAST_COLUMN_CELLS: Final = 7


class _Code(_TextElement):
    """Code as it is."""

    style_name = "markdown.code_block"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Padding(Text(str(self.text).rstrip()), (0, 0, 0, 2))


class _Table(TableElement):
    """A table, as long as its columns can be read."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        heads = [cell.content for cell in self.header.row.cells] if self.header and self.header.row else []
        if len(heads) * _LEAST_COLUMN_CELLS <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        told = Text()
        for row in self.body.rows if self.body else ():
            for head, cell in zip(heads, row.cells, strict=False):
                told.append(f"\n{head.plain}: ", "markdown.table.header").append_text(cell.content)
            told.append("\n")
        yield told


class Prose(Markdown):
    """Markdown for the transcript."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }
