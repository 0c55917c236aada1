"""A rename reaches what a library for names does not follow: class bodies, fixtures, stubs, fields and variables."""

import re
from pathlib import Path

import pytest

from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


def renamed(root: Path, files: dict[str, str], path: str, symbol: str, new: str) -> tuple[dict[str, str], str]:
    """Return the texts of all files after a rename, and its notes."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    done = rename(Workspace(Repository.open(root)), path, symbol, new)
    return files | {change.path: change.new_text for change in done.changes.files}, "\n".join(done.notes)


def test_what_a_class_reads_before_it_binds_the_same_name_is_renamed(tmp_path: Path) -> None:
    body = "    x = {0}(1)\n    load = staticmethod({0})\n    y = load(2)\n\n    def f(self):\n        return {0}(3)\n"
    other = "\n\nclass B:\n    def load(self): ...\n\n    y = load\n"
    files = {"a.py": "def load(x): ...\n", "b.py": "from a import {0}\n\n\nclass A:\n" + body + other}
    given = {"a.py": files["a.py"], "b.py": files["b.py"].replace("{0}", "load")}
    after, _ = renamed(tmp_path, given, "a.py", "load", "read")
    assert after["b.py"] == files["b.py"].replace("{0}", "read")


def test_the_letter_before_a_string_is_no_use_of_a_function_that_is_called_so(tmp_path: Path) -> None:
    text = 'def {0}(a):\n    return f"{a}" + f\'\'\n\n\nx = {0}(1) + f"{{0}(2)}"\n'
    after, _ = renamed(tmp_path, {"a.py": text.replace("{0}", "f")}, "a.py", "f", "show")
    assert after["a.py"] == text.replace("{0}", "show")


CONFTEST = """import pytest


@pytest.fixture(scope="session")
def {0}():
    return 1


@pytest.fixture
def twice({0}):
    return {0} * 2
"""
TESTS = """import pytest


def test_one({0}, twice):
    assert {0} == 1
    call(client={0})


class TestTwo:
    @pytest.mark.usefixtures("{0}")
    async def test_two(self, request):
        request.getfixturevalue("{0}")


@pytest.mark.parametrize("client", [1])
def test_three(client): ...


@pytest.mark.parametrize("{0}", [1], indirect=True)
def test_four({0}): ...


def helper(client):
    return client
"""


def test_a_fixture_is_renamed_where_tests_ask_for_it(tmp_path: Path) -> None:
    files = {"tests/conftest.py": CONFTEST, "tests/unit/test_a.py": TESTS, "other/test_b.py": TESTS}
    given = {path: text.replace("{0}", "client") for path, text in files.items()}
    after, _ = renamed(tmp_path, given, "tests/conftest.py", "client", "browser")
    assert after["tests/conftest.py"] == CONFTEST.replace("{0}", "browser")
    assert after["tests/unit/test_a.py"] == TESTS.replace("{0}", "browser")
    assert after["other/test_b.py"] == given["other/test_b.py"]


@pytest.mark.parametrize(
    ("test", "reason"),
    [
        ("import pytest\n\n\n@pytest.fixture\ndef client(client): ...\n", Refusal.AMBIGUOUS),
        ("def test_a(client, browser): ...\n", Refusal.NOT_POSSIBLE),
    ],
)
def test_a_fixture_that_would_become_another_one_keeps_its_name(tmp_path: Path, test: str, reason: Refusal) -> None:
    files = {"conftest.py": CONFTEST.replace("{0}", "client"), "test_a.py": test}
    with pytest.raises(EditRefusedError) as caught:
        renamed(tmp_path, files, "conftest.py", "client", "browser")
    assert caught.value.reason is reason


def test_a_stub_names_what_its_module_names(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/net.py": "def fetch(u): ...\n\n\nclass Talk:\n    def send(self): ...\n",
        "pkg/net.pyi": "import sys\nfrom typing import overload\n\n__all__ = ['fetch']\n\n"
        "@overload\ndef fetch(u: str) -> str: ...\n"
        "@overload\ndef fetch(u: int) -> int: ...\n\nclass Talk:\n    if sys.version_info >= (3, 12):\n"
        "        def send(self, fetch: int) -> None: ...\n",
        "pkg/use.pyi": "from .net import fetch\nimport pkg.net\n\nx: fetch\ny: pkg.net.fetch\n",
        "pkg/other.pyi": "def fetch() -> None: ...\n",
    }
    after, _ = renamed(tmp_path, files, "pkg/net.py", "fetch", "get")
    stub = files["pkg/net.pyi"]
    assert after["pkg/net.pyi"] == stub.replace("def fetch", "def get").replace("'fetch'", "'get'")
    assert after["pkg/use.pyi"] == files["pkg/use.pyi"].replace("fetch", "get")
    assert after["pkg/other.pyi"] == files["pkg/other.pyi"]
    after, _ = renamed(tmp_path, files, "pkg/net.py", "Talk.send", "post")
    assert after["pkg/net.pyi"] == stub.replace("def send", "def post")


FIELDS = """from dataclasses import dataclass, replace


@dataclass
class Point:
    {0}: int
    y: int = 0


