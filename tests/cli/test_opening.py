"""The options of the conversation are read as the table of commands reads them, or left to it."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from khepri.cli import main, opening
from khepri.cli.opening import CHOOSE, LATEST, Opening

WORDS = st.just("") | st.sampled_from(
    "--continue -c --resume -r --model -m --plain --cwd --cwd=a=b --model=tiny --resume= --plain=yes --cont -mtiny -cm "
    "--help --version -- - tiny ask é".split()
)


@pytest.fixture
def asked_of_the_table(monkeypatch: pytest.MonkeyPatch) -> list[Opening]:
    """What the table of commands opens, instead of opening it."""
    asked: list[Opening] = []

    def run(wanted: Opening) -> int:
        asked.append(wanted)
        return 0

    monkeypatch.setattr(opening, "run", run)
    return asked


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(words=st.lists(WORDS, max_size=5))
def test_what_is_understood_is_what_the_table_of_commands_understands(
    asked_of_the_table: list[Opening], words: list[str]
) -> None:
    asked_of_the_table.clear()
    read = opening.read(words, {})
    if read is not None:
        CliRunner().invoke(main.app, words)
        assert asked_of_the_table == [read]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], Opening()),
        (["--model", "tiny"], Opening(model="tiny")),
        (["-m", "tiny", "--cwd=src"], Opening(Path("src"), "tiny")),
        (["--continue"], Opening(session=LATEST)),
        (["--plain", "-c"], Opening(session=LATEST, is_plain=True)),
        (["--resume"], Opening(session=CHOOSE)),
        (["-r", "--model=tiny"], Opening(model="tiny", session=CHOOSE)),
        (["--resume", "20260101"], Opening(session="20260101")),
    ],
)
def test_the_usual_options_need_no_table_of_commands(words: list[str], expected: Opening) -> None:
    assert opening.read(words, {}) == expected


def test_a_shell_that_completes_a_command_is_answered_by_the_table_of_commands() -> None:
    assert opening.read([], {"_KHEPRI_COMPLETE": "complete_bash"}) is None
