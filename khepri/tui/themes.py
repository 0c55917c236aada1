"""The themes and how each one colours a conversation.

Where a theme is chosen and remembered is not known here.
"""

from collections.abc import Mapping
from typing import Final

from rich.style import Style
from textual.color import Color
from textual.theme import Theme

from khepri.tui.code import Lexers
from khepri.tui.contrast import legible
from khepri.tui.paint import Look, Tone

DARK: Final = "khepri-dark"
LIGHT: Final = "khepri-light"
CONTRAST: Final = "khepri-contrast"
_CODE_STYLES: Final = {DARK: "monokai", LIGHT: "friendly", CONTRAST: "bw"}


def themes() -> tuple[Theme, ...]:
    """Return Khepri's own themes."""
    return (
        Theme(
            name=DARK,
            primary="#d9a441",
            secondary="#5fa8a0",
            accent="#e0b860",
            foreground="#d8d4cc",
            background="#16161a",
            surface="#1c1c21",
            panel="#26262d",
            success="#7fb069",
            warning="#e0b860",
            error="#e06c60",
            dark=True,
        ),
        Theme(
            name=LIGHT,
            primary="#8a5a00",
            secondary="#1f6f68",
            accent="#8a5a00",
            foreground="#26241f",
            background="#fbf9f4",
            surface="#f3f0e8",
            panel="#e6e1d5",
            success="#2f6b1f",
            warning="#8a5a00",
            error="#a8271b",
            dark=False,
        ),
        Theme(
            name=CONTRAST,
            primary="#ffff00",
            secondary="#00ffff",
            accent="#ffff00",
            foreground="#ffffff",
            background="#000000",
            surface="#000000",
            panel="#1a1a1a",
            success="#00ff00",
            warning="#ffff00",
            error="#ff6b6b",
            dark=True,
        ),
    )


def look_of(theme: Theme, lexers: Lexers) -> Look:
    """Return how a conversation looks in a theme, which may be one of Textual's own.

    Args:
        theme: The theme.
        lexers: The languages that can be coloured, whatever the theme.
    """
    variables = theme.to_color_system().generate()
    grounds = tuple(Color.parse(variables[name]) for name in ("background", "panel"))
    accent = theme.accent or theme.primary
    error = theme.error or "#e06c60"
    success = theme.success or "#7fb069"

    def readable(colour: str) -> str:
        return legible(colour, grounds)

    accent_style, faint = Style(color=readable(accent)), readable(_faint(theme))
    return Look(
        styles=(
            (Tone.TEXT, Style(color=readable(theme.foreground or ("#e0e0e0" if theme.dark else "#202020")))),
            (Tone.USER, accent_style + Style(bold=True)),
            (Tone.STEP, Style(color=readable(theme.secondary or theme.primary))),
            (Tone.DETAIL, Style(color=faint)),
            (Tone.NOTE, Style(color=faint, italic=True)),
            (Tone.WARNING, Style(color=readable(theme.warning or accent))),
            (Tone.ERROR, Style(color=readable(error), bold=True)),
            (Tone.ADDED, Style(color=readable(success))),
            (Tone.REMOVED, Style(color=readable(error))),
        ),
        accent=accent_style,
        faint=Style(color=faint),
        code_theme=_CODE_STYLES.get(theme.name, "monokai" if theme.dark else "friendly"),
        grounds=grounds,
        lexers=lexers,
    )


def legible_variables(variables: Mapping[str, str]) -> dict[str, str]:
    """Return a theme's variables with colours of selections and key names that can be read on what is behind them."""
    if Color.parse(variables["background"]).ansi is not None:
        return dict(variables)
    background, panel = Color.parse(variables["background"]), Color.parse(variables["footer-background"])
    text = legible(variables["foreground"], (background,))
    # What is selected changes its ground for its ink: no blend of the two is sure to be seen.
    selections = {
        f"{kind}-selection-{part}": colour
        for kind in ("screen", "input")
        for part, colour in (("background", text), ("foreground", background.hex))
    }
    names = ("footer-foreground", "footer-key-foreground", "footer-description-foreground")
    return {**variables, **selections, **{name: legible(variables[name], (panel,)) for name in names}}


def _faint(theme: Theme) -> str:
    if theme.name == CONTRAST:
        return "#d0d0d0"
    return "#9a958c" if theme.dark else "#5f5a50"
