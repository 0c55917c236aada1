"""Messages from before, and a file that cannot be trusted with them."""

import stat
from pathlib import Path

from khepri.tui.composer_history import ComposerHistory


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
