"""What a definition or a variable loses with its file is told, and what would part it from its functions is refused."""

from pathlib import Path

import pytest

from khepri.edits.moving.refactor import move
from khepri.edits.refusal import EditRefusedError
from khepri.edits.rename.rename import Refactoring
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

VARIABLES = """import logging

logger = logging.getLogger("x")
table: dict[str, int] = {
    "a": 1,
}
one, two = 1, 2
twice = 1
twice = twice + 1
COUNT = 0


def f():
    global COUNT
    COUNT += 1
    logger.debug(table)
"""


def moving(root: Path, name: str, home: str, **others: str) -> Refactoring:
    for module, text in {"home": home, **others}.items():
        (root / f"{module}.py").write_text(text, encoding="utf-8")
    return move(Workspace(Repository.open(root)), "home.py", name, "goal.py")


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("logger", 'import logging\n\nlogger = logging.getLogger("x")\n'),
        ("table", 'table: dict[str, int] = {\n    "a": 1,\n}\n'),
    ],
)
def test_a_variable_moves_with_all_of_its_statement(tmp_path: Path, name: str, code: str) -> None:
    done = moving(tmp_path, name, VARIABLES, use=f"from home import {name}\n")
    after = {change.path: change.new_text for change in done.changes.files}
    assert after["goal.py"] == code
    assert after["use.py"] == f"from goal import {name}\n"
    assert f"from goal import {name}" in after["home.py"]


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("one", "holds more than one"),
        ("twice", "made more than once in home.py, at lines 8, 9"),
        ("COUNT", "functions of home.py assign COUNT as a global"),
    ],
)
def test_a_variable_that_is_not_made_alone_or_once_stays(tmp_path: Path, name: str, why: str) -> None:
    with pytest.raises(EditRefusedError, match=why):
        moving(tmp_path, name, VARIABLES)


@pytest.mark.parametrize(
    "use", ["@show.register\ndef _(v: int): ...\n", "show.register(int, len)\n", "show.short = True\n"]
)
def test_what_the_old_file_does_with_what_has_moved_is_told(tmp_path: Path, use: str) -> None:
    head = "from functools import singledispatch\n\n\n@singledispatch\ndef show(v): ...\n"
    done = moving(tmp_path, "show", f"{head}\n\n{use}", use="from home import show\n")
    (note,) = [each for each in done.notes if "as it is imported" in each]
    assert note.startswith("home.py does something with show at line ")
    assert not moving(tmp_path, "show", f"{head}\n\ndef f():\n    show.x = 1\n").notes


@pytest.mark.parametrize(
    ("use", "line"),
    [("import home\nhome.f = len\n", 3), ("import home\nmonkeypatch.setattr(home, 'f', len)\n", 2)],
)
def test_what_puts_something_else_in_its_place_is_told(tmp_path: Path, use: str, line: int) -> None:
    done = moving(tmp_path, "f", "def f(): ...\n\n\ndef g():\n    return f()\n", test_a=use)
    assert [each for each in done.notes if f"by its name at test_a.py:{line}" in each]


def test_a_text_that_imports_it_from_the_old_file_is_told(tmp_path: Path) -> None:
    done = moving(tmp_path, "f", 'def f():\n    """Do.\n\n    >>> from home import g, f\n    """\n')
    assert done.notes == ("home.f still stands in goal.py:4, and is not there any more",)


def test_quoted_types_that_something_reads_as_it_runs_are_told(tmp_path: Path) -> None:
    home = "class Node: ...\n\n\ndef f(n: 'Node'): ...\n"
    assert not moving(tmp_path, "f", home, use="import typing\n").notes
    (note,) = moving(tmp_path, "f", home, use="from typing import get_type_hints\n").notes
    assert note == (
        "the quoted types of f are imported for type checkers alone in goal.py: see whether get_type_hints has to find "
        "them (use.py)"
    )


def test_quoted_types_in_the_file_that_it_leaves_are_told_as_well(tmp_path: Path) -> None:
    home = "class Node: ...\n\n\ndef f(n: 'Node'): ...\n"
    assert not moving(tmp_path, "Node", home, use="import typing\n").notes
    (note,) = moving(tmp_path, "Node", home, use="from typing import get_type_hints\n").notes
    assert note == (
        "Node stands in quoted types of home.py and is imported for type checkers alone there: see whether "
        "get_type_hints has to find them (use.py)"
    )


READING = "import time\n\nK = 3\n\n\ndef h(): ...\n\n\ndef f():\n    time.sleep(K)\n    h()\n    print()\n"


@pytest.mark.parametrize(
    ("use", "name"),
    [
        ("import home\nhome.K = 7\n", "K"),
        ("import home as m\nm.h = len\n", "h"),
        ("import home\nmonkeypatch.setattr(home, 'K', 7)\n", "K"),
        ("import home\nwith mock.patch.object(home, 'time'): ...\n", "time"),
        ("\nmonkeypatch.setattr('home.K', 7)\n", "K"),
        ("\n@mock.patch('home.time')\ndef test_a(): ...\n", "time"),
        ("\nmocker.patch('home.print')\n", "print"),
        ("\nmock.patch.multiple('home', K=7)\n", "K"),
        ("HOME = 'home'\nmock.patch(f'{HOME}.K', 7)\n", "K"),
        ("HOME = 'home'\nmock.patch(HOME + '.K', 7)\n", "K"),
        ("m = import_module('home')\nm.K = 7\n", "K"),
    ],
)
def test_what_is_put_into_the_old_file_and_reaches_it_no_more_is_told(tmp_path: Path, use: str, name: str) -> None:
    done = moving(tmp_path, "f", READING, test_a=use)
    assert done.notes == (
        f"something else is put in the place of home.{name} at test_a.py:2, which does not reach f any more: put it "
        "into goal there, where f reads it now",
    )


@pytest.mark.parametrize(
    "use",
    [
        "import home\nhome.other = 7\n",
        "import away\naway.K = 7\nmock.patch('away.K')\nx.home.K = 7\n",
        "import home\n\n\nclass A:\n    def f(self):\n        self.K = home\n",
    ],
)
def test_what_is_put_elsewhere_is_not_told(tmp_path: Path, use: str) -> None:
    assert moving(tmp_path, "f", READING, test_a=use, away="K = 1\n").notes == ()


@pytest.mark.parametrize(
    "use",
    ["import home\nhome.time.sleep = len\n", "mock.patch('home.time.sleep')\n", "import home\nhome.time.time()\n"],
)
def test_an_import_that_other_files_have_from_the_old_one_stays_in_it(tmp_path: Path, use: str) -> None:
    done = moving(tmp_path, "f", READING, test_a=use)
    after = {change.path: change.new_text for change in done.changes.files}
    assert after["home.py"].startswith("import time\n")
    assert done.notes == ()


def test_what_a_variable_was_made_of_is_put_in_too_late_to_reach_it(tmp_path: Path) -> None:
    assert moving(tmp_path, "N", "K = 1\nN = K + 1\n", test_a="import home\nhome.K = 2\n").notes == ()
