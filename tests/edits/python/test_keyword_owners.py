"""A parameter that gets another name keeps its old one where it is passed by name to something else."""

from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import rename_parameter
from khepri.edits.rename.rename import Refactoring, rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

HOME = """\
import threading
from collections import OrderedDict, namedtuple
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypedDict

import attr
from elsewhere import Unknown


class Base:
    def __init__(self, header):
        self.header = header


@dataclass
class Data:
    header: str = ""

    def __call__(self, header):
        return header


@dataclass(kw_only=True)
class Below(Base):
    header: str


class Further(Below): ...


class Tuple(NamedTuple):
    header: str


class Typed(TypedDict):
    header: str


@attr.s
class Attrs:
    header = attr.ib()


class Bare: ...


Made = namedtuple("Made", "header")


def show(header):
    return header


class Table:
    def add(self, header):
        return {0}
"""
OTHERS = [
    "Data(header={0})",
    "Below(header={0})",
    "Further(header={0})",
    "Tuple(header={0})",
    "Typed(header={0})",
    "Attrs(header={0})",
    "Bare(header={0})",
    "Made(header={0})",
    "Unknown(header={0})",
    "Unknown.make(header={0})",
    "Base(header={0})",
    "show(header={0})",
    "dict(header={0})",
    "OrderedDict(header={0})",
    "partial(show, header={0})",
    "replace(Data(), header={0})",
    "Tuple('')._replace(header={0})",
    "'{header}'.format(header={0})",
    "threading.Thread(header={0})",
    "[each(header={0}) for each in self.rows]",
    "(lambda header: header)(header={0})",
    "Data(\n            header={0},\n        )",
]


def named(root: Path, text: str, symbol: str, new: str = "heading") -> Refactoring:
    """Rename the parameter ``header`` of a method in a file of this text."""
    (root / "m.py").write_text(text, encoding="utf-8")
    return rename_parameter(Workspace(Repository.open(root)), "m.py", symbol, "header", new)


@pytest.mark.parametrize("call", OTHERS)
def test_only_the_value_is_renamed_where_something_else_takes_it_by_its_name(tmp_path: Path, call: str) -> None:
    text = HOME.replace("{0}", call.replace("{0}", "header"))
    expected = HOME.replace("{0}", call.replace("{0}", "heading")).replace("add(self, header)", "add(self, heading)")
    done = named(tmp_path, text, "Table.add")
    assert done.changes.files[0].new_text == expected


def test_a_call_of_the_function_itself_is_renamed_beside_its_namesakes(tmp_path: Path) -> None:
    done = named(tmp_path, HOME.replace("{0}", "self.add(header=Data(header=header))"), "Table.add")
    assert "return self.add(heading=Data(header=heading))" in done.changes.files[0].new_text


@pytest.mark.parametrize("made", ["Below", "Further", "Data"])
def test_a_class_made_from_its_fields_is_not_called_with_what_its_base_takes(tmp_path: Path, made: str) -> None:
    text = HOME.replace("{0}", f"{made}(header=header), Base(header=header)")
    done = named(tmp_path, text, "Base.__init__")
    assert f"return {made}(header=header), Base(heading=header)" in done.changes.files[0].new_text


def test_making_an_object_passes_nothing_to_what_calls_it(tmp_path: Path) -> None:
    done = named(tmp_path, HOME.replace("{0}", "Data(header=header)"), "Data.__call__")
    assert "return Data(header=header)" in done.changes.files[0].new_text


@pytest.mark.parametrize(
    "head",
    [
        "import threading\n\n\nclass A(threading.Thread):\n",
        "from dataclasses import dataclass\n\n\n@dataclass\nclass D:\n    header: str\n\n\nclass A(D):\n",
    ],
)
def test_super_in_a_constructor_passes_it_on_to_another_one(tmp_path: Path, head: str) -> None:
    body = "    def __init__(self, {0}):\n        super().__init__(header={0})\n"
    done = named(tmp_path, head + body.replace("{0}", "header"), "A.__init__")
    assert done.changes.files[0].new_text == head + body.replace("{0}", "heading")
    assert not any("__init__ takes" in each or "were left" in each for each in done.notes)


def test_a_function_is_renamed_where_it_is_copied_into_a_field_of_its_name(tmp_path: Path) -> None:
    text = HOME.replace("def show(header)", "def header(show)").replace("{0}", "replace(Data(), header={0})")
    (tmp_path / "m.py").write_text(text.replace("(self, header)", "(self)").replace("{0}", "header"), encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "m.py", "header", "heading")
    assert "return replace(Data(), header=heading)" in done.changes.files[0].new_text


def test_a_field_is_renamed_where_a_variable_of_its_name_is_copied_into_it(tmp_path: Path) -> None:
    text = "from dataclasses import dataclass, replace\n\n\n@dataclass\nclass D:\n    {0}: str\n\n\n"
    text += "def copy(d: D, header):\n    return replace(d, {0}=header)\n"
    (tmp_path / "m.py").write_text(text.replace("{0}", "header"), encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "m.py", "D.header", "heading")
    assert done.changes.files[0].new_text == text.replace("{0}", "heading")
