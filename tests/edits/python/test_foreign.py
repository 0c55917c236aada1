"""What is imported from outside keeps its names, whoever else in the repository has the same ones."""

from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.rename.rename import Refactoring, rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

OURS = """class Color:
    def system(self, sep=1): ...

    def dumps(self, indent=1, sep=1): ...

    def print(self, sep=1): ...
"""
USE = """import json
import os.path as paths
import platform
from json import dumps

from pkg.color import Color


def f(color, other: Color):
    color.system(sep=1)
    color.dumps(indent=1)
    color.print(sep=2)
    platform.system(sep=1)
    paths.os.system(sep=1)
    json.dumps(1, indent=2, sep=4)
    dumps(1, indent=2)
    print(1, sep=2)
"""


def changed(root: Path) -> Workspace:
    (root / "pkg").mkdir()
    for path, text in {"pkg/__init__.py": "", "pkg/color.py": OURS, "pkg/use.py": USE}.items():
        (root / path).write_text(text, encoding="utf-8")
    return Workspace(Repository.open(root))


def use_of(done: Refactoring) -> str:
    return next((change.new_text for change in done.changes.files if change.path == "pkg/use.py"), USE)


def test_a_method_is_renamed_on_unknown_objects_and_not_in_modules_from_outside(tmp_path: Path) -> None:
    done = rename(changed(tmp_path), "pkg/color.py", "Color.system", "kind")
    assert use_of(done) == USE.replace("color.system", "color.kind")
    assert not any("pkg/use.py:13" in note for note in done.notes)


def test_a_parameter_is_renamed_on_unknown_objects_and_not_in_calls_of_what_is_from_outside(tmp_path: Path) -> None:
    workspace = changed(tmp_path)
    done = rename_parameter(workspace, "pkg/color.py", "Color.dumps", "indent", "depth")
    assert use_of(done) == USE.replace("color.dumps(indent", "color.dumps(depth")
    done = rename_parameter(workspace, "pkg/color.py", "Color.print", "sep", "end")
    assert use_of(done) == USE.replace("color.print(sep", "color.print(end")


def test_a_call_of_something_from_outside_is_no_reason_to_keep_a_parameter(tmp_path: Path) -> None:
    done = remove_parameter(changed(tmp_path), "pkg/color.py", "Color.dumps", "sep")
    assert use_of(done) == USE


def test_what_a_parameter_or_variable_shadows_is_not_from_outside(tmp_path: Path) -> None:
    workspace = changed(tmp_path)
    (tmp_path / "pkg" / "use.py").write_text("import platform\n\n\ndef f(platform):\n    platform.system()\n")
    done = rename(workspace, "pkg/color.py", "Color.system", "kind")
    assert "platform.kind()" in use_of(done)


TYPED = """import logging
import subprocess
from http.cookiejar import CookieJar
from typing import Any, Optional

import httpcore

log: logging.Logger = make()


class Cookies:
    def __init__(self, cookies, pool: Optional[httpcore.Pool] = None):
        self.pool = None
        self.pool = pool
        self.jar = CookieJar() if cookies else CookieJar(1)
        self.either = CookieJar()
        self.either = cookies

    def keep(self, thing, anything: Any):
        self.pool.keep(1)
        self.jar.keep(1)
        log.keep(1)
        process = subprocess.Popen()
        process.keep(1)
        subprocess.Popen().keep(1)
        with httpcore.Client() as client, open("x") as file:
            client.keep(file.keep(1))
        self.either.keep(3)
        thing.keep(2)
        anything.keep(2)
        return self


class More(Cookies):
    def more(self, process: "subprocess.Popen[bytes] | None"):
        self.jar.keep(1)
        process.keep(1)
        self.keep(2)

        def inner(process):
            process.keep(2)


log.keep(1)
"""


