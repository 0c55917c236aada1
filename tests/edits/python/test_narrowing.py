"""Checks with isinstance, the members of an enum and the fixtures of pytest say of which class an object is."""

from pathlib import Path

import pytest

from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

HOME = """import enum


class Box:
    def {0}(self): ...


class Other:
    def show(self): ...


class Level(enum.Enum):
    LOW = 1

    def {1}(self): ...

    @property
    def {2}(self): ...
"""
HEAD = "import pytest\nfrom home import Box, Level, Other\n\n\n"


def renamed(root: Path, symbol: str, new: str, use: str) -> tuple[str, tuple[str, ...]]:
    (root / "home.py").write_text(HOME.format("show", "show", "title"), encoding="utf-8")
    (root / "use.py").write_text(HEAD + use, encoding="utf-8")
    done = rename(Workspace(Repository.open(root)), "home.py", symbol, new)
    texts = {each.path: each.new_text for each in done.changes.files}
    return texts.get("use.py", HEAD + use).removeprefix(HEAD), done.notes


@pytest.mark.parametrize(
    "body",
    [
        "return isinstance(x, Box) and x.{0}()",
        "if not isinstance(x, Box):\n        return x.show\n    return x.{0}()",
        "if isinstance(x, Box) and y:\n        x.{0}()\n    elif isinstance(x, Other):\n        x.show()",
        "assert isinstance(x, Box)\n    for _ in y:\n        x.{0}()",
        "return x.{0}() if isinstance(x, Box) else y",
        "if not isinstance(x, Box) or x.{0}():\n        raise ValueError",
        "while isinstance(x, Box):\n        x.{0}()",
        "try:\n        pass\n    except OSError:\n        if isinstance(x, Box):\n            x.{0}()",
    ],
)
def test_a_check_of_the_class_says_what_an_object_is(tmp_path: Path, body: str) -> None:
    use = f"def f(x: object, y):\n    {body}\n"
    after, notes = renamed(tmp_path, "Box.show", "display", use.format("show"))
    assert after == use.format("display")
    assert not notes or notes == ("1 use of .show may mean something else and was left: use.py:7",)


@pytest.mark.parametrize(
    "body",
    [
        "if isinstance(x, Box):\n        x = y\n        x.show()",
        "if isinstance(x, Box) or y:\n        x.show()",
        "if not isinstance(x, Box):\n        print(y)\n    x.show()",
    ],
)
def test_a_check_that_says_nothing_there_leaves_a_use_to_be_told(tmp_path: Path, body: str) -> None:
    use = f"def f(x: object, y):\n    {body}\n"
    after, notes = renamed(tmp_path, "Box.show", "display", use)
    assert after == use
    assert any(note.startswith("1 use of .show may mean something else and was left: use.py:") for note in notes)


@pytest.mark.parametrize(("symbol", "old"), [("Level.show", "show"), ("Level.title", "title")])
def test_a_member_of_an_enum_is_an_object_of_it(tmp_path: Path, symbol: str, old: str) -> None:
    use = "for each in Level:\n    each.{0}\n\nLevel.LOW.{0}\nLevel['LOW'].{0}\nLevel(1).{0}\nOther().show()\n"
    after, notes = renamed(tmp_path, symbol, "label", use.format(old))
    assert after == use.format("label")
    assert notes == ()


def test_a_fixture_says_what_a_test_is_given(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "import pytest\nfrom home import Box\n\n\n@pytest.fixture\ndef box():\n    return Box()\n", encoding="utf-8"
    )
    use = "@pytest.fixture(scope='module')\ndef other():\n    yield Other()\n\n\n"
    use += "def test(box, other):\n    box.{0}()\n    other.show()\n"
    after, notes = renamed(tmp_path, "Box.show", "display", use.format("show"))
    assert after == use.format("display")
    assert notes == ()
