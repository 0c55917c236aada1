"""Texts for the plain loop are lines that can be read aloud."""

from datetime import UTC, datetime

from khepri.agent.commands import COMMANDS
from khepri.agent.listings import commands_text, models_text, sessions_text
from khepri.agent.recording import SessionInfo
from khepri.agent.words import fenced
from khepri.cli.spoken import spoken


def test_every_command_is_a_sentence() -> None:
    lines = spoken(commands_text()).split("\n")
    assert len(lines) == len(COMMANDS)
    assert lines[0] == "/help: commands and keys"
    assert not any("|" in line or "`" in line for line in lines)


def test_a_row_names_its_columns_and_keeps_the_bars_that_are_text() -> None:
    now = datetime(2026, 1, 2, tzinfo=UTC)
    text = spoken(sessions_text([SessionInfo("20260102-030405-9f3a", "a | b?", 3, now, "tiny", 10)], now))
    assert text.split("\n")[0] == "20260102-030405-9f3a: when just now, turns 3, first question a | b?"
    assert "/resume ID" in text


def test_headings_and_fences_go_and_code_stays() -> None:
    assert "`" not in spoken(models_text((), ""))
    assert "#" not in spoken(models_text((), "")).split("\n")[0]
    patch = "# head\n-| a | b |\n+**x**\n```\n"
    assert spoken(fenced(patch, "diff")) == patch