def test_an_attribute_of_an_object_whose_type_is_from_outside_is_not_renamed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(TYPED, encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "a.py", "Cookies.keep", "put")
    wanted = TYPED.replace("def keep", "def put").replace(".keep(2)", ".put(2)")
    assert done.changes.files[0].new_text == wanted
    left, renamed_too = done.notes
    assert left == f"1 use of .keep may mean something else and was left: a.py:{line_of('self.either.keep')}"
    assert renamed_too.startswith("nothing else here defines keep")
    assert renamed_too.count("a.py:") == 3


def line_of(words: str) -> int:
    return TYPED[: TYPED.index(words)].count("\n") + 1


RETURNING = {
    "pkg/__init__.py": "from .makers import opened as make\n",
    "pkg/makers.py": (
        "import io\n\n\ndef opened() -> io.StringIO: ...\n\n\nasync def later() -> 'io.StringIO | None': ...\n\n\n"
        "@wrapping\ndef wrapped() -> io.StringIO: ...\n\n\ndef ours() -> 'Log': ...\n"
    ),
    "pkg/log.py": "class Log:\n    def {0}(self, row): ...\n\n    def write_all(self): ...\n",
}
USE_OF_RETURNED = """import io

import pkg.makers as makers
from pkg import make
from pkg.makers import later, opened, ours, wrapped


class Maker:
    def made(self) -> io.StringIO: ...

    @property
    def out(self) -> io.StringIO: ...

    def f(self):
        self.made().write(1)
        self.out.write(1)


def here() -> io.StringIO: ...


async def f(maker: Maker):
    out = opened()
    out.write(1)
    makers.opened().write(1)
    make().write(1)
    (await later()).write(1)
    here().write(1)
    maker.made().write(1)
    maker.out.write(1)
    own = Maker()
    own.made().write(1)


def g():
    ours().{0}(ours().mark)
    wrapped().write(1)
    for maker in ours():
        maker.made().{0}(maker.made().mark)
    maker = Maker()
    here = ours
    here().{0}(here().mark)
"""


def test_what_a_function_says_that_it_returns_from_outside_keeps_its_names(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    files = {**RETURNING, "use.py": USE_OF_RETURNED}
    for path, text in files.items():
        (tmp_path / path).write_text(text.replace("{0}", "write"), encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "pkg/log.py", "Log.write", "put")
    texts = {change.path: change.new_text for change in done.changes.files}
    assert texts == {path: text.replace("{0}", "put") for path, text in files.items() if "{0}" in text}


LISTED = [
    "[each.name for each in fields(o)]",
    "{each.name: each for each in sorted(fields(o)) if each.name}",
    "[(lambda: each.name)() for each in os.scandir(o)]",
    "any(each.name for each in Path(o).iterdir())",
]


@pytest.mark.parametrize("listed", LISTED)
def test_what_something_from_outside_lists_is_from_outside(tmp_path: Path, listed: str) -> None:
    head = "import os\nfrom dataclasses import fields\nfrom pathlib import Path\n\n\n"
    text = f"{head}def f(o):\n    for one in fields(o):\n        print(one.name)\n    return {listed}, o.name, o.mark\n"
    (tmp_path / "m.py").write_text("class P:\n    def __init__(self):\n        self.name = 1\n", encoding="utf-8")
    (tmp_path / "use.py").write_text(text, encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "m.py", "P.name", "title")
    assert {each.path: each.new_text for each in done.changes.files}["use.py"] == text.replace("o.name", "o.title")


def test_what_nobody_knows_may_list_something_from_outside_and_is_left_and_told(tmp_path: Path) -> None:
    text = "def f(o):\n    return [each.name for each in o.iterdir()], [each.name for each in o]\n"
    (tmp_path / "m.py").write_text("class P:\n    def __init__(self):\n        self.name = 1\n", encoding="utf-8")
    (tmp_path / "use.py").write_text(text, encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "m.py", "P.name", "title")
    changed = {each.path: each.new_text for each in done.changes.files}["use.py"]
    assert changed == text.replace("each.name for each in o]", "each.title for each in o]")
    assert "1 use of .name may mean something else and was left: use.py:2" in done.notes
