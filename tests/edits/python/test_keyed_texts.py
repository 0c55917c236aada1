"""A text that is the key to an attribute of a known object is renamed with it, and left and told of any other."""

from pathlib import Path

import pytest

from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

HOME = (
    "from dataclasses import asdict, dataclass, replace\nfrom typing import NamedTuple\n\n\n"
    "{0}:\n    name: str\n\n    def show(self, p: 'P', o):\n        {1}\n"
)
DATACLASS = "@dataclass\nclass P"
TUPLE = "class P(NamedTuple)"


def renamed(root: Path, head: str, line: str) -> tuple[str, tuple[str, ...]]:
    (root / "m.py").write_text(HOME.replace("{0}", head).replace("{1}", line), encoding="utf-8")
    done = rename(Workspace(Repository.open(root)), "m.py", "P.name", "title")
    return done.changes.files[0].new_text.split("\n        ")[-1].rstrip(), done.notes


@pytest.mark.parametrize(
    "line",
    [
        "return asdict(p)['{0}']",
        "return asdict(self).get('{0}', 1)",
        "return dataclasses.asdict(P('a'))['{0}']",
        "return vars(p).pop('{0}')",
        "return p.__dict__['{0}']",
        "return getattr(p, '{0}')",
        "q = P(1); return setattr(q, '{0}', 2)",
        "return P(**{'{0}': 1})",
        "return replace(p, **{'{0}': 1})",
        "return type('Q', (P,), {'{0}': 1})",
    ],
)
def test_a_key_to_a_field_of_a_known_object_is_renamed(tmp_path: Path, line: str) -> None:
    text, notes = renamed(tmp_path, DATACLASS, line.replace("{0}", "name"))
    assert text == line.replace("{0}", "title")
    assert notes == ()


@pytest.mark.parametrize("line", ["return p._asdict()['{0}']", "return p._replace(**{'{0}': 1})"])
def test_a_key_to_a_field_of_a_named_tuple_is_renamed(tmp_path: Path, line: str) -> None:
    assert renamed(tmp_path, TUPLE, line.replace("{0}", "name")) == (line.replace("{0}", "title"), ())


@pytest.mark.parametrize(
    "line",
    [
        "return asdict(o)['name']",
        "return getattr(o, 'name')",
        "return o['name'], p",
        "return o(**{'name': 1})",
        "return vars(p).index('name')",
    ],
)
def test_a_key_to_what_nobody_knows_is_left_and_told(tmp_path: Path, line: str) -> None:
    text, notes = renamed(tmp_path, DATACLASS, line)
    assert text == line
    assert "m.py:10" in "".join(notes)


def test_an_argument_of_a_class_that_is_no_field_is_left(tmp_path: Path) -> None:
    code = "class P:\n    def __init__(self, name):\n        self.name = name\n\n\nP(**{'name': 1})\n"
    (tmp_path / "m.py").write_text(code, encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "m.py", "P.name", "title")
    assert done.changes.files[0].new_text == code.replace("self.name", "self.title")


@pytest.mark.parametrize(
    ("path", "use"),
    [
        ("m.py", "globals()['{0}']"),
        ("m.py", "globals().get('{0}', 1)"),
        ("use.py", "import m\n\nvars(m)['{0}']"),
        ("use.py", "import m as n\n\nn.__dict__['{0}']"),
    ],
)
def test_a_key_to_a_name_of_a_module_is_renamed(tmp_path: Path, path: str, use: str) -> None:
    text = "{0} = 1\n" if path == "m.py" else ""
    (tmp_path / "m.py").write_text("debug = 1\n", encoding="utf-8")
    (tmp_path / path).write_text((text + use).replace("{0}", "debug"), encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "m.py", "debug", "verbose")
    assert {each.path: each.new_text for each in done.changes.files}[path] == (text + use).replace("{0}", "verbose")
    assert done.notes == ()


def test_what_another_module_has_by_the_same_key_is_left(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("debug = 1\n", encoding="utf-8")
    (tmp_path / "use.py").write_text("debug = 2\nglobals()['debug']\n", encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "m.py", "debug", "verbose")
    assert [each.path for each in done.changes.files] == ["m.py"]
