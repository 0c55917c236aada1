"""What reads the name of a definition as the program runs is told when the definition gets another one."""

from pathlib import Path

import pytest

from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

REGISTER = "def register(f):\n    REG[f.__name__] = f\n    return f\n\n\n"
CALLED = (
    "def register(*a):\n    def inner(f):\n        return REG.setdefault(f.__qualname__, f)\n    return inner\n\n\n"
)
FIELD = "class Field:\n    def __set_name__(self, owner, name):\n        self.name = name\n\n\n"


def notes(root: Path, kinds: str, home: str, symbol: str) -> tuple[str, ...]:
    (root / "kinds.py").write_text(kinds, encoding="utf-8")
    (root / "home.py").write_text(home, encoding="utf-8")
    return rename(Workspace(Repository.open(root)), "home.py", symbol, "omega").notes


@pytest.mark.parametrize(
    ("kinds", "home", "symbol", "where"),
    [
        (
            REGISTER,
            "from kinds import register\n\n\n@register\ndef alpha(): ...\n",
            "alpha",
            "register",
        ),
        (CALLED, "import kinds\n\n\n@kinds.register(1)\ndef alpha(): ...\n", "alpha", "register"),
        (FIELD, "from kinds import Field\n\n\nclass A:\n    alpha = Field()\n", "A.alpha", "Field"),
    ],
)
def test_what_reads_the_name_is_told(tmp_path: Path, kinds: str, home: str, symbol: str, where: str) -> None:
    (note,) = notes(tmp_path, kinds, home, symbol)
    assert note.startswith(f"{where} reads the name of what it is given (kinds.py:")
    assert note.endswith("), which is omega now: see what it does with it")


@pytest.mark.parametrize(
    "home",
    [
        "from kinds import other\n\n\n@other\ndef alpha(): ...\n",
        "from kinds import register\n\n\ndef alpha(): ...\n\n\n@register\ndef beta(): ...\n",
    ],
)
def test_what_reads_no_name_or_that_of_another_is_not_told(tmp_path: Path, home: str) -> None:
    assert notes(tmp_path, REGISTER + "def other(f):\n    return f\n", home, "alpha") == ()


@pytest.mark.parametrize("decorator", ["cli.command()", "app.task", "group(help='x')"])
def test_a_decorator_that_makes_a_command_of_a_function_is_told(tmp_path: Path, decorator: str) -> None:
    (note,) = notes(tmp_path, "", f"from web import app, cli, group\n\n\n@{decorator}\ndef alpha(): ...\n", "alpha")
    assert note.endswith("may give it the name that it has: see who asks for alpha, which is omega now")


@pytest.mark.parametrize("decorator", ["cli.command('alpha-one')", "app.task(name='first')"])
def test_a_decorator_that_is_told_a_name_is_not(tmp_path: Path, decorator: str) -> None:
    assert notes(tmp_path, "", f"from web import app, cli\n\n\n@{decorator}\ndef alpha(): ...\n", "alpha") == ()
