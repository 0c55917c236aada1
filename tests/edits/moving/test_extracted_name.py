"""An extracted function gets no name that means something else where it stands or is called."""

import re
from pathlib import Path

import pytest

from khepri.edits.moving.refactor import extract
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

TEXT = """from threading import Thread
from app import Screen


def total(x):
    new = str
    y = x * 2
    z = y + 1
    return new(z)


def given(x, taken):
    y = x * 2
    z = y + 1
    return taken, z


def shown(x):
    y = len([x])
    z = y + 1
    return z, sum([x])


def other(x):
    free = 1
    return free + x


class Base:
    def hook(self): ...


class Session(Base, Thread):
    def __init__(self):
        self.state = 1

    def work(self, x):
        y = x * 2
        z = y + 1
        return z


class Low(Session):
    lower = 1


class Mine(Screen):
    def work(self, x):
        y = x * 2
        z = y + 1
        return z
"""
LINES = TEXT.split("\n")


def line(text: str, after: str) -> int:
    return LINES.index(text, LINES.index(after)) + 1


def workspace_of(root: Path) -> Workspace:
    (root / "a.py").write_text(TEXT, encoding="utf-8")
    return Workspace(Repository.open(root))


@pytest.mark.parametrize(
    ("inside", "name", "why"),
    [
        ("def total(x):", "new", "new stands for something else at a.py:6"),
        ("def total(x):", "x", "x stands for something else at a.py:5"),
        ("def given(x, taken):", "taken", "taken stands for something else at a.py:12"),
        ("def shown(x):", "sum", "sum stands for something else at a.py:21"),
        ("def total(x):", "len", "len stands for something else at a.py:19"),
        ("def total(x):", "Thread", "more than once"),
        ("class Session(Base, Thread):", "hook", "objects of it can have Base.hook (a.py:30)"),
        ("class Session(Base, Thread):", "lower", "objects of it can have Low.lower (a.py:44)"),
        ("class Session(Base, Thread):", "state", "a.py defines Session.state already, at line 35"),
        ("class Session(Base, Thread):", "join", "found by the name join: threading.Thread"),
    ],
)
def test_a_name_that_means_something_else_there_is_refused(tmp_path: Path, inside: str, name: str, why: str) -> None:
    first = next(number for number in range(LINES.index(inside), len(LINES)) if LINES[number].strip()[:3] == "y =") + 1
    with pytest.raises(EditRefusedError, match=re.escape(why)) as refused:
        extract(workspace_of(tmp_path), "a.py", first, first + 1, name)
    assert refused.value.reason is Refusal.NOT_POSSIBLE


@pytest.mark.parametrize(
    ("inside", "name"),
    [("def total(x):", "free"), ("class Session(Base, Thread):", "total"), ("class Session(Base, Thread):", "free")],
)
def test_a_name_that_is_used_elsewhere_only_is_free(tmp_path: Path, inside: str, name: str) -> None:
    first = line("    y = x * 2" if inside.startswith("def") else "        y = x * 2", inside)
    done = extract(workspace_of(tmp_path), "a.py", first, first + 1, name)
    assert f"def {name}(" in done.changes.files[0].new_text
    assert done.notes == ()


def test_a_base_class_that_nobody_knows_is_told_of_a_new_method(tmp_path: Path) -> None:
    first = line("        y = x * 2", "class Mine(Screen):")
    done = extract(workspace_of(tmp_path), "a.py", first, first + 1, "made")
    assert done.notes == ("Mine inherits app.Screen from outside: see that nothing there knows made",)
