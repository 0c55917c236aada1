"""That everything can be read in every theme: WCAG's contrast of text, of what is really drawn."""

from collections.abc import Iterator
from pathlib import Path

from rich.color import Color
from textual.selection import SELECT_ALL
from textual.theme import BUILTIN_THEMES
from textual.widget import Widget

from khepri.tui import themes
from khepri.tui.entries import MarkdownEntry, NoteEntry, StepEntry, UserEntry
from khepri.tui.paint import Tone
from tests.tui.conftest import MakeApp, running, wait_until

LEAST = 4.5
"""What WCAG 2 asks of text, level AA."""
ALL = [
    *(theme.name for theme in themes.themes()),
    # The others have the terminal's own colours, which nobody but it knows.
    *(name for name in BUILTIN_THEMES if not name.startswith("ansi")),
]

ANSWER = """
# Head

Some *words* and `code` and [a link](x).

> Quoted.

- one

| a |
|---|
| 1 |

```py
def x(): return "text", 1  # a comment
```
"""


def luminance(colour: Color) -> float:
    def linear(part: int) -> float:
        share = part / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = map(linear, colour.get_truecolor())
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: Color, other: Color) -> float:
    """Return the contrast of two colours, from 1 to 21."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def faint_texts(where: str, widget: Widget) -> Iterator[str]:
    """Yield what a widget shows with too little contrast."""
    for text, style, _ in (segment for y in range(widget.size.height) for segment in widget.render_line(y)):
        if style is None or style.color is None or style.bgcolor is None or not any(map(str.isalnum, text)):
            continue
        ratio = contrast(style.color, style.bgcolor)
        if ratio < LEAST:
            yield f"{where}: {text.strip()!r} {ratio:.2f} {style.color.name} {style.bgcolor.name}"


async def test_all_text_has_enough_contrast_in_every_theme(make_app: MakeApp) -> None:
    app = make_app(model=Path("there is none"))
    async with running(app, (100, 60)) as pilot:
        await wait_until(pilot, lambda: bool(app.loader.problem))
        step = StepEntry("read path=a.py")
        step.finish("3 lines", "what it showed", is_error=False)
        step.toggle()
        notes = [NoteEntry(f"as {tone}", tone) for tone in Tone]
        app.transcript.show_only([UserEntry("a question"), step, MarkdownEntry(ANSWER), *notes])
        app.transcript.action_mark(-1)
        found: list[str] = []
        for theme in ALL:
            app.theme = theme
            app.status.change(activity="writing, 3 tokens", speed=f"{theme} tokens/s")
            app.composer.put("a word")
            app.composer.select_all()
            await pilot.pause()
            widgets: list[Widget] = [app.transcript, app.status, app.composer, *app.query("FooterKey")]
            for widget in widgets:
                found += faint_texts(theme, widget)
            app.screen.selections = {app.transcript: SELECT_ALL}
            await pilot.pause()
            found += faint_texts(f"{theme}, selected", app.transcript)
            app.screen.clear_selection()
            app.transcript.focus()
            for entry in app.transcript.entries:
                app.transcript._marked = entry
                found += faint_texts(f"{theme}, marked", app.transcript)
            app.composer.focus()
        assert found == []
