"""What judges random refactorings: what is drawn, and that a broken package is seen."""

import random
from pathlib import Path

import pytest

from tests.eval.refactorings.__main__ import Result, refactor
from tests.eval.refactorings.operations import WEIGHTS, draw, fresh
from tests.eval.refactorings.packages import Package, Workbench

SOURCE = """
LIMIT = 3


class Counter:
    step: int = 1

    def __init__(self, start: int) -> None:
        self.value = start

    def up(self) -> int:
        self.value += self.step
        return self.value


def first(limit, unused=None):
    counter = Counter(0)
    values = []
    while counter.value < limit:
        values.append(counter.up())
    return values


def short():
    return first(LIMIT)
"""
TESTS = """
from counting import short


def test_it_counts():
    assert short() == [1, 2, 3]


def test_what_it_is_called():
    assert short.__name__ == "sh" + "ort"


def test_that_never_passed():
    assert not short()
"""


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    bench = Workbench(Package("counting", "1"), tmp_path)
    (bench.source / "tests").mkdir(parents=True)
    (bench.source / "counting.py").write_text(SOURCE)
    (bench.source / "tests" / "test_counting.py").write_text(TESTS)
    return bench


def test_every_kind_is_drawn_once_there_is_one_of_it(bench: Workbench) -> None:
    drawn = draw(bench.source, 1000, random.Random(1))
    assert {each.kind for each in drawn} == set(WEIGHTS)
    assert len(drawn) == len(set(drawn))
    assert not any(each.path.startswith("tests/") for each in drawn)


def test_one_seed_draws_the_same(bench: Workbench) -> None:
    assert draw(bench.source, 5, random.Random(7)) == draw(bench.source, 5, random.Random(7))


@pytest.mark.parametrize(
    ("name", "other"), [("up", "fresh_up"), ("_up", "_fresh_up"), ("_Up", "_FreshUp"), ("LIMIT", "FRESH_LIMIT")]
)
def test_another_name_is_of_the_same_make(name: str, other: str) -> None:
    assert fresh(name) == other


@pytest.mark.slow
def test_the_packages_own_tests_judge_what_is_done(bench: Workbench) -> None:
    """Every operation is right but one kind, which a test notices: a test is about the name of ``short``."""
    results = list(refactor(bench, 1000, "1"))
    failing = {(each.operation.kind, each.operation.symbol) for each in results if each.outcome == "fails"}
    assert failing == {("rename function", "short")}
    assert {each.outcome for each in results} >= {"passes", "refused", "fails"}
    assert not [each for each in results if each.outcome == "crashes"]
    changed = next(each for each in results if each.outcome == "fails")
    assert isinstance(changed, Result)
    assert "def fresh_short():" in changed.patch
    assert "test_what_it_is_called" in changed.words
