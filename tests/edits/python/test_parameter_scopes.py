"""A parameter is a binding of its own: what else is called like it is renamed without it."""

from pathlib import Path

import pytest

from khepri.edits.python.parameter_scopes import ParameterScopes
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


def renamed(root: Path, files: dict[str, str], path: str, symbol: str, new: str) -> dict[str, str]:
    for each, text in files.items():
        (root / each).parent.mkdir(parents=True, exist_ok=True)
        (root / each).write_text(text, encoding="utf-8")
    workspace = Workspace(Repository.open(root))
    changed = rename(workspace, path, symbol, new).changes
    return files | {each.path: each.new_text for each in changed.files}


@pytest.mark.parametrize(
    "text",
    [
        "def limit(): return 1\n\n\ndef make(*, limit: int = 5): return limit\n\n\nx = make(limit=3) + limit()\n",
        "def limit(): return 1\n\n\ndef make(*, limit=5): return limit\n\n\nx = make(limit=3) + limit()\n",
        "def limit(): return 1\n\n\ndef make(*, limit: int = limit()): return [limit for _ in limit]\n\n\nmake()\n",
        "def limit(): return 1\n\n\nasync def make(a, *, limit: int):\n    def inner():\n        return limit\n",
        "limit = 1\n\n\nclass A:\n    def make(self, *, limit: int = limit):\n        self.limit = limit\n\n\n"
        "A(limit=3)\n",
    ],
)
def test_a_keyword_only_parameter_keeps_its_name_when_a_namesake_is_renamed(tmp_path: Path, text: str) -> None:
    after = renamed(tmp_path, {"a.py": text}, "a.py", "limit", "cap")["a.py"]
    wanted = text.replace("def limit()", "def cap()").replace("+ limit()", "+ cap()")
    wanted = wanted.replace("= limit()", "= cap()").replace("int = limit)", "int = cap)")
    assert after == (wanted.replace("limit = 1\n", "cap = 1\n", 1) if text.startswith("limit") else wanted)


def test_a_renamed_module_leaves_the_parameters_that_are_called_like_it(tmp_path: Path) -> None:
    table = "from . import box\n\n\nclass Table:\n    def __init__(self, *, box: box.Box | None = box.HEAVY):\n"
    table += "        self.box = box or 1\n"
    files = {
        "rich/__init__.py": "",
        "rich/box.py": "class Box: ...\n\n\nHEAVY = Box()\n",
        "rich/table.py": table,
        "use.py": "from rich.table import Table\n\nTable(box=None)\n",
    }
    after = renamed(tmp_path, files, "rich/box.py", "", "boxes")
    assert "*, box: boxes.Box | None = boxes.HEAVY" in after["rich/table.py"]
    assert "self.box = box or 1" in after["rich/table.py"]
    assert after["use.py"] == files["use.py"]


def test_a_renamed_property_leaves_the_parameters_that_are_called_like_it(tmp_path: Path) -> None:
    text = (
        "class Client:\n    def __init__(self, *, timeout: int = 5):\n        self._timeout = timeout\n\n"
        "    @property\n    def timeout(self):\n        return self._timeout\n\n"
        "    def get(self, *, timeout: int = 1):\n        return timeout + self.timeout\n\n\n"
        "Client(timeout=1).get(timeout=2)\n"
    )
    after = renamed(tmp_path, {"a.py": text}, "a.py", "Client.timeout", "limit")["a.py"]
    assert after == text.replace("def timeout", "def limit").replace("self.timeout", "self.limit")


TEXT = """def f(x, y=x):
    class A:
        x = x
        def g(self): return x
    def h():
        nonlocal x
        x = 1
    def i():
        x = 2
        return x
    def j():
        global x
        return x
    call(x=x, y=[x for x in x], z=a.x)
    return lambda: x
x
"""
MEANT = """def f(?, y=x):
    class A:
        x = x
        def g(self): return ?
    def h():
        nonlocal ?
        ? = 1
    def i():
        x = 2
        return x
    def j():
        global x
        return x
    call(x=?, y=[x for x in ?], z=a.x)
    return lambda: ?
x
"""


def test_scopes_are_told_apart_as_python_does() -> None:
    scopes = ParameterScopes(TEXT, "x")
    found = "".join("?" if mark == "x" and place in scopes else mark for place, mark in enumerate(TEXT))
    assert found == MEANT
    assert 0 not in ParameterScopes("def f(:", "x")


def test_a_variable_of_a_generator_that_is_called_like_a_method_keeps_its_name(tmp_path: Path) -> None:
    text = "class A:\n    def match(self): ...\n\n\ndef f(x):\n    return list(\n"
    text += "        match.end() for match in x.found\n    ) + x.match()\n"
    after = renamed(tmp_path, {"a.py": text}, "a.py", "A.match", "fit")["a.py"]
    assert after == text.replace("def match", "def fit").replace("x.match", "x.fit")
