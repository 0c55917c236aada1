"""A task falls into parts, and a part says what is renamed to what."""

import pytest

from khepri.agent.protocol import ToolCall
from khepri.agent.task_parts import MOST_PARTS, after, in_plain_words, needs, parts_of, renaming
from khepri.agent.task_reading import Candidate

FOUND = [Candidate("a.py", "Session", "class", 1), Candidate("a.py", "Session.send", "method", 2)]
RENAME = ToolCall("rename", {"path": "a.py", "symbol": "Session", "new_name": "Talk"})


@pytest.mark.parametrize(
    ("task", "parts"),
    [
        ("rename a to b", 1),
        ("rename a to b; rename c to d", 2),
        ("1. rename a to b\n2. mend c\n", 2),
        ("Rename a to b, then mend c", 2),
        ("if x is None then return 1", 1),
        ("clamp should return high; make the failing test pass", 1),
        ("make the failing tests pass; rename a to b; then mend c", 2),
        ("mend a; mend b; the test suite must pass again", 2),
        ("mend a; do not change anything else", 1),
        ("mend a; keep a list in Session", 2),
        ("mend a; write a test for it", 2),
        ("\n".join(f"mend number {n}" for n in range(MOST_PARTS + 1)), 1),
    ],
)
def test_a_task_of_several_parts_is_done_part_by_part(task: str, parts: int) -> None:
    assert len(parts_of(task, FOUND)) == parts


@pytest.mark.parametrize(
    ("task", "said"),
    [
        ("rename Session to Talk everywhere, tests included", ("Session", "Talk")),
        ("Rename the function `fetch()` to `get`", ("fetch", "get")),
        ("rename Session.send to Session.post", ("Session.send", "post")),
        ("rename Session to the new name Talk", ("Session", "Talk")),
        ("rename Session to something shorter", None),
        ("rename it to Talk", None),
        ("rename the class to Talk", None),
        ("rename net.py to web.py", None),
        ("Rename the parameter count of fetch to size", None),
        ("call Session Talk", None),
        ("rename the property send of Session to post", ("Session.send", "post")),
        ("rename the send method of the class `session` to post", ("session.send", "post")),
        ("rename field `count` in struct Stats to total", ("Stats.count", "total")),
        ("rename Session's method send to post", ("Session.send", "post")),
        ("rename the method send of Session.Inner to post", ("Session.Inner.send", "post")),
        ("rename the constant LIMIT of net.py to MOST", ("LIMIT", "MOST")),
        ("rename load in utils to read", ("load", "read")),
        ("rename the argument of fetch to size", None),
    ],
)
def test_a_task_says_what_is_renamed_to_what(task: str, said: tuple[str, str] | None) -> None:
    assert renaming(task) == said


@pytest.mark.parametrize(
    ("task", "parts"),
    [
        ("rename Session to Talk and Talk to Chat", ["rename Session to Talk", "rename Talk to Chat"]),
        ("rename Session to Talk and then Talk to Chat", ["rename Session to Talk", "rename Talk to Chat"]),
        (
            "Rename `Session` to `Talk`, the method `send` to `post`, and rename Talk to Chat everywhere",
            ["Rename `Session` to `Talk`", "rename `send` to `post`", "rename Talk to Chat everywhere"],
        ),
        (
            "rename class Session to Talk and its method `send` to `post`, tests included",
            ["rename class Session to Talk", "rename Talk.send` to `post`, tests included"],
        ),
        ("rename Session to Talk and its method send to post", ["rename Session to Talk", "rename Talk.send to post"]),
        ("rename Session to Talk and change to the new style", None),
        ("rename Session to Talk and add a docstring", None),
        ("rename Session to Talk and Talk to the user about it", None),
    ],
)
def test_renames_in_one_sentence_are_parts(task: str, parts: list[str] | None) -> None:
    assert parts_of(task, FOUND) == tuple(parts or [task])


def test_a_member_of_what_has_been_renamed_is_called_by_its_new_name() -> None:
    _, part = parts_of("rename Session to Talk and its method `send` to `post`", FOUND)
    assert renaming(part) == ("Talk.send", "post")


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ("replace `Session` with `Talk`", "rename Session to Talk"),
        ("Replace the class Session by Talk everywhere", "rename Session to Talk everywhere"),
        ("replace `Session` with `Known`", None),
        ("replace `Session` with `dict`", None),
        ("replace `Session` with `Talk.new`", None),
        ("replace `Nothing` with `Talk`", None),
        ("replace Session with Talk and log it", None),
        ("in send, replace `Session` with `Talk`", None),
    ],
)
def test_replacing_a_definition_by_a_name_that_is_none_yet_is_renaming_it(task: str, words: str | None) -> None:
    assert in_plain_words(task, FOUND, lambda name: name == "Known") == (words or task)


def test_a_later_part_knows_what_an_earlier_one_makes() -> None:
    assert [each.symbol for each in after(RENAME, FOUND)] == ["Talk", "Talk.send"]
    moved = ToolCall("move", {"path": "a.py", "symbol": "Session", "destination": "b.py"})
    assert [each.path for each in after(moved, FOUND)] == ["b.py", "b.py"]
    assert after(ToolCall("inline", {"path": "a.py", "symbol": "Session"}), FOUND) == FOUND
    assert needs(ToolCall("rewrite", {"path": "a.py", "symbol": "Talk.send"}), RENAME)
    assert not needs(ToolCall("rewrite", {"path": "a.py", "symbol": "Session"}), RENAME)
    assert not needs(ToolCall("rewrite", {"path": "b.py", "symbol": "Talk"}), RENAME)
