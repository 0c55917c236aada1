"""Calls are told in words."""

import errno

from khepri.agent.events import Finished, Timing, Usage
from khepri.agent.listings import stats_text
from khepri.agent.protocol import ToolCall
from khepri.agent.words import describe_error, describe_planned, describe_seconds, summarize
from khepri.repo.text import counted


def test_a_call_is_described_in_words() -> None:
    call = ToolCall("rename", {"path": "a.py", "symbol": "X", "new_name": "Y"})
    assert describe_planned(call) == "rename a.py X to Y"
    assert describe_planned(ToolCall("rewrite", {"path": "a.py"})) == "rewrite a.py"


def test_things_are_counted_in_words() -> None:
    assert [counted(number, "turn") for number in (0, 1, 2000)] == ["0 turns", "1 turn", "2,000 turns"]


def test_no_speed_is_told_where_nothing_was_written() -> None:
    timing = Timing(1.0, 0.0, 1.0, 1.0, None, 1.0, 1.0)
    told = summarize(Finished("", (), Usage(10, 5, 0), timing, "tiny", "interrupted"))
    assert "· 0 tokens ·" in told
    assert "tokens/s" not in told


def test_a_turn_without_decoding_has_no_speed_among_the_others() -> None:
    timing = Timing(1.0, 0.0, 1.0, 1.0, None, 1.0, 1.0)
    told = stats_text([Finished("", (), Usage(10, 5, 37), timing, "tiny", "applied")])
    assert "| none: nothing was decoded | 37 |" in told


def test_long_waits_are_told_in_minutes() -> None:
    assert [describe_seconds(each) for each in (0.4, 99.4, 100.0, 9410.0)] == ["0 s", "99 s", "2 min", "157 min"]


def test_a_full_disk_is_told_with_the_file_that_it_has_no_room_for() -> None:
    for number in (errno.ENOSPC, errno.EDQUOT):
        message, hint = describe_error(OSError(number, "No room", "/state/x.jsonl"))
        assert message == "the disk is full: /state/x.jsonl cannot be written (No room)"
        assert hint == "free some space first"
        assert describe_error(OSError(number, "No room"))[0] == "the output could not be written: No room"
