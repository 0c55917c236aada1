"""A class that stands for a Protocol by its shape alone is told when a member of either is renamed."""

from pathlib import Path

import pytest

from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

PROTOCOL = "from typing import Protocol\n\n\nclass Sink(Protocol):\n    size: int\n\n    def send(self): ...\n"
ABSTRACT = (
    "from abc import ABC, abstractmethod\n\n\nclass Sink(ABC):\n    @abstractmethod\n    def send(self): ...\n\n"
    "    def other(self): ...\n"
)
USES = """class Base:
    def send(self): ...


class Far(Base):
    def __init__(self):
        self.size = 1


class Farther(Far): ...


class Small:
    def mail(self): ...
"""


def notes(root: Path, home: str, path: str, symbol: str) -> tuple[str, ...]:
    (root / "home.py").write_text(home, encoding="utf-8")
    (root / "use.py").write_text(USES, encoding="utf-8")
    return rename(Workspace(Repository.open(root)), path, symbol, "push").notes


def test_the_classes_that_have_all_the_members_of_a_protocol_are_told(tmp_path: Path) -> None:
    assert notes(tmp_path, PROTOCOL, "home.py", "Sink.send") == (
        "use.py Far has all that Sink asks for without inheriting from it, and was left: rename send there too if it "
        "stands for it",
    )


def test_the_classes_that_have_all_the_abstract_methods_are_told(tmp_path: Path) -> None:
    (note,) = notes(tmp_path, ABSTRACT, "home.py", "Sink.send")
    assert note.startswith("use.py Base has all that Sink asks for")


def test_the_protocol_that_a_class_meets_is_told(tmp_path: Path) -> None:
    assert notes(tmp_path, PROTOCOL, "use.py", "Base.send") == (
        "Base has all that home.py Sink asks for, where send was left: rename it there too if Base stands for it",
    )


@pytest.mark.parametrize(
    ("home", "path", "symbol"),
    [
        (PROTOCOL.replace("size", "length"), "home.py", "Sink.send"),
        (PROTOCOL.replace("size", "length"), "use.py", "Base.send"),
        (PROTOCOL.replace("(Protocol)", ""), "home.py", "Sink.send"),
        (ABSTRACT, "home.py", "Sink.other"),
        (PROTOCOL, "use.py", "Small.mail"),
    ],
)
def test_a_class_that_lacks_something_is_not_told(tmp_path: Path, home: str, path: str, symbol: str) -> None:
    assert notes(tmp_path, home, path, symbol) == ()
