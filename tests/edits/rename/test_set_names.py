"""An attribute that is passed by its old name to what sets anything is told when it gets another one."""

from pathlib import Path

import pytest

from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

LOOP = "    def __init__(self, **kw):\n        for k, v in kw.items():\n            setattr(self, k, v)\n"
UPDATE = "    def __init__(self, **kw):\n        self.__dict__.update(kw)\n\n    # so it is\n"
MAKE = "def make(**kw):\n    a = A()\n    for k, v in kw.items():\n        setattr(a, k, v)\n"


def notes(root: Path, text: str, use: str) -> str:
    (root / "m.py").write_text(text, encoding="utf-8")
    (root / "use.py").write_text(use, encoding="utf-8")
    return "\n".join(rename(Workspace(Repository.open(root)), "m.py", "A.title", "heading").notes)


@pytest.mark.parametrize(
    ("text", "use"),
    [
        (f"class A:\n    title = None\n\n{LOOP}", "from m import A\n\nA(title=1)\n"),
        (f"class A:\n    title = None\n\n{UPDATE}", "from m import A\n\nA(title=1)\n"),
        (f"class Base:\n{LOOP}\n\nclass A(Base):\n    title = None\n", "from m import A\n\nA(title=1)\n"),
        (f"class A:\n    title = None\n\n\n{MAKE}", "import m\n\nm.make(title=1)\n"),
    ],
)
def test_an_attribute_that_is_passed_by_name_and_set_is_told(tmp_path: Path, text: str, use: str) -> None:
    assert notes(tmp_path, text, use).endswith(
        " sets what comes by any name, and title is passed at use.py:3, which was left: see whether it is heading now"
    )


@pytest.mark.parametrize(
    ("text", "use"),
    [
        (f"class A:\n    title = None\n\n{LOOP}", "from m import A\n\nA(other=1)\n"),
        (f"class A:\n    title = None\n\n{LOOP}", "from x import B\n\nB(title=1)\n"),
        (f"class A:\n    title = None\n\n\nclass B:\n{LOOP}", "from m import A\n\nA(title=1)\n"),
        (f"class A:\n    title = None\n\n{LOOP}".replace("**kw", "title, **kw"), "from m import A\n\nA(title=1)\n"),
    ],
)
def test_what_does_not_come_there_is_not_told(tmp_path: Path, text: str, use: str) -> None:
    assert "sets what comes" not in notes(tmp_path, text, use)
