"""Where a class makes objects of itself, a parameter or a field is renamed if it is written there, or else told."""

from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import rename_parameter
from khepri.edits.rename.rename import Refactoring, rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

BUILT = "class A:\n    def __init__(self, size=1):\n        pass\n"
FIELD = "from dataclasses import dataclass\n\n\n@dataclass\nclass A:\n    size: int = 1\n"
WRITTEN = [
    "type(self)(size=1)",
    "self.__class__(**{'n': 1, \"size\": 2})",
    "type(self)(**dict(size=1))",
    "type(self)(**{**{'size': 2}})",
    "A('é', **{'size': 2})",
]
HIDDEN = ["cls(**data)", "type(self)(**self.__dict__)", "self.__class__(**{'a': 1, **data})", "A(**data)"]


def renamed(root: Path, text: str, *, is_field: bool, base: str = "") -> Refactoring:
    """Rename ``size`` of ``A`` in a file of this text, beside another one."""
    (root / "m.py").write_text(text, encoding="utf-8")
    (root / "base.py").write_text(base, encoding="utf-8")
    files = Workspace(Repository.open(root))
    if is_field:
        return rename(files, "m.py", "A.size", "width")
    return rename_parameter(files, "m.py", "A.__init__", "size", "width")


@pytest.mark.parametrize("is_field", [True, False])
@pytest.mark.parametrize("call", WRITTEN)
def test_what_is_written_in_a_call_by_which_a_class_makes_itself_is_renamed(
    tmp_path: Path, call: str, is_field: bool
) -> None:
    text = f"{FIELD if is_field else BUILT}\n    def twin(self):\n        return {call}\n"
    done = renamed(tmp_path, text, is_field=is_field)
    assert done.changes.files[0].new_text == text.replace("size", "width")
    assert done.notes == ()


@pytest.mark.parametrize("is_field", [True, False])
@pytest.mark.parametrize("call", HIDDEN)
def test_what_nobody_can_tell_of_such_a_call_is_told(tmp_path: Path, call: str, is_field: bool) -> None:
    text = f"{FIELD if is_field else BUILT}\n    def twin(self, data, cls):\n        return {call}\n"
    (note,) = renamed(tmp_path, text, is_field=is_field).notes
    assert note.startswith(f"m.py:{text.count(chr(10))} ")
    assert "**" in note


@pytest.mark.parametrize("is_field", [True, False])
def test_a_base_class_that_makes_what_is_below_it_is_told(tmp_path: Path, is_field: bool) -> None:
    base = "class Base:\n    @classmethod\n    def of(cls, data):\n        return cls(**data)\n"
    text = "from base import Base\n\n\n" + (FIELD if is_field else BUILT).replace("class A:", "class A(Base):")
    (note,) = renamed(tmp_path, text, is_field=is_field, base=base).notes
    assert note.startswith("base.py:4 ")


@pytest.mark.parametrize(
    "other",
    [
        "class B(A):\n    def __init__(self, x): ...\n\n    def twin(self, data):\n        return type(self)(**data)\n",
        "class B:\n    def twin(self, data):\n        return type(self)(**data)\n",
        "class B(A):\n    def twin(self, data):\n        return type(self)(**{'other': 1})\n",
    ],
)
def test_a_class_that_is_made_in_another_way_is_not_told(tmp_path: Path, other: str) -> None:
    assert renamed(tmp_path, f"{BUILT}\n\n{other}", is_field=False).notes == ()
