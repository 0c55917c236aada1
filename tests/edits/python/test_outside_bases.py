"""What a base class from outside finds by its name keeps it; of which nobody can tell is told."""

from pathlib import Path

import pytest

from khepri.edits.inlining.inlining import inline
from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.refusal import EditRefusedError
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

TEXT = """import ast
import json
import unittest
from abc import ABC
from enum import Enum
from threading import Thread as Worker
from typing import Generic, NamedTuple, Protocol, TypeVar

from textual.app import App

T = TypeVar("T")


class Encoder(json.JSONEncoder):
    def default(self, o, depth=0): ...

    def own(self, o): ...


class Visitor(ast.NodeVisitor):
    def visit_Name(self, node): ...


class Base(Worker): ...


class Sub(Base):
    def run(self):
        self.step()

    def step(self):
        print(1)

    def again(self):
        self.run()


class Table(dict[str, int]):
    def get(self, key, other=None): ...


class TestIt(unittest.TestCase):
    def setUp(self): ...

    def test_one(self): ...


class Mixin:
    def fetch(self): ...

    def keys(self): ...


class Mixed(Mixin, dict): ...


class Broken(Exception):
    def __init__(self, parts):
        self.parts = parts


class Kept(ABC):
    def register(self): ...


class Plain(Generic[T], Protocol): ...


class Row(NamedTuple):
    size: int


class Colour(Enum):
    RED = 1


class Screen(App):
    def compose(self, x=1):
        return 1

    def use(self):
        return self.compose()
"""


def workspace_of(root: Path) -> Workspace:
    (root / "a.py").write_text(TEXT, encoding="utf-8")
    return Workspace(Repository.open(root))


@pytest.mark.parametrize(
    ("symbol", "new", "base"),
    [
        ("Encoder.default", "other", "json.JSONEncoder"),
        ("Visitor.visit_Name", "visit_Attribute", "ast.NodeVisitor"),
        ("Sub.run", "go", "threading.Thread"),
        ("Table.get", "fetch", "dict"),
        ("TestIt.setUp", "prepare", "unittest.TestCase"),
        ("TestIt.test_one", "check_one", "unittest.TestCase"),
    ],
)
def test_what_python_itself_finds_by_its_name_keeps_it(tmp_path: Path, symbol: str, new: str, base: str) -> None:
    with pytest.raises(EditRefusedError, match=f"is found by this name: {base}, a base class from outside"):
        rename(workspace_of(tmp_path), "a.py", symbol, new)


@pytest.mark.parametrize(
    ("symbol", "new", "base"),
    [
        ("Sub.step", "join", "threading.Thread, a base class"),
        ("Sub.step", "_target", "threading.Thread, a base class"),
        ("Mixin.fetch", "get", "dict, a base class of a.py Mixed"),
        ("Broken.parts", "args", "Exception, a base class"),
        ("Encoder.own", "encode", "json.JSONEncoder, a base class"),
        ("Row.size", "count", "typing.NamedTuple, a base class"),
        ("Colour.RED", "name", "enum.Enum, a base class"),
    ],
)
def test_what_a_base_class_of_python_has_is_not_overridden_by_a_new_name(
    tmp_path: Path, symbol: str, new: str, base: str
) -> None:
    with pytest.raises(EditRefusedError, match=f"would be found by the name {new}: {base}"):
        rename(workspace_of(tmp_path), "a.py", symbol, new)


def test_a_mixin_overrides_what_it_is_mixed_with(tmp_path: Path) -> None:
    with pytest.raises(EditRefusedError, match=r"by this name: dict, a base class of a.py Mixed from outside"):
        rename(workspace_of(tmp_path), "a.py", "Mixin.keys", "names")


@pytest.mark.parametrize(
    ("symbol", "new"),
    [
        ("Encoder.own", "other"),
        ("Sub.step", "go"),
        ("Sub.step", "__str__"),
        ("Kept.register", "enter"),
        ("TestIt.test_one", "test_two"),
        ("Row.size", "n"),
        ("Colour.RED", "R"),
    ],
)
def test_what_is_new_in_a_class_may_be_called_anything(tmp_path: Path, symbol: str, new: str) -> None:
    assert rename(workspace_of(tmp_path), "a.py", symbol, new).notes == ()


def test_a_method_that_python_calls_is_not_inlined_and_one_of_ours_is(tmp_path: Path) -> None:
    with pytest.raises(EditRefusedError, match=r"threading\.Thread, a base class from outside"):
        inline(workspace_of(tmp_path), "a.py", "Sub.run")
    assert "def step" not in inline(workspace_of(tmp_path), "a.py", "Sub.step").changes.files[0].new_text


def test_a_base_class_that_nobody_knows_is_told(tmp_path: Path) -> None:
    note = "Screen inherits textual.app.App from outside: see that nothing there knows compose"
    told = f"{note} or made"
    assert rename(workspace_of(tmp_path), "a.py", "Screen.compose", "made").notes == (told,)
    assert inline(workspace_of(tmp_path), "a.py", "Screen.compose").notes == (note,)
    assert note in remove_parameter(workspace_of(tmp_path), "a.py", "Screen.compose", "x").notes


def test_a_parameter_that_callers_from_outside_pass_stays_one(tmp_path: Path) -> None:
    with pytest.raises(EditRefusedError, match=r"overrides that of json\.JSONEncoder, whose callers pass it"):
        remove_parameter(workspace_of(tmp_path), "a.py", "Encoder.default", "o")
    (note,) = rename_parameter(workspace_of(tmp_path), "a.py", "Encoder.default", "o", "thing").notes
    assert "whose callers may pass o by its name" in note
    assert not remove_parameter(workspace_of(tmp_path), "a.py", "Encoder.default", "depth").notes


MADE = (
    "from collections import namedtuple\nfrom typing import NamedTuple\n\n\nclass P({0}):\n    def total(self): ...\n"
)


@pytest.mark.parametrize(
    "base",
    [
        "namedtuple('P', 'x y')",
        "collections.namedtuple('P', ['x', 'y'], defaults=(1,))",
        "NamedTuple('P', [('x', int), ('y', int)])",
    ],
)
def test_a_field_of_a_named_tuple_that_is_made_as_a_base_is_not_taken(tmp_path: Path, base: str) -> None:
    (tmp_path / "m.py").write_text(MADE.format(base), encoding="utf-8")
    workspace = Workspace(Repository.open(tmp_path))
    with pytest.raises(EditRefusedError, match="would be found by the name x"):
        rename(workspace, "m.py", "P.total", "x")
    assert rename(workspace, "m.py", "P.total", "whole").notes == ()


@pytest.mark.parametrize("base", ["make_base()", "with_metaclass(Meta, Base)", "namedtuple('P', FIELDS)", "BASES[0]"])
def test_a_base_that_nobody_knows_before_it_is_made_is_told(tmp_path: Path, base: str) -> None:
    (tmp_path / "m.py").write_text(MADE.format(base).replace("BASES[0]", "(A or B)"), encoding="utf-8")
    shown = base.replace("BASES[0]", "A or B")
    assert rename(Workspace(Repository.open(tmp_path)), "m.py", "P.total", "whole").notes == (
        f"P inherits what {shown} makes: see that nothing there knows total or whole",
    )
