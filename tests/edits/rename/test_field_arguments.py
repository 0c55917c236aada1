"""A field is renamed in the calls that make objects of its class where it is an argument of them, and only there."""

from pathlib import Path

import pytest

from khepri.edits.rename.rename import Refactoring, rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

HEAD = """import functools
from dataclasses import dataclass, field
from typing import ClassVar, TypedDict

import attr
from django.db import models
from pydantic import BaseModel


"""
USE = "from home import Item\n\nitem = Item(cost=1)\nprint(item.{0})\n"


def renamed(root: Path, home: str, use: str) -> Refactoring:
    (root / "home.py").write_text(HEAD + home.replace("{0}", "cost"), encoding="utf-8")
    (root / "use.py").write_text(use.replace("{0}", "cost"), encoding="utf-8")
    return rename(Workspace(Repository.open(root)), "home.py", "Item.cost", "price")


@pytest.mark.parametrize(
    "home",
    [
        "@dataclass\nclass Item:\n    {0}: int\n\n    def __init__(self, cost):\n        self.{0} = cost\n",
        "@dataclass(init=False)\nclass Item:\n    {0}: int = 0\n\n    def __init__(self, **given): ...\n",
        "@dataclass\nclass Item:\n    {0}: int = field(init=False)\n\n    def __new__(cls, cost): ...\n",
        "@dataclass\nclass Item:\n    {0}: ClassVar[int] = 0\n\n    def __init__(self, **cost): ...\n",
    ],
)
def test_what_a_written_constructor_takes_keeps_its_name(tmp_path: Path, home: str) -> None:
    done = renamed(tmp_path, home, USE)
    assert {each.path: each.new_text for each in done.changes.files} == {
        "home.py": HEAD + home.replace("{0}", "price"),
        "use.py": USE.replace("{0}", "price"),
    }


@pytest.mark.parametrize(
    ("home", "use"),
    [
        ("@dataclass\nclass Item:\n    {0}: int\n", "from home import Item\n\nItem({0}=1).{0}\n"),
        (
            "class Item(BaseModel):\n    {0}: int\n\n    def __init__(self, **kw):\n        super().__init__(**kw)\n",
            "from home import Item\n\nItem({0}=1).{0}\n",
        ),
        (
            "@dataclass\nclass Item:\n    {0}: int\n\n\n@dataclass\nclass Big(Item):\n    size: int\n",
            "from home import Big\n\nBig({0}=1, size=2).{0}\n",
        ),
        (
            "@dataclass\nclass Item:\n    {0}: int\n\n\nfree = functools.partial(Item, {0}=0)\n",
            "from functools import partial\nfrom home import Item\n\nmake = partial(Item, {0}=1)\n",
        ),
        (
            "class Base(BaseModel): ...\n\n\nclass Item(Base):\n    {0}: int\n",
            "from home import Item\n\nItem({0}=1).{0}\n",
        ),
        (
            "class Base(TypedDict): ...\n\n\nclass Item(Base):\n    {0}: int\n",
            "from home import Item\n\nitem = Item({0}=1)\n",
        ),
        ("class Item(models.Model):\n    {0} = models.Text()\n", "from home import Item\n\nItem({0}='a').{0}\n"),
        ("@attr.s\nclass Item:\n    {0} = attr.ib()\n", "from home import Item\n\nItem({0}='a').{0}\n"),
    ],
)
def test_what_a_constructor_made_from_the_fields_takes_is_renamed(tmp_path: Path, home: str, use: str) -> None:
    done = renamed(tmp_path, home, use)
    assert {each.path: each.new_text for each in done.changes.files} == {
        "home.py": HEAD + home.replace("{0}", "price"),
        "use.py": use.replace("{0}", "price"),
    }


@pytest.mark.parametrize("base", ["library.Thing", "make_base()"])
def test_what_a_constructor_from_outside_may_take_is_left_and_told(tmp_path: Path, base: str) -> None:
    done = renamed(tmp_path, f"import library\n\n\nclass Item({base}):\n    {{0}} = 1\n", USE)
    assert {each.path: each.new_text for each in done.changes.files}["use.py"] == USE.replace("{0}", "price")
    assert "cost is passed by name to what nobody knows at use.py:3, and was left there" in done.notes


def test_what_a_constructor_of_python_takes_is_none_of_a_field(tmp_path: Path) -> None:
    done = renamed(tmp_path, "import threading\n\n\nclass Item(threading.Thread):\n    {0} = 1\n", USE)
    assert {each.path: each.new_text for each in done.changes.files}["use.py"] == USE.replace("{0}", "price")
    assert done.notes == ()
