"""A definition that a text names is renamed there if nothing else can be meant, and is not inlined."""

from pathlib import Path

import pytest

from khepri.edits.inlining.inlining import inline
from khepri.edits.moving.refactor import move
from khepri.edits.refusal import EditRefusedError
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

HOME = (
    "class C:\n    def {0}(self):\n        return 1\n\n    def start(self):\n        return self.{0}()\n\n\n"
    "def {1}():\n    return 2\n\n\nVALUE = {1}()\n"
)


def workspace_of(root: Path, use: str) -> Workspace:
    (root / "p").mkdir()
    (root / "p/__init__.py").write_text("", encoding="utf-8")
    (root / "p/a.py").write_text(HOME.format("go", "load"), encoding="utf-8")
    (root / "p/b.py").write_text("from p.a import C, load\n\n\nclass D(C): ...\n", encoding="utf-8")
    (root / "t.py").write_text(use, encoding="utf-8")
    return Workspace(Repository.open(root))


METHOD_USES = [
    "from p.a import C\nsetattr(C, '{0}', 1)\n",
    'import p.b\nmonkeypatch.setattr(p.b.D, "{0}", 1)\n',
    "from p import a as m\nwith mock.patch.object(m.C, '{0}'): ...\n",
    "mock.patch('p.a.C.{0}')\n",
    "mock.patch('p.b.C.{0}')\n",
    "from p.a import C\n\n\nclass E(C):\n    def f(self):\n        return getattr(self, '{0}')\n",
    "from p.a import C\n\n\nclass E(C):\n    def f(self):\n        object.__setattr__(self, '{0}', 1)\n",
]
FUNCTION_USES = [
    "import p.a\nmonkeypatch.setattr(p.a, '{0}', 1)\n",
    "from p import b\nmocker.patch.object(b, '{0}')\n",
    "mock.patch('p.b.{0}')\n",
]


@pytest.mark.parametrize("use", METHOD_USES)
def test_a_method_is_renamed_where_a_text_beside_its_class_names_it(tmp_path: Path, use: str) -> None:
    done = rename(workspace_of(tmp_path, use.format("go")), "p/a.py", "C.go", "run")
    assert {each.path: each.new_text for each in done.changes.files}["t.py"] == use.format("run")
    assert not done.notes


@pytest.mark.parametrize("use", FUNCTION_USES)
def test_a_function_is_renamed_where_a_text_beside_a_module_that_has_it_names_it(tmp_path: Path, use: str) -> None:
    done = rename(workspace_of(tmp_path, use.format("load")), "p/a.py", "load", "fetch")
    assert {each.path: each.new_text for each in done.changes.files}["t.py"] == use.format("fetch")


@pytest.mark.parametrize(
    "use",
    [
        "def f(x):\n    return getattr(x, 'go')\n",
        "from os import path\nsetattr(path, 'go', 1)\n",
        "from p.a import C\nsetattr(C, '''go''', 1)\n",
        "from operator import attrgetter\nget = attrgetter('a', 'b', 'go')\n",
    ],
)
def test_a_text_beside_something_else_stays_and_is_told(tmp_path: Path, use: str) -> None:
    done = rename(workspace_of(tmp_path, use), "p/a.py", "C.go", "run")
    assert [each.path for each in done.changes.files] == ["p/a.py"]
    assert "go also stands in strings" in done.notes[-1]


@pytest.mark.parametrize(
    ("symbol", "use"),
    [
        *(("C.go", each.format("go")) for each in METHOD_USES),
        *(("load", each.format("load")) for each in FUNCTION_USES),
        ("C.go", "def f(x):\n    return getattr(x, 'go')\n"),
        ("load", "mock.patch.multiple('p.a', load=1)\n"),
    ],
)
def test_what_a_text_names_is_not_inlined(tmp_path: Path, symbol: str, use: str) -> None:
    with pytest.raises(EditRefusedError, match=r"t.py:\d+ has it by a text that names it"):
        inline(workspace_of(tmp_path, use), "p/a.py", symbol)


@pytest.mark.parametrize(
    ("use", "line"),
    [
        ("from importlib import import_module\nm = import_module('p.a')\nm.load()\n", 3),
        ("import sys\nsys.modules['p.a'].load()\n", 2),
        ("LAZY = {'load': 'p.a'}\n", 1),
    ],
)
def test_a_module_that_is_loaded_by_a_text_is_told(tmp_path: Path, use: str, line: int) -> None:
    workspace = workspace_of(tmp_path, use)
    note = f"t.py:{line} loads p.a by a text and may have load from there"
    assert any(each.startswith(note) for each in rename(workspace, "p/a.py", "load", "fetch").notes)
    (tmp_path / "p/a.py").write_text(HOME.format("go", "load").replace("VALUE = load()\n", ""), encoding="utf-8")
    assert note in move(Workspace(Repository.open(tmp_path)), "p/a.py", "load", "p/c.py").notes


@pytest.mark.parametrize("call", ["object()", "spy(name='go')", "getattr(*pair)", "attrgetter()"])
def test_a_call_without_names_names_nothing(tmp_path: Path, call: str) -> None:
    done = rename(workspace_of(tmp_path, f"word = 'go'\nvalue = {call}\n"), "p/a.py", "C.go", "run")
    assert [each.path for each in done.changes.files] == ["p/a.py"]


def test_an_attribute_of_an_import_is_none_of_a_module_that_is_loaded_by_a_text(tmp_path: Path) -> None:
    use = "import json\nfrom importlib import import_module\nm = import_module('p.a')\njson.load(m)\n"
    assert rename(workspace_of(tmp_path, use), "p/a.py", "load", "fetch").notes == ()
