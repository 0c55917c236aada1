"""Messages from before, and a file that cannot be trusted with them."""

import stat
from pathlib import Path

from khepri.tui.composer_history import ComposerHistory
from khepri.tui.pastes import Paste


def test_messages_are_kept_for_later_and_for_the_user_alone(tmp_path: Path) -> None:
    file = tmp_path / "state" / "messages.jsonl"
    ComposerHistory(file).add("one\ntwo")
    with file.open("ab") as torn:
        torn.write(b'"half')
    ComposerHistory(file).add("three")
    later = ComposerHistory(file)
    assert later.messages == ("one\ntwo", "three")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert (later.older("a draft"), later.older(""), later.older("")) == ("three", "one\ntwo", None)
    assert (later.newer(), later.newer(), later.newer()) == ("three", "a draft", None)


def test_a_full_disk_costs_the_file_a_message_and_nothing_else(tmp_path: Path) -> None:
    history = ComposerHistory(tmp_path / "messages.jsonl")
    history._file = Path("/dev/full")
    history.add("one")
    assert history.older("") == "one"


def test_a_message_is_kept_with_the_pastes_that_it_names(tmp_path: Path) -> None:
    file = tmp_path / "messages.jsonl"
    short, long = (
        Paste("[paste 1: 2 lines, 3 characters]", "a\nb"),
        Paste("[paste 2: 1 lines, 1 characters]", "c" * 10**6),
    )
    history = ComposerHistory(file)
    message = f"see {short.label} and {long.label}"
    history.add(message, (short, long))
    assert history.pastes_in(message) == (short, long)
    later = ComposerHistory(file)
    assert later.messages == (message,)
    assert later.pastes_in(message) == (short,)
    assert later.pastes_in("see") == ()
    assert file.stat().st_size < 1000


def test_lines_of_another_form_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "messages.jsonl"
    file.write_text('"one"\n{"text": 3}\n{"text": "two", "pastes": [1]}\n{"text": "three", "pastes": {"x": 1}}\n[1]\n')
    assert ComposerHistory(file).messages == ("one", "two", "three")