point = Point({0}=1, y=2)
print(point.{0}, replace(point, {0}=3), draw(x=4))
"""


def test_a_field_is_renamed_where_objects_are_made_with_it(tmp_path: Path) -> None:
    other = "from a import Point as P, Point\n\nPoint({0}=5).{0}\n\n\ndef f(x): ...\n\n\nf(x=1)\nunknown(x=1)\n"
    files = {"a.py": FIELDS.replace("{0}", "x"), "b.py": other.replace("{0}", "x")}
    after, _ = renamed(tmp_path, files, "a.py", "Point.x", "left")
    assert after["a.py"] == FIELDS.replace("{0}", "left")
    assert after["b.py"] == other.replace("{0}", "left")


def test_an_attribute_of_something_else_stays_and_is_noted(tmp_path: Path) -> None:
    files = {
        "a.py": FIELDS.replace("{0}", "x"),
        "b.py": "class Q:\n    def __init__(self):\n        self.x = 1\n\n\ndef f(q):\n    return q.x\n",
    }
    after, notes = renamed(tmp_path, files, "a.py", "Point.x", "left")
    assert after["b.py"] == files["b.py"]
    assert "b.py:7" in notes


@pytest.mark.parametrize(
    ("text", "symbol"),
    [
        ("logger = make()\nlogger.info(1)\n", "logger"),
        ("x, logger = 1, 2\n", "logger"),
        ("if x:\n    logger: int = 1\n", "logger"),
        ("with x as logger:\n    pass\n", "logger"),
        ("class A:\n    def f(this):\n        this.logger = 'é'; é = this.logger\n", "A.logger"),
    ],
)
def test_a_variable_is_renamed_as_well(tmp_path: Path, text: str, symbol: str) -> None:
    use = "import a\n\nprint(a.logger)\n" if "." not in symbol else "import a\n\nprint(a.A().logger)\n"
    after, _ = renamed(tmp_path, {"a.py": text, "b.py": use}, "a.py", symbol, "log")
    assert after["a.py"] == re.sub(r"\blogger\b", "log", text)
    assert after["b.py"] == use.replace("logger", "log")


@pytest.mark.parametrize(("symbol", "new"), [("x", "y"), ("A.x", "y")])
def test_a_variable_takes_no_name_that_is_taken(tmp_path: Path, symbol: str, new: str) -> None:
    text = "x = 1\ny = 2\n\n\nclass A:\n    x = 1\n\n    def f(self):\n        self.y = 2\n"
    with pytest.raises(EditRefusedError, match="already"):
        renamed(tmp_path, {"a.py": text}, "a.py", symbol, new)


@pytest.mark.parametrize("symbol", ["f", "A.g", "x", "A.y"])
def test_in_a_file_that_is_no_python_a_rename_is_refused_and_does_not_fail(tmp_path: Path, symbol: str) -> None:
    text = "x = 1\n\n\ndef f(): ...\n\n\nclass A:\n    y = 1\n\n    def g(self): ...\n\n\ndef (:\n"
    with pytest.raises(EditRefusedError):
        renamed(tmp_path, {"a.py": text}, "a.py", symbol, "new")


def test_a_package_that_imports_its_own_modules_is_renamed(tmp_path: Path) -> None:
    files = {
        "p/__init__.py": "",
        "p/q/__init__.py": "from . import m\nfrom .m import V\n",
        "p/q/m.py": "V = 1\n",
        "use.py": "import p.q\nfrom p.q import V, m\n",
    }
    after, notes = renamed(tmp_path, files, "p/q/__init__.py", "", "r")
    assert after["p/r/__init__.py"] == files["p/q/__init__.py"]
    assert after["p/r/m.py"] == "V = 1\n"
    assert after["use.py"] == "import p.r\nfrom p.r import V, m\n"
    assert not notes


def test_the_standard_library_is_not_taken_for_a_module_beside_the_file_that_imports_it(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/logging.py": "def getLogger(name): ...\n",
        "pkg/a.py": "import logging\nfrom logging import getLogger\n\ngetLogger(logging.getLogger('x'))\n",
        "pkg/b.py": "from .logging import getLogger\n\ngetLogger('x')\n",
    }
    after, _ = renamed(tmp_path, files, "pkg/logging.py", "getLogger", "logger_of")
    assert after["pkg/a.py"] == files["pkg/a.py"]
    assert after["pkg/b.py"] == "from .logging import logger_of\n\nlogger_of('x')\n"


def test_a_module_that_is_imported_is_no_use_of_an_attribute_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").write_text("", encoding="utf-8")
    (tmp_path / "pkg/color.py").write_text("class Color: ...\n", encoding="utf-8")
    (tmp_path / "pkg/style.py").write_text("class Style:\n    def color(self): ...\n", encoding="utf-8")
    (tmp_path / "use.py").write_text("from pkg.color import Color\n", encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "pkg/style.py", "Style.color", "paint")
    assert done.notes == ()


def test_an_argument_of_what_python_itself_has_is_told_and_no_obstacle(tmp_path: Path) -> None:
    code = "from dataclasses import dataclass\n\n\n@dataclass\nclass P:\n    {0}: str\n\n\n"
    use = "a = P(**dict({0}=1))\nb = dict(name=2)\n"
    (tmp_path / "m.py").write_text((code + use).replace("{0}", "name"), encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "m.py", "P.name", "title")
    assert done.changes.files[0].new_text == (code + use).replace("{0}", "title")
    assert done.notes == ("name is passed by name to what nobody knows at m.py:10, and was left there",)
