"""A loop is told from text that only looks like one."""

import time

import pytest

from khepri.agent.guards import CallGuard, repeats_itself
from khepri.agent.protocol import ToolCall

CODE = "".join(f'    parser.add_argument("--option-{name}", help="the {name} of it")\n' for name in "abcdefghijklmnop")
TABLE = "| name | value |\n| ---- | ----- |\n" + "".join(f"| row {n} | {n * n} |\n" for n in range(40))
HONEST = {
    "nothing": "",
    "a short text": "It is in `src/app.py`.",
    "dashes": "-" * 2000,
    "equal signs on lines": ("=" * 40 + "\n") * 20,
    "a rule of a table": "|" + "---|" * 200,
    "a table": TABLE,
    "brackets": "[" * 300 + "]" * 300,
    "nested brackets": "[]" * 400,
    "similar lines of code": CODE * 1,
    "a numbered list": "".join(f"{n}. the next step of the work\n" for n in range(200)),
    "blank lines": "\n" * 1000,
    "thrice the same paragraph": "The same paragraph is here once more, and it is rather long. " * 3,
    "zeros": "0, " * 60,
}
LOOPS = {
    "a sentence": "Here is the code again. " * 30,
    "a line": "    return self.client.send(request)\n" * 12,
    "a paragraph": ("One sentence of a longer paragraph. " * 1 + "Another one, which is different. ") * 8,
    "a word": "again and " * 60,
    "after honest text": TABLE + "and so on, and on, " * 20,
    "in another script": "日本語の文章です。" * 40,
}


@pytest.mark.parametrize("kind", HONEST)
def test_honest_text_is_no_loop(kind: str) -> None:
    text = HONEST[kind]
    assert not any(repeats_itself(text[:end]) for end in range(0, len(text) + 1, 7))


@pytest.mark.parametrize("kind", LOOPS)
def test_the_same_passage_over_and_over_is_a_loop(kind: str) -> None:
    text = LOOPS[kind]
    assert any(repeats_itself(text[:end]) for end in range(len(text)))


def test_looking_for_loops_costs_little_however_long_the_text() -> None:
    text = CODE * 200
    started = time.process_time()
    for _ in range(30):
        repeats_itself(text)
    assert time.process_time() - started < 0.5


def test_a_call_is_admitted_once_and_counted() -> None:
    guard = CallGuard()
    call, same, other = (ToolCall("read", arguments) for arguments in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 2}))
    assert guard.admits(call)
    assert guard.admits(other)
    assert not guard.admits(same)
    assert guard.refusals == 1


def test_more_of_the_same_can_be_allowed() -> None:
    guard = CallGuard(max_identical=2)
    assert [guard.admits(ToolCall("read", {})) for _ in range(3)] == [True, True, False]
