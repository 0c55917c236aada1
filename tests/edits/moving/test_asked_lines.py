"""Which lines a task asks for: those that it names, or a refusal that says how to name them."""

from pathlib import Path

import pytest

from khepri.edits.locate import find_target, read_source
from khepri.edits.moving.asked_lines import asked_lines
from khepri.edits.python.statements import Statements
from khepri.edits.refusal import EditRefusedError
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

CODE = '''import time


def fetch(url: str) -> str:
    """Fetch a url."""
    session = open_session(url)
    started = time.time()
    # How long it is.
    line = f"{session.name} {session.own()}"
    total = len(line)
    doubled = total * 2
    tail = str(doubled)

    for part in line:
        if part:
            self.seen = part
        total += 1
    while total:
        total -= 1
    if tail and \\
            line:
        raise ValueError(
            tail
        )
    check(tail)
    for other in line:
        log(other)
    return line + tail
'''


def asked(root: Path, task: str) -> tuple[int, int] | None:
    (root / "a.py").write_text(CODE, encoding="utf-8")
    target = find_target(read_source(Workspace(Repository.open(root)), "a.py"), "fetch")
    return asked_lines(target, Statements(target), task, "summarize")


@pytest.mark.parametrize(
    ("words", "lines"),
    [
        ("lines 10-12 of fetch", (10, 12)),
        ("lines 10 to 12 in fetch", (10, 12)),
        ("lines 10\u201312", (10, 12)),
        ("from line 10 through line 12 of fetch", (10, 12)),
        ("lines 10, 11 and 12", (10, 12)),
        ("lines 11 and 12", (11, 12)),
        ("line 11 of fetch", (11, 11)),
        ("a.py:10-12", (10, 12)),
        ("lines 9-13", (9, 12)),
        ("lines 8-10", (9, 10)),
        ("lines 20-24", (20, 24)),
        ("the lines from total to tail in fetch", (10, 12)),
        ("the lines from `total` to `tail` in fetch", (10, 12)),
        ("lines in fetch from total to tail", (10, 12)),
        ("the code from the line that sets total to the line that sets tail", (10, 12)),
        ("the statements from where total is set until tail is computed in fetch", (10, 12)),
        ("everything from started = time.time() to tail = str(doubled)", (7, 12)),
        ('from "total = len(line)" to "tail"', (10, 12)),
        ("from `total = len(line)` up to and including `for part in line` of fetch", (10, 17)),
        ("the lines starting at total and ending with doubled", (10, 11)),
        ("the lines from total to the while loop", (10, 19)),
        ("the lines from the first for loop to check(tail)", (14, 25)),
        ("the lines from check to the end of fetch", (25, 28)),
        ("the lines from the beginning to started", (6, 7)),
        ("the while loop in fetch", (18, 19)),
        ("the second for loop of fetch", (26, 27)),
        ("the line that sets doubled in fetch", (11, 11)),
        ("the statement `doubled = total * 2`", (11, 11)),
        ("`tail = str(doubled)`", (12, 12)),
    ],
)
def test_lines_that_are_named_are_those_lines(tmp_path: Path, words: str, lines: tuple[int, int]) -> None:
    assert asked(tmp_path, f"extract {words} into a function summarize") == lines
    assert asked(tmp_path, f"make a function summarize, please: extract {words} into summarize.") == lines


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ("lines 2-4 of fetch", "lines 2-4 of a.py are not in fetch, which has lines 4-28"),
        ("lines 10 and 12", "do not follow one another"),
        ("lines 12-10", "do not follow one another"),
        ("lines 12-15", "are not whole statements side by side; lines 12-17 would be"),
        ("lines 21-24", "are not whole statements side by side; lines 20-24 would be"),
        ("line 8", "not whole statements"),
        ("the lines from totals to tail", "no line of a.py fetch is, begins with or sets 'totals'"),
        ("the lines from `total = 0` to `tail`", "no line of a.py fetch is, begins with or sets 'total = 0'"),
        ("the lines from tail to total", "line 12 comes after line 10"),
        ("the lines from total to the for loop", "may be each of the lines 14 and 26 of a.py"),
        ("the lines from total to seen", "lines 10-16 are not whole statements side by side; lines 10-17 would be"),
        ("the lines between total and tail", "leaves open whether these two are meant"),
        ("the for loop of fetch", "may be each of the lines 14 and 26"),
        ("the line that sets missing", "no line of a.py fetch"),
    ],
)
def test_lines_that_are_not_there_or_may_be_several_are_refused(tmp_path: Path, words: str, why: str) -> None:
    with pytest.raises(EditRefusedError, match=why) as refused:
        asked(tmp_path, f"extract {words} into a function summarize")
    assert "as in: extract lines 5-28 of fetch into summarize" in refused.value.hint


@pytest.mark.parametrize(
    "task",
    [
        "extract the check of tail from fetch into a function summarize",
        "extract summarize from fetch to a new function",
        "extract what computes tail in fetch into summarize",
        "extract the loop body from fetch to its own function summarize",
        "extract `fetch` into summarize",
        "pull the formatting out of fetch, from the caller to the callee, into summarize",
    ],
)
def test_what_is_only_described_is_left_open(tmp_path: Path, task: str) -> None:
    assert asked(tmp_path, task) is None
