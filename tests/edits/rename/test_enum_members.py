"""A member of an enum is renamed where a text surely means it, and told where its name is read or looked for."""

from pathlib import Path

import pytest

from khepri.edits.rename.rename import Refactoring, rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

HOME = """\
from enum import Enum


class Level(Enum):
    {0} = 1
    HIGH = 2

    def {{method}}


class Event:
    level: "Level"

    def now(self) -> Level | None:
        self.last = Level.HIGH
"""
OUTSIDE = "import m\nfrom m import Event, Level\n\n\ndef f(x, a, lv: Level, path: str, event: Event):\n    {0}\n"


def renamed(root: Path, line: str, method: str = "f(self): ...", home: str = HOME) -> tuple[Refactoring, str]:
    """Rename ``Level.LOW`` to ``NONE`` beside a line of another file; return what becomes of this as well."""
    (root / "m.py").write_text(home.replace("{0}", "LOW").replace("{{method}}", method), encoding="utf-8")
    (root / "n.py").write_text(OUTSIDE.replace("{0}", line), encoding="utf-8")
    done = rename(Workspace(Repository.open(root)), "m.py", "Level.LOW", "NONE")
    return done, next((each.new_text for each in done.changes.files if each.path == "n.py"), "")


@pytest.mark.parametrize(
    "line",
    [
        "return Level['{0}']",
        "return m.Level['{0}']",
        "return Level.__members__['{0}'], Level.__members__.get('{0}')",
        "return '{0}' in Level.__members__",
        "return lv.name == '{0}' or '{0}' != lv.name",
        "return lv._name_ in ('{0}', 'HIGH')",
        "return Level(1).name == '{0}'",
        "return getattr(Level, '{0}')",
        "match lv.name:\n        case '{0}' | 'HIGH':\n            return 1",
    ],
)
def test_a_text_that_surely_means_the_member_is_renamed(tmp_path: Path, line: str) -> None:
    done, text = renamed(tmp_path, line.replace("{0}", "LOW"))
    assert text == OUTSIDE.replace("{0}", line.replace("{0}", "NONE"))
    assert not any("strings" in each or "asked" in each for each in done.notes)


@pytest.mark.parametrize("own", ["cls['{0}']", "type(self)['{0}']", "self.__class__['{0}']", "self.name == '{0}'"])
def test_a_text_in_the_enum_itself_is_renamed(tmp_path: Path, own: str) -> None:
    done, _ = renamed(tmp_path, "...", f"f(self, cls): return {own.replace('{0}', 'LOW')}")
    assert f"return {own.replace('{0}', 'NONE')}" in done.changes.files[0].new_text
    assert done.notes == ()


@pytest.mark.parametrize("line", ["return x['LOW']", "return x.name == 'LOW'", "return {'LOW': 1}[lv.name]"])
def test_a_text_that_may_mean_something_else_stays_and_is_told(tmp_path: Path, line: str) -> None:
    done, text = renamed(tmp_path, line)
    assert text == ""
    assert any("LOW also stands in strings" in each and "n.py:6" in each for each in done.notes)


@pytest.mark.parametrize(
    "line",
    [
        "return Level[x.upper()]",
        "return m.Level[x]",
        "return Level.__members__[x], Level.__members__.get(x)",
        "return x in Level.__members__",
        "return list(Level.__members__)",
        "return getattr(Level, x.upper())",
        "setattr(Level, x, 1)",
    ],
)
def test_a_look_for_a_member_by_a_name_that_is_made_there_is_told(tmp_path: Path, line: str) -> None:
    done, _ = renamed(tmp_path, line)
    assert "Level is asked for a member by a name at n.py:6: see that none asks for LOW there" in done.notes


def test_a_look_in_the_enum_itself_is_told(tmp_path: Path) -> None:
    done, _ = renamed(tmp_path, "...", "of(cls, x): return cls[x.upper()]")
    assert any("a member by a name at m.py:8" in each for each in done.notes)


@pytest.mark.parametrize(
    "line",
    [
        "return lv.name",
        "return str(x.name)",
        "return Level(x).name",
        "return Level.HIGH.name",
        "return event.level.name",
        "return event.last._name_",
        "return event.now().name",
        "return [each.name.lower() for each in Level]",
        "for each in reversed(Level): print(each.name)",
    ],
)
def test_the_name_of_a_member_that_goes_somewhere_is_told(tmp_path: Path, line: str) -> None:
    done, _ = renamed(tmp_path, line)
    expected = "the name of what may be a member of Level is read at n.py:6: it is NONE now, not LOW"
    assert expected in done.notes


@pytest.mark.parametrize(
    "line",
    ["return path.name", "return event.name", "return event.file.name", "return m.name", "for each in x: each.name"],
)
def test_the_name_of_something_else_is_no_news(tmp_path: Path, line: str) -> None:
    assert renamed(tmp_path, line)[0].notes == ()


def test_an_attribute_that_a_loop_makes_of_the_name_is_told(tmp_path: Path) -> None:
    home = HOME + "\n\nfor each in Level:\n    setattr(Level, each._name_.lower(), each.value)\n"
    done, _ = renamed(tmp_path, "return Level.low, Level.high", home=home)
    assert any(each.startswith("n.py:6 uses a name of Level that is written like LOW") for each in done.notes)


@pytest.mark.parametrize(
    "body", ["class Level(StrEnum):\n", "class Level(Enum):\n    def _generate_next_value_(name, *_): return name\n\n"]
)
def test_a_value_that_is_made_from_the_name_is_told(tmp_path: Path, body: str) -> None:
    home = f"from enum import Enum, StrEnum, auto\n\n\n{body}    {{0}} = auto()\n    HIGH = 'h'\n"
    done, _ = renamed(tmp_path, "...", home=home)
    assert any("the value of LOW is made from its name" in each for each in done.notes)


def test_a_number_that_auto_counts_is_no_news(tmp_path: Path) -> None:
    assert (
        renamed(tmp_path, "...", home=HOME.replace("import Enum", "import Enum, auto").replace("= 1", "= auto()"))[
            0
        ].notes
        == ()
    )


def test_an_attribute_of_any_other_class_is_looked_for_by_no_name(tmp_path: Path) -> None:
    done, _ = renamed(tmp_path, "return Level[x], lv.name", home=HOME.replace("(Enum)", ""))
    assert done.notes == ()
