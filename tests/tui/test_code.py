"""How code is drawn: plain at once, coloured when its language is there, whole in any case."""

import pytest
from rich.style import Style

from khepri.tui import themes
from khepri.tui.code import Lexers, draw_code
from khepri.tui.entries import MarkdownEntry
from khepri.tui.markdown_blocks import Piece, cut
from khepri.tui.paint import Look, Tone, draw_markdown
from tests.tui.conftest import MakeApp, running, wait_until

CODE = "def retry(limit):\n\n\treturn '漢字'  # times\n"


@pytest.fixture
def look() -> Look:
    return themes.look_of(themes.themes()[0], Lexers())


def colours(look: Look, language: str, text: str = CODE) -> set[Style | None]:
    lines = draw_code(text, look.lexers.find(language), look.palette, look.console, 80)
    return {segment.style for line in lines for segment in line}


def test_code_is_plain_until_its_language_is_learned(look: Look) -> None:
    assert colours(look, "python") == {look.by_tone[Tone.TEXT]}
    assert look.lexers.take_missing() == {"python"}
    look.lexers.learn("python")
    assert len(colours(look, "python")) > 3


def test_a_language_is_asked_for_once_even_if_nothing_reads_it(look: Look) -> None:
    for _ in range(2):
        colours(look, "nothing-like-this")
    assert look.lexers.take_missing() == {"nothing-like-this"}
    look.lexers.learn("nothing-like-this")
    colours(look, "nothing-like-this")
    colours(look, "")
    assert look.lexers.take_missing() == frozenset()


@pytest.mark.parametrize("width", [80, 10])
def test_colours_change_no_line(look: Look, width: int) -> None:
    look.lexers.learn("python")
    plain, coloured = (
        [
            "".join(segment.text for segment in line)
            for line in draw_code(CODE, lexer, look.palette, look.console, width)
        ]
        for lexer in (None, look.lexers.find("python"))
    )
    assert plain == coloured
    assert "".join("".join(plain).split()) == "".join(CODE.split())


def test_very_long_lines_are_not_coloured(look: Look) -> None:
    look.lexers.learn("python")
    assert len(colours(look, "python", "x = [" + "1, " * 300 + "]")) == 1


def test_blank_lines_of_code_stay_where_it_is_cut(look: Look) -> None:
    code = "x = 1\n" * 35 + "\n" + "y = 2\n" * 5
    pieces = cut(f"```py\n{code}```\n")
    assert len(pieces) > 1
    drawn = [strip.text.removeprefix("▎ ") for piece in pieces for strip in draw_markdown(piece, look, 80)]
    assert drawn == code.splitlines()


@pytest.mark.parametrize("theme", themes.themes(), ids=lambda theme: theme.name)
def test_code_can_be_told_from_the_ground_in_every_theme(theme: object) -> None:
    assert isinstance(theme, type(themes.themes()[0]))
    look = themes.look_of(theme, Lexers())
    look.lexers.learn("python")
    for style in colours(look, "python"):
        assert style is not None
        assert style.color is not None
        assert style.color.name != theme.background
        assert style.bgcolor is None


def test_a_table_with_more_columns_than_can_be_read_is_a_line_a_cell(look: Look) -> None:
    heads = [f"head{number}" for number in range(20)]
    table = f"| {' | '.join(heads)} |\n{'|---' * 20}|\n| {' | '.join(head.upper() for head in heads)} |\n"
    (piece,) = cut(table)
    assert [strip.text.strip() for strip in draw_markdown(piece, look, 60)] == [f"{h}: {h.upper()}" for h in heads]
    assert len(draw_markdown(piece, look, 200)) < 10


def test_code_in_a_quote_is_seen_without_colours(look: Look) -> None:
    drawn = draw_markdown(Piece("> ```perl\n> my $x;\n> ```"), look, 60)
    assert "my $x;" in drawn[0].text
    assert look.lexers.take_missing() == frozenset()


async def test_code_on_the_screen_is_coloured_once_its_language_is_learned(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        entry = MarkdownEntry("Do:\n```perl\nmy $x = 'a'; # b\n```\n")
        app.transcript.add(entry)
        (code,) = (block for block in entry.blocks if block.language)
        await wait_until(pilot, lambda: len(list(code.strips[-1])) > 3)
        assert code.strips[-1].text == "▎ my $x = 'a'; # b"
