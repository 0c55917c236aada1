"""A class whose base nobody can follow is told when it has a member of the name that is renamed."""

from pathlib import Path

import pytest

from khepri.edits.rename.rename import Refactoring, rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

HOME = """class Signer:
    def sign(self): ...


class Serializer:
    signer = Signer


Old = Signer
"""


def renamed(root: Path, use: str) -> Refactoring:
    (root / "home.py").write_text(HOME, encoding="utf-8")
    (root / "use.py").write_text(use, encoding="utf-8")
    return rename(Workspace(Repository.open(root)), "home.py", "Signer.sign", "seal")


@pytest.mark.parametrize(
    ("head", "base"),
    [
        ("from home import Serializer\n\n\ndef test(serializer):\n    ", "serializer.signer"),
        ("import home\n\n\n", "home.Serializer.signer"),
        ("from home import make\n\n\n", "make()"),
        ("from home import make\n\nBase = make()\n\n\n", "Base"),
    ],
)
def test_a_member_in_a_class_with_a_base_that_nobody_can_follow_is_told(tmp_path: Path, head: str, base: str) -> None:
    (tmp_path / "use.py").touch()
    indent = " " * 4 * head.endswith(" ")
    done = renamed(tmp_path, f"{head}class Mine({base}):\n{indent}    def sign(self): ...\n")
    assert any(f"Mine ({base}) has sign too, which was left" in note for note in done.notes)


@pytest.mark.parametrize(
    "use",
    [
        "class Mine(str):\n    def sign(self): ...\n",
        "from json import JSONEncoder\n\n\nclass Mine(JSONEncoder):\n    def sign(self): ...\n",
        "from collections import namedtuple\n\n\nclass Mine(namedtuple('M', 'x')):\n    def sign(self): ...\n",
        "class Other: ...\n\n\nclass Mine(Other):\n    def sign(self): ...\n",
    ],
)
def test_a_member_in_a_class_with_other_bases_is_not(tmp_path: Path, use: str) -> None:
    assert renamed(tmp_path, use).notes == ()


@pytest.mark.parametrize("base", ["Old", "home.Old"])
def test_a_base_of_another_name_is_followed(tmp_path: Path, base: str) -> None:
    use = f"import home\nfrom home import Old\n\n\nclass Mine({base}):\n    def sign(self): ...\n"
    done = renamed(tmp_path, use)
    assert {each.path: each.new_text for each in done.changes.files}["use.py"] == use.replace("sign", "seal")
    assert done.notes == ()
