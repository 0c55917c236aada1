"""Calls are told in words."""

from khepri.agent.protocol import ToolCall
from khepri.agent.words import describe_planned


def test_a_call_is_described_in_words() -> None:
    call = ToolCall("rename", {"path": "a.py", "symbol": "X", "new_name": "Y"})
    assert describe_planned(call) == "rename a.py X to Y"
    assert describe_planned(ToolCall("rewrite", {"path": "a.py"})) == "rewrite a.py"
