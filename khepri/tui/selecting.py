"""What the mouse has selected, as text and on the screen.

Selections count characters, also behind the end of a line; strips count cells. Where a line stands is not known here.
"""

from collections.abc import Iterable

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.selection import Selection
from textual.strip import Strip


def selected_text(lines: Iterable[tuple[int, str]], selection: Selection) -> str:
    """Return what is selected, without the spaces that only fill lines.

    Args:
        lines: All lines, each after the number of characters at its beginning that are none of the text.
        selection: Where it begins and ends.
    """
    start, end = selection
    chosen = []
    for y, (mark_chars, text) in enumerate(lines):
        if (start is not None and y < start.y) or (end is not None and y > end.y):
            continue
        begin = max(mark_chars, start.x if start is not None and y == start.y else 0)
        stop = end.x if end is not None and y == end.y else len(text)
        chosen.append(text[begin:stop].rstrip())
    return "\n".join(chosen)


def lit(strip: Strip, span: tuple[int, int], style: Style) -> Strip:
    """Return a line with a part of it in another style.

    Args:
        strip: The line.
        span: The characters that the part begins and ends with; -1 is the end of the line.
        style: What is added to the style of the part.
    """
    length = strip.cell_length
    start = cell_len(strip.text[: span[0]])
    end = length if span[1] == -1 else cell_len(strip.text[: span[1]])
    before, chosen, after = strip.crop(0, start), strip.crop(start, end), strip.crop(end, length)
    bright = Strip([Segment(text, (own or Style()) + style) for text, own, _ in chosen], chosen.cell_length)
    return Strip.join([before, bright, after])
