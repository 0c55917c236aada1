"""A stream of pieces ends as the same screen that the whole text would give, whatever the pieces."""

import io
import random
import re

import pytest
from rich.console import Console
from rich.markdown import Markdown

from khepri.cli.markdown_stream import MarkdownStream

ANSWER = """\
# Where the retries are

`Client.send` in `src/client.py:12` calls *itself* again, **at most three times**.

1. It waits.
2. It asks again:
   - with the same body,
   - and a new token.

```python
for attempt in range(3):

    print("日本語 é 🐞", attempt)
```

| name | what it does |
|------|--------------|
| `retries` | how often, 回数 |
| `wait` | how long |

> A quotation
> of two lines.

---

The end, without a line end"""


def whole(text: str, width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, height=24, force_terminal=False)
    console.print(Markdown(text))
    return lines_of(console)


def lines_of(console: Console) -> list[str]:
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().rstrip("\n").split("\n")]


def streamed(pieces: list[str], width: int) -> list[str]:
    """Return what is left on the screen; a console that is no terminal draws nothing that would vanish."""
    console = Console(file=io.StringIO(), width=width, height=24, force_terminal=False)
    stream = MarkdownStream(console)
    for piece in pieces:
        stream.push(piece)
    stream.finish()
    return [line for line in lines_of(console)]


def pieces_of(text: str, seed: int) -> list[str]:
    draw = random.Random(seed)
    places = sorted(draw.sample(range(1, len(text)), k=min(80, len(text) - 1)))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]


@pytest.mark.parametrize("width", [20, 80])
@pytest.mark.parametrize("seed", range(5))
def test_pieces_give_the_screen_of_the_whole_text(width: int, seed: int) -> None:
    assert streamed(pieces_of(ANSWER, seed), width) == whole(ANSWER, width)


def test_single_characters_give_the_screen_of_the_whole_text() -> None:
    assert streamed(list(ANSWER), 40) == whole(ANSWER, 40)


def test_line_separators_that_are_no_line_ends_of_markdown_keep_blocks_whole() -> None:
    text = "one\x0bstill\x1cone\u2028line\n\n- a\n- b\n\nend"
    shown = "\n".join(streamed([text[:20], text[20:]], 80))
    assert re.search(r"• a\n • b\n\nend", shown)


def test_a_finished_block_is_printed_before_the_next_one_ends() -> None:
    console = Console(file=io.StringIO(), width=80, height=24, force_terminal=False)
    stream = MarkdownStream(console)
    stream.push("The first.\n\nThe sec")
    assert lines_of(console) == ["The first."]
    stream.push("ond.\n")
    stream.finish()
    assert lines_of(console) == ["The first.", "", "The second."]


def test_a_block_taller_than_the_screen_is_printed_whole_at_its_end() -> None:
    code = "\n".join(f"line_{number} = {number}" for number in range(100))
    text = f"```python\n{code}\n```\n"
    shown = "\n".join(streamed(pieces_of(text, 1), 80))
    assert all(f"line_{number} =" in shown for number in range(100))


@pytest.mark.parametrize("text", ["", "\n", "   \n\n"])
def test_nothing_leaves_nothing(text: str) -> None:
    assert streamed([text], 80) == [""]


def test_a_fence_that_is_never_closed_is_shown_as_code() -> None:
    assert "x = 1" in "\n".join(streamed(["```python\nx =", " 1\n"], 80))


def test_escapes_in_an_answer_do_not_reach_the_terminal() -> None:
    console = Console(file=io.StringIO(), width=80, height=24, force_terminal=True)
    stream = MarkdownStream(console)
    stream.push("red \x1b]0;title\x07 and \x1b[2J gone, \x9b2J")
    stream.finish()
    assert isinstance(console.file, io.StringIO)
    written = console.file.getvalue()
    assert "title" not in written
    assert "[2J" not in written.replace("\x1b[2K", "")


def test_the_cursor_is_shown_again_after_the_last_piece() -> None:
    console = Console(file=io.StringIO(), width=20, height=5, force_terminal=True)
    stream = MarkdownStream(console)
    stream.push("a\n\nb\n\n" + "word " * 200)
    stream.finish()
    assert isinstance(console.file, io.StringIO)
    written = console.file.getvalue()
    assert written.rfind("\x1b[?25h") > written.rfind("\x1b[?25l") >= 0
