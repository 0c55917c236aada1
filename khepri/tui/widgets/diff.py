"""A file before and after a change, drawn at a cost that does not grow with the file.

Which change is shown, and what becomes of it, is not known here.
"""

import asyncio
from typing import Final

from textual.content import Content
from textual.style import Style
from textual_diff_view import DiffView

_MOST_COLOURED_CHARS: Final = 60_000
_MOST_COMPARED_CHARS: Final = 1_000


class Diff(DiffView):
    """Shows what comes and what goes, with plus and minus, as colours alone are not for everyone.

    Long files have no colours for their code, and long parts none for the characters that differ.

    Args:
        path: Name of the file, by which its language is known.
        before: Its old text.
        after: Its new text.
        note: What is said beside its name.
        is_split: True for old and new side by side.
    """

    def __init__(self, path: str, before: str, after: str, *, note: str = "", is_split: bool = False) -> None:
        super().__init__(path, path, before, after)
        self.note = note
        self.split = is_split
        self.annotations = True
        self._coloured: dict[str, Content] = {}

    def get_title(self) -> Content:
        """Return the path, how much comes and goes, and the note."""
        return super().get_title() + Content(f" {self.note}" * bool(self.note))

    async def prepare(self) -> None:
        """Do on a thread what takes long. Call it before the diff is mounted."""
        await super().prepare()
        if len(self.code_original) + len(self.code_modified) <= _MOST_COLOURED_CHARS:
            await asyncio.to_thread(self._colour)

    def highlight(self, code: str, path: str, language: str, ansi: bool = False, dark: bool = False) -> Content:  # type: ignore[override]
        """Return code in the colours that it was prepared in."""
        return self._coloured.get(code) or Content(code)

    def _colour(self) -> None:
        from textual import highlight

        for text, path in ((self.code_original, self.path_original), (self.code_modified, self.path_modified)):
            code = "\n".join(text.splitlines())
            self._coloured[code] = highlight.highlight(code, path=path)

    @classmethod
    def _highlight_diff_lines(
        cls, lines_a: list[Content], lines_b: list[Content], added_style: Style, removed_style: Style
    ) -> tuple[list[Content], list[Content]]:
        if sum(len(line.plain) for line in (*lines_a, *lines_b)) > _MOST_COMPARED_CHARS:
            return lines_a, lines_b
        return super()._highlight_diff_lines(lines_a, lines_b, added_style, removed_style)
