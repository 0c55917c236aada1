"""Takes what could steer the terminal out of every line, whatever widget drew it: names, pasted text, code.

Texts are made readable where they are shown; this is for what nobody thought of.
"""

import re
from typing import Final

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

_STEERS: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")


class Harmless(LineFilter):
    """Drops control characters and what turns the direction of text round; the width of a line stays."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return the segments of a line without them."""
        if not any(_STEERS.search(segment.text) for segment in segments):
            return segments
        return [
            Segment(_STEERS.sub(lambda found: "�" * cell_len(found[0]), text), style, control)
            for text, style, control in segments
        ]
