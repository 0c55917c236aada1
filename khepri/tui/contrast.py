"""Colours that can be read on others, by the contrast that WCAG 2 defines.

Which colours a theme has is not known here.

References:
    https://www.w3.org/TR/WCAG21/#dfn-contrast-ratio
"""

from collections.abc import Sequence
from typing import Final

from textual.color import BLACK, WHITE, Color

LEAST_CONTRAST: Final = 4.5
"""What WCAG 2 asks of text at level AA."""
_STEPS: Final = 20


def contrast(one: Color, other: Color) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    dark, light = sorted((_luminance(one), _luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def legible(colour: str, grounds: Sequence[Color]) -> str:
    """Return a colour, lighter or darker where it has to be, that can be read on each of the grounds.

    A colour of the terminal's own stays as it is: only the terminal knows what it looks like.
    """
    wanted = Color.parse(colour)
    if wanted.ansi is not None or any(ground.ansi is not None for ground in grounds):
        return colour

    def worst(one: Color) -> float:
        return min((contrast(one, ground) for ground in grounds), default=LEAST_CONTRAST)

    if worst(wanted) >= LEAST_CONTRAST:
        return colour
    end = max(WHITE, BLACK, key=worst)
    mixed = (wanted.blend(end, step / _STEPS) for step in range(1, _STEPS))
    return next((each for each in mixed if worst(each) >= LEAST_CONTRAST), end).hex


def _luminance(colour: Color) -> float:
    red, green, blue = map(_linear, colour.rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: int) -> float:
    share = part / 255
    return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4
