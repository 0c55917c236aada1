"""A definition that moves takes the imports that it needs, leaves the others, and stands for the same as before."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from khepri.edits.inlining.inlining import inline
from khepri.edits.moving.moving import moved
from khepri.edits.moving.refactor import move
from khepri.edits.python.origins import Module
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

NET = """\"\"\"Fetch things.\"\"\"

from __future__ import annotations

import json
import os.path
import sys  # noqa: F401
import xml.dom
import xml.sax
from typing import TYPE_CHECKING, List

import pkg.plugins
from .models import (
    Answer,
    Question,
    Reply,
)

if TYPE_CHECKING:
    from pkg.shapes import Shape

try:
    import orjson
except ImportError:
    orjson = None

LIMIT = 3


# How it is fetched.
def fetch(url: Shape, kind: "List[Place]") -> "Question":
    from . import shapes

    return orjson, Answer, os.path.join(url, "a"), xml.sax, LIMIT, shapes


class Place: ...


def stay() -> Reply:
    return json.dumps(os.path.sep)
"""


def between(source: str, goal: str = "", name: str = "f", path: str = "pkg/goal.py") -> tuple[str, str]:
    node = next(node for node in ast.parse(source).body if name in (getattr(node, "name", ""), *_assigned(node)))
    first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", []))])
    assert node.end_lineno is not None
    there = path.removesuffix(".py").replace("/", ".")
    return moved(
        Module("pkg.net", "pkg", "pkg/net.py", source),
        Module(there, there.rpartition(".")[0], path, goal),
        name,
        (first, node.end_lineno),
        {"Reply"},
    )


def _assigned(node: ast.stmt) -> list[str]:
    return [each.id for each in node.targets if isinstance(each, ast.Name)] if isinstance(node, ast.Assign) else []


def test_what_only_the_definition_needed_goes_and_everything_else_stays() -> None:
    left, _ = between(NET, name="fetch")
    for gone in ("How it is fetched", "xml.sax", "List", "Question", "Shape", "TYPE_CHECKING", "Answer"):
        assert gone not in left
    assert left.startswith('"""Fetch things."""\n\nfrom __future__ import annotations\n\nimport json\nimport os.path\n')
    for kept in ("import sys  # noqa: F401\nimport xml.dom\n", "import pkg.plugins\n", "    import orjson\n"):
        assert kept in left
    assert "from .models import (\n    Reply,\n)\n" in left


def test_what_a_definition_needs_comes_with_it_quoted_types_too() -> None:
    _, received = between(NET, '"""Goal."""\n\nimport json\nfrom .models import Answer\n\n\ndef own(): ...\n', "fetch")
    assert received == (
        '"""Goal."""\n\nfrom __future__ import annotations\n\n'
        "import json\nfrom .models import Answer\nimport os.path\nimport xml.sax\n"
        "from pkg.net import LIMIT, orjson\nfrom typing import List, TYPE_CHECKING\n\n"
        "if TYPE_CHECKING:\n    from pkg.models import Question\n    from pkg.net import Place\n"
        "    from pkg.shapes import Shape\n\n\ndef own(): ...\n\n\n# How it is fetched.\n"
        + NET[NET.index("def fetch") : NET.index("\n\n\nclass Place")]
        + "\n"
    )


def test_relative_imports_in_a_body_mean_the_same_in_another_package() -> None:
    _, received = between(NET, name="fetch", path="other/goal.py")
    assert "    from pkg import shapes\n" in received


@pytest.mark.parametrize(
    ("source", "goal", "expected"),
    [
        ("def f(): ...\n\n\nx = f()\n", "", "from pkg.goal import f\n\nx = f()\n"),
        ('def f(): ...\n\n\ndef g() -> "f": ...\n', "", "if TYPE_CHECKING:\n    from pkg.goal import f\n"),
        ("from os import *\n\n\ndef f(): ...\n\n\ndef g():\n    return f\n", "", "from pkg.goal import f\n"),
        ("def f(): ...\n", "", ""),
    ],
)
def test_a_file_that_still_uses_what_has_moved_imports_it(source: str, goal: str, expected: str) -> None:
    left, _ = between(source, goal)
    assert expected in left
    assert ("import f" in left) is bool(expected)


@pytest.mark.parametrize(
    ("source", "goal", "expected"),
    [
        ("def f(): ...\n", "", "def f(): ...\n"),
        ("def f(): ...\n", "x = 1\n", "x = 1\n\n\ndef f(): ...\n"),
        ("def f(): ...\n", "def g(): ...\n\n\nx = f()\n", "def g(): ...\n\n\ndef f(): ...\n\n\nx = f()\n"),
        (
            "def f(): ...\n",
            "def g(): ...\n\n\n# Start.\nif __name__ == '__main__':\n    g()\n",
            "def g(): ...\n\n\ndef f(): ...\n\n\n# Start.\nif __name__ == '__main__':\n    g()\n",
        ),
        ("f = 3\n", "x = 1\n\n\ndef g(): ...\n", "x = 1\n\nf = 3\n\n\ndef g(): ...\n"),
        ("from pkg.goal import B\n\n\nclass f(B): ...\n", "class B: ...\n", "class B: ...\n\n\nclass f(B): ...\n"),
        (
            "def f(): ...\n",
            "from .net import f, g\n\nx = g(f)\n",
            "from .net import g\n\n\ndef f(): ...\n\n\nx = g(f)\n",
        ),
        ("from os import *\n\n\ndef f():\n    return sep\n", "", "from os import *\n\n\ndef f():\n    return sep\n"),
        ("from typing import Any\n\n\ndef f(): return Any\n", "from typing import Any as Any\n", None),
        ("from typing import Sized\n\n\ndef f(): return Sized\n", "from collections.abc import Sized\n", None),
    ],
)
def test_a_definition_comes_where_all_that_it_needs_is_there(source: str, goal: str, expected: str | None) -> None:
    _, received = between(source, goal)
    assert received == (expected if expected is not None else f"{goal}\n\n{source.partition(chr(10) * 3)[2]}")


@pytest.mark.parametrize(
    ("source", "goal", "message"),
    [
        ("import a\n\n\ndef f():\n    return a\n", "import b as a\n", "uses a, which stands for something else"),
        ("def f():\n    return open\n", "def open(): ...\n", "uses open, which stands for something else"),
        ("n = 0\n\n\ndef g():\n    global n\n    n = 1\n\n\ndef f():\n    return n\n", "", "assign as a global"),
        ("f = g = 1\n", "", "holds more than f"),
        ("x = 1; f = 2\n", "", "holds more than f"),
    ],
)
def test_what_would_mean_something_else_there_is_refused(source: str, goal: str, message: str) -> None:
    with pytest.raises(EditRefusedError, match=message) as caught:
        between(source, goal)
    assert caught.value.reason is Refusal.NOT_POSSIBLE


def test_nothing_is_imported_from_a_file_whose_name_is_none_in_python(tmp_path: Path) -> None:
    files = {"my-script.py": "def f(): ...\n\n\ndef g():\n    return f\n", "goal.py": "def x(): ...\n"}
    workspace = _repository(tmp_path, files)
    for path, name, goal in (("goal.py", "x", "my-script.py"), ("my-script.py", "g", "goal.py")):
        with pytest.raises(EditRefusedError, match=r"my-script.py cannot be imported"):
            move(workspace, path, name, goal)
    assert move(workspace, "my-script.py", "f", "goal.py").changes.paths == ("goal.py", "my-script.py")


@pytest.mark.parametrize("broken", ["pkg/net.py", "pkg/goal.py"])
def test_nothing_moves_out_of_or_into_what_is_no_python(tmp_path: Path, broken: str) -> None:
    files = {"pkg/net.py": "def f(): ...\n", "pkg/goal.py": "x = 1\n"}
    files[broken] += "\n\ndef (:\n"
    with pytest.raises(EditRefusedError):
        move(_repository(tmp_path, files), "pkg/net.py", "f", "pkg/goal.py")


def _repository(root: Path, files: dict[str, str]) -> Workspace:
    for path, text in {"pkg/__init__.py": "", **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return Workspace(Repository.open(root))


def test_other_files_keep_what_they_import_and_pass_on(tmp_path: Path) -> None:
    files = {
        "pkg/net.py": "import os\n\n\ndef f():\n    return os\n\n\ndef g(): ...\n",
        "pkg/use.py": "from pkg.net import f, g\nfrom pkg.net import os\n\nprint(f)\n",
        "pkg/all.py": 'from pkg.net import *\n\n__all__ = ["f"]\n',
        "pkg/open.py": "from .net import *\n",
        "pkg/few.py": 'from pkg.net import *\n\n__all__ = ["g"]\n',
    }
    changes = move(_repository(tmp_path, files), "pkg/net.py", "f", "pkg/goal.py").changes
    after = {change.path: change.new_text for change in changes.files}
    assert after["pkg/net.py"] == "import os\n\n\ndef g(): ...\n"
    assert after["pkg/use.py"] == "from pkg.net import g\nfrom pkg.goal import f\nfrom pkg.net import os\n\nprint(f)\n"
    assert "from pkg.goal import f\n" in after["pkg/all.py"]
    assert "from pkg.goal import f\n" in after["pkg/open.py"]
    assert "pkg/few.py" not in after


def test_what_only_type_checkers_still_have_is_not_passed_on_any_more(tmp_path: Path) -> None:
    files = {
        "pkg/net.py": '__all__ = ["f", "g"]\n\n\nclass f: ...\n\n\ndef g() -> "f": ...\n',
        "pkg/all.py": 'from .net import *\n\n__all__ = ["f"]\n',
    }
    changes = move(_repository(tmp_path, files), "pkg/net.py", "f", "pkg/goal.py").changes
    after = {change.path: change.new_text for change in changes.files}
    assert after["pkg/net.py"].endswith('__all__ = ["g"]\n\n\ndef g() -> "f": ...\n')
    assert "if TYPE_CHECKING:\n    from pkg.goal import f\n" in after["pkg/net.py"]
    assert "from pkg.goal import f\n" in after["pkg/all.py"]


def test_a_circle_by_way_of_other_modules_is_refused(tmp_path: Path) -> None:
    files = {
        "pkg/net.py": "def f(): ...\n\n\nx = f()\ny = 1\n",
        "pkg/goal.py": "from pkg.parts.leaf import z\n",
        "pkg/parts/__init__.py": "from .other import *\n",
        "pkg/parts/leaf.py": "z = 1\n",
        "pkg/parts/other.py": "from pkg.net import y\n",
    }
    with pytest.raises(EditRefusedError, match=r"each other, by way of pkg/parts/other\.py"):
        move(_repository(tmp_path, files), "pkg/net.py", "f", "pkg/goal.py")


@pytest.mark.parametrize(
    "start",
    [
        "try:\n    from .slow import crunch\nexcept ImportError:\n    crunch = None\n",
        "import os\n\nif os.name:\n    from .slow import crunch\n",
        "import contextlib\n\nwith contextlib.suppress(ImportError):\n    from .slow import crunch\n",
    ],
)
def test_a_circle_through_an_import_that_may_run_is_refused(tmp_path: Path, start: str) -> None:
    files = {"p/__init__.py": start, "p/slow.py": "def memo(f): return f\n\n\n@memo\ndef crunch(): ...\n"}
    with pytest.raises(EditRefusedError, match="would import from each other"):
        move(_repository(tmp_path, files), "p/slow.py", "memo", "p/__init__.py")


def test_what_the_old_file_has_for_type_checkers_alone_is_not_imported_as_it_runs(tmp_path: Path) -> None:
    head = "from __future__ import annotations\n\nTYPE_CHECKING = False\nif TYPE_CHECKING:\n    Number = float | str\n"
    files = {"p/__init__.py": "", "p/a.py": f"{head}{{}}\n\ndef f(x: Number): ...\n", "p/b.py": ""}
    plain = {path: text.format("") for path, text in files.items()}
    with pytest.raises(EditRefusedError, match=r"p/b\.py would import Number, which p/a\.py has for type"):
        move(_repository(tmp_path, plain), "p/a.py", "f", "p/b.py")
    both = {path: text.format("else:\n    Number = object\n") for path, text in files.items()}
    assert move(_repository(tmp_path, both), "p/a.py", "f", "p/b.py").changes.files


def test_an_import_for_type_checkers_alone_makes_no_circle(tmp_path: Path) -> None:
    start = "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from .slow import crunch\n"
    files = {"p/__init__.py": start, "p/slow.py": "def memo(f): return f\n\n\n@memo\ndef crunch(): ...\n"}
    done = move(_repository(tmp_path, files), "p/slow.py", "memo", "p/__init__.py")
    assert {each.path for each in done.changes.files} == {"p/__init__.py", "p/slow.py"}


def test_a_circle_that_begins_with_the_import_of_a_module_is_refused(tmp_path: Path) -> None:
    files = {
        "pkg/net.py": "from pkg import goal\n\nA = 1\n\n\ndef f():\n    return A\n\n\ndef h():\n    return goal.g()\n",
        "pkg/goal.py": "import pkg.net\n\n\ndef g():\n    return pkg.net.f()\n",
    }
    workspace = _repository(tmp_path, files)
    with pytest.raises(EditRefusedError, match="would import from each other"):
        move(workspace, "pkg/net.py", "f", "pkg/goal.py")
    with pytest.raises(EditRefusedError, match="would import from each other"):
        inline(workspace, "pkg/net.py", "f")
    # Modules that only know one another find each other while they run.
    assert move(workspace, "pkg/goal.py", "g", "pkg/late.py").changes.paths == (
        "pkg/goal.py",
        "pkg/late.py",
        "pkg/net.py",
    )


def test_a_new_file_takes_over_what_the_old_one_had_of_the_package_around_both(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "V = 2\n\nfrom .net import f, g\n",
        "pkg/net.py": "from . import V\n\n\ndef f():\n    return V\n\n\ndef g():\n    return f()\n",
    }
    workspace = _repository(tmp_path, files)
    changes = move(workspace, "pkg/net.py", "f", "pkg/goal.py").changes
    for change in changes.files:
        (tmp_path / change.path).write_text(change.new_text, encoding="utf-8")
    for first in ("pkg", "pkg.net", "pkg.goal"):
        subprocess.run([sys.executable, "-c", f"import {first}, pkg; assert pkg.g() == 2"], cwd=tmp_path, check=True)


def test_what_is_added_to_the_public_names_later_is_one_of_them(tmp_path: Path) -> None:
    head = '__all__ = ["g"]\n__all__.append("f")\n__all__ += ["h"]\n'
    files = {
        "pkg/net.py": head + "\n\ndef f(): ...\n\n\ndef g(): ...\n\n\ndef h(): ...\n",
        "pkg/all.py": "from .net import *\n",
    }
    changes = move(_repository(tmp_path, files), "pkg/net.py", "f", "pkg/goal.py").changes
    after = {change.path: change.new_text for change in changes.files}
    assert after["pkg/net.py"].startswith('__all__ = ["g"]\n__all__ += ["h"]\n')
    assert "from pkg.goal import f\n" in after["pkg/all.py"]


def test_a_name_that_leaves_the_public_names_of_its_module_is_told_with_its_place(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "from . import net\n",
        "pkg/net.py": '__all__ = [\n    "f",\n    "g",\n]\n\n\ndef f(): ...\n\n\ndef g(): ...\n\n\ndef h(): ...\n',
        "pkg/listed.py": '__all__ = ["x"]\nx = 1\n',
    }
    workspace = _repository(tmp_path, files)
    (note,) = move(workspace, "pkg/net.py", "f", "pkg/goal.py").notes
    assert note.startswith("f was in the __all__ of pkg/net.py:2 and is not in that module any more")
    assert note.endswith("have it from pkg.goal now")
    (note,) = move(workspace, "pkg/net.py", "f", "pkg/listed.py").notes
    assert note.endswith("the __all__ of pkg/listed.py does not name it: add it if it is to be public there")
    assert move(workspace, "pkg/net.py", "h", "pkg/goal.py").notes == ()


def test_public_names_that_are_those_of_the_old_file_are_refused(tmp_path: Path) -> None:
    files = {
        "pkg/net.py": '__all__ = ["f", "g"]\n\n\ndef f(): ...\n\n\ndef g(): ...\n\n\ndef h(): ...\n',
        "pkg/all.py": 'from . import net\nfrom .net import *\n\n__all__ = ["x"] + net.__all__\nx = 1\n',
    }
    workspace = _repository(tmp_path, files)
    with pytest.raises(EditRefusedError, match=r"pkg/all\.py makes its __all__ of that of pkg\.net"):
        move(workspace, "pkg/net.py", "f", "pkg/goal.py")
    assert "pkg/all.py" not in move(workspace, "pkg/net.py", "h", "pkg/goal.py").changes.paths
