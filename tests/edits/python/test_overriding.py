"""No member gets a name that another class of the same objects has already."""

import re
from pathlib import Path

import pytest

from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

FILES = {
    "p/__init__.py": "",
    "p/base.py": """class Base:
    size: int = 0

    def __init__(self):
        self.state = 1

    def own(self):
        return 1

    def hook(self):
        return 2

    @property
    def shape(self):
        return 3
""",
    "p/mixed.py": """from p.base import Base


class Mixin:
    def deep(self): ...

    def lone(self): ...


class Both(Mixin, Base): ...
""",
    "p/session.py": """from p.base import Base as Root


class Session(Root):
    limit = 1

    def go(self):
        return self.hook()

    def lower(self):
        self.kept = 1


class Other:
    def free(self): ...


def test():
    class Local(Root):
        def local(self): ...
""",
}


def workspace_of(root: Path) -> Workspace:
    for path, text in FILES.items():
        (root / path).parent.mkdir(exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return Workspace(Repository.open(root))


@pytest.mark.parametrize(
    ("path", "symbol", "new", "other"),
    [
        ("p/session.py", "Session.go", "hook", "Base.hook (p/base.py:10)"),
        ("p/session.py", "Session.go", "state", "Base.state (p/base.py:5)"),
        ("p/session.py", "Session.go", "shape", "Base.shape (p/base.py:14)"),
        ("p/session.py", "Session.limit", "size", "Base.size (p/base.py:2)"),
        ("p/session.py", "Session.kept", "own", "Base.own (p/base.py:7)"),
        ("p/base.py", "Base.own", "lower", "Session.lower (p/session.py:10)"),
        ("p/base.py", "Base.own", "kept", "Session.kept (p/session.py:11)"),
        ("p/base.py", "Base.own", "lone", "Mixin.lone (p/mixed.py:7)"),
        ("p/mixed.py", "Mixin.deep", "hook", "Base.hook (p/base.py:10)"),
        ("p/base.py", "Base.own", "local", "test.Local.local (p/session.py:20)"),
    ],
)
def test_a_name_that_a_class_of_the_same_objects_has_is_refused(
    tmp_path: Path, path: str, symbol: str, new: str, other: str
) -> None:
    with pytest.raises(EditRefusedError, match=re.escape(f"objects of it can have {other}")) as refused:
        rename(workspace_of(tmp_path), path, symbol, new)
    assert refused.value.reason is Refusal.NOT_POSSIBLE


@pytest.mark.parametrize(
    ("path", "symbol", "new"),
    [
        ("p/session.py", "Session.go", "free"),
        ("p/session.py", "Session.go", "lone"),
        ("p/base.py", "Base.own", "__hook"),
        ("p/session.py", "Other.free", "hook"),
    ],
)
def test_a_name_that_only_unrelated_classes_have_is_free(tmp_path: Path, path: str, symbol: str, new: str) -> None:
    assert rename(workspace_of(tmp_path), path, symbol, new).changes.files


def test_a_name_that_it_has_already_is_said_to_be_that(tmp_path: Path) -> None:
    with pytest.raises(EditRefusedError, match="has that name already"):
        rename(workspace_of(tmp_path), "p/base.py", "Base.own", "own")
