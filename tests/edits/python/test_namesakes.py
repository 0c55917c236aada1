"""What is only called like a function is no use of it, and stands in the way of nothing."""

from pathlib import Path

import pytest

from khepri.edits.inlining.inlining import inline
from khepri.edits.locate import find_python
from khepri.edits.python.namesakes import Namesakes
from khepri.edits.refusal import EditRefusedError
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

NET = """def unquote(text):
    return text.strip('"')


class Talk:
    def send(self, text):
        return unquote(text)
"""


def workspace_of(root: Path, files: dict[str, str]) -> Workspace:
    for path, text in {"pkg/__init__.py": "", "pkg/net.py": NET, **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return Workspace(Repository.open(root))


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("from pkg.net import unquote\nunquote(1)\n", [1, 2]),
        ("from pkg.net import unquote as clean\nclean(1)\n", [1]),
        ("from .net import *\nunquote(1)\n", [2]),
        ("import pkg.net\npkg.net.unquote(1)\n", [2]),
        ("from pkg import net as web\nweb.unquote(1)\n", [2]),
        ("from pkg.through import unquote\nunquote(1)\n", [1, 2]),
        ("import importlib\nx = importlib.import_module('pkg.net')\nx.unquote(1)\n", [3]),
        ("from urllib.parse import unquote\nunquote(1)\n", []),
        ("import urllib.parse\nurllib.parse.unquote(1)\n", []),
        ("def unquote(x): ...\nunquote(1)\n", []),
        ("def f(x):\n    return x.unquote(1)\n", []),
        ("f(unquote=True)\n", []),
        ("unquote(\n", []),
    ],
)
def test_a_function_is_used_where_it_can_be_reached(tmp_path: Path, text: str, lines: list[int]) -> None:
    files = {"pkg/use.py": text, "pkg/through.py": "from pkg.net import unquote\n"}
    workspace = workspace_of(tmp_path, files)
    found = Namesakes(workspace, find_python(workspace, "pkg/net.py", "unquote"))
    assert list(found.places("pkg/use.py").values()) == lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("def f(x):\n    return x.send(1)\n", [2]),
        ("from pkg.net import Talk\nTalk.send(1)\n", [2]),
        ("import socket\nsocket.send(1)\n", []),
        ("send = 1\n", []),
    ],
)
def test_a_method_may_be_called_on_what_nobody_knows(tmp_path: Path, text: str, lines: list[int]) -> None:
    workspace = workspace_of(tmp_path, {"use.py": text})
    found = Namesakes(workspace, find_python(workspace, "pkg/net.py", "Talk.send"))
    assert list(found.places("use.py").values()) == lines


def test_a_function_is_inlined_past_others_of_its_name(tmp_path: Path) -> None:
    other = "from urllib.parse import unquote\n\nx = unquote('a') * 2\nunquote(unquote)\n"
    done = inline(workspace_of(tmp_path, {"pkg/other.py": other}), "pkg/net.py", "unquote")
    assert [change.path for change in done.changes.files] == ["pkg/net.py"]
    assert "return text.strip('\"')" in done.changes.files[0].new_text


def test_what_nothing_calls_is_not_removed_by_inlining_it(tmp_path: Path) -> None:
    workspace = workspace_of(tmp_path, {"use.py": "import shelve\n\nshelve.send(1)\n"})
    with pytest.raises(EditRefusedError, match="nothing calls"):
        inline(workspace, "pkg/net.py", "Talk.send")
