"""Renames, moves and their like on a small package: what must change, what must not, and what is refused."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from khepri.edits.inlining.inlining import inline
from khepri.edits.moving.refactor import extract, move
from khepri.edits.parameters.new_parameter import add_parameter
from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.rename import Refactoring, rename
from khepri.edits.structural.structural import replace_code
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

NET = '''"""Fetch things."""

import os
from typing import Optional

__all__ = ["Session", "fetch"]


def fetch(url: str, retries: int = 3, *, verbose: bool = False) -> Optional[str]:
    """Fetch with fetch_all's help."""
    if retries > 2:
        total = retries * 2
        print(total)
    return os.path.join(url, str(retries))


class Session:
    """A Session of fetch()."""

    def send(self, data: bytes, flag: int = 0) -> int:
        return len(data)


class Quiet(Session):
    def send(self, data: bytes, flag: int = 0) -> int:
        return 0


def twice(value):
    return value * 2
'''
USE = """from typing import cast

from pkg.net import Session, fetch, twice

NAME = "pkg.net.Session"
TEXT = "Session expired"


def main(session: "Session", other) -> "list[Session]":
    # A Session is made here.
    fetch("u", 5)
    fetch("u", retries=4, verbose=True)
    session.send(b"x")
    other.send(b"x")
    print(twice(3))
    return [cast("Session", session), Session()]
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / "pkg").mkdir(parents=True)
    (root / "pkg" / "__init__.py").write_text("", encoding="utf-8")
    (root / "pkg" / "net.py").write_text(NET, encoding="utf-8")
    (root / "pkg" / "use.py").write_text(USE, encoding="utf-8")
    return root


@pytest.fixture
def workspace(root: Path) -> Workspace:
    return Workspace(Repository.open(root))


def after(refactoring: Refactoring, path: str) -> str:
    change = next(each for each in refactoring.changes.files if each.path == path)
    assert change.after is not None
    return change.after.decode()


def runs(root: Path, refactoring: Refactoring) -> bool:
    for change in refactoring.changes.files:
        place = root / change.path
        if change.after is None:
            place.unlink()
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(change.after)
    return not subprocess.run([sys.executable, "-c", "import pkg.use, pkg.net"], cwd=root, check=False).returncode


def test_a_class_is_renamed_with_its_mentions_and_nothing_else(root: Path, workspace: Workspace) -> None:
    done = rename(workspace, "pkg/net.py", "Session", "Conversation")
    net, use = after(done, "pkg/net.py"), after(done, "pkg/use.py")
    assert net == NET.replace("Session", "Conversation")
    assert use == USE.replace("Session", "Conversation").replace('"Conversation expired"', '"Session expired"')
    assert runs(root, done)


def test_strings_and_comments_that_keep_the_name_are_told_and_left(root: Path, workspace: Workspace) -> None:
    other = 'import pkg.net\n# Session\nMADE = getattr(net_of(1), "Session")\n'
    (root / "pkg" / "other.py").write_text(other, encoding="utf-8")
    workspace.repository.refresh()
    done = rename(workspace, "pkg/net.py", "Session", "Conversation")
    assert "pkg/other.py" not in done.changes.paths
    (note,) = done.notes
    assert note.endswith("of 3 lines, which were left: pkg/use.py:6, pkg/other.py:3, pkg/other.py:2")
    assert rename(workspace, "pkg/net.py", "twice", "doubled").notes == ()


def test_a_long_list_of_places_is_cut(root: Path, workspace: Workspace) -> None:
    (root / "pkg" / "other.py").write_text('X = "Session"\n' * 50, encoding="utf-8")
    workspace.repository.refresh()
    (note,) = rename(workspace, "pkg/net.py", "Session", "Conversation").notes
    assert "of 51 lines" in note
    assert note.endswith("pkg/other.py:4, …")


def test_a_function_keeps_the_words_that_only_look_like_it(workspace: Workspace) -> None:
    net = after(rename(workspace, "pkg/net.py", "fetch", "obtain"), "pkg/net.py")
    assert '"""Fetch things."""' in net
    assert "fetch_all's" in net
    assert '__all__ = ["Session", "obtain"]' in net
    assert '"""A Session of obtain()."""' in net


def test_a_method_is_renamed_in_the_family_and_where_nothing_else_is_called_so(workspace: Workspace) -> None:
    done = rename(workspace, "pkg/net.py", "Session.send", "transmit")
    assert after(done, "pkg/net.py").count("def transmit") == 2
    assert after(done, "pkg/use.py").count(".transmit(") == 2
    assert "on objects of unknown type" in done.notes[0]


def test_calls_on_unknown_objects_are_left_and_named_when_the_name_is_used_elsewhere(
    root: Path, workspace: Workspace
) -> None:
    (root / "pkg" / "mail.py").write_text("class Mail:\n    def send(self): ...\n", encoding="utf-8")
    workspace.repository.refresh()
    done = rename(workspace, "pkg/net.py", "Session.send", "transmit")
    assert after(done, "pkg/use.py") == USE.replace("session.send", "session.transmit")
    assert any("pkg/use.py:14" in note for note in done.notes)


def test_a_module_is_renamed_with_its_imports(root: Path, workspace: Workspace) -> None:
    done = rename(workspace, "pkg/net.py", "", "network")
    assert {change.path for change in done.changes.files} == {"pkg/net.py", "pkg/network.py", "pkg/use.py"}
    assert "from pkg.network import" in after(done, "pkg/use.py")


@pytest.mark.parametrize("destination", ["pkg/use.py", "pkg/new.py", "pkg.new"])
def test_a_function_moves_with_its_imports(root: Path, workspace: Workspace, destination: str) -> None:
    done = move(workspace, "pkg/net.py", "fetch", destination)
    assert '__all__ = ["Session"]' in after(done, "pkg/net.py")
    assert "def fetch" not in after(done, "pkg/net.py")
    assert runs(root, done)


def test_nothing_moves_out_of_the_repository(workspace: Workspace) -> None:
    with pytest.raises(EditRefusedError, match="outside the repository"):
        move(workspace, "pkg/net.py", "fetch", "../new.py")


def test_what_is_named_by_its_old_module_in_a_string_is_told(root: Path, workspace: Workspace) -> None:
    patched = 'from unittest import mock\n\nPATCH = mock.patch("pkg.net.fetch")\nOTHER = "pkg.net.fetcher"\n'
    patched += """TEXT = "__import__('pkg.net').net.fetch()"\nENTRY = "fetch=pkg.net:fetch"\n"""
    (root / "test_net.py").write_text(patched, encoding="utf-8")
    workspace.repository.refresh()
    done = move(workspace, "pkg/net.py", "fetch", "pkg/new.py")
    assert (
        "pkg.net.fetch still stands in test_net.py:3, test_net.py:5, test_net.py:6, and is not there any more"
        in done.notes
    )


def test_a_file_that_is_no_valid_python_is_told(root: Path, workspace: Workspace) -> None:
    (root / "broken.py").write_text("from pkg.net import twice\ndef (:\ntwice(1)\n", encoding="utf-8")
    workspace.repository.refresh()
    (note,) = rename(workspace, "pkg/net.py", "twice", "doubled").notes
    assert note == "twice may be used in what is no valid Python, and was left there: broken.py:2"


def test_lines_become_a_function_of_their_own(root: Path, workspace: Workspace) -> None:
    done = extract(workspace, "pkg/net.py", 11, 13, "report")
    text = after(done, "pkg/net.py")
    assert "    report(retries)\n    return os.path.join" in text
    assert "\n\n\ndef report(retries):\n" in text
    assert runs(root, done)


WAITING = """import asyncio


class Link:
    async def read(self, count):
        total = 0
        for number in range(count):
            part = await asyncio.sleep(0, number)
            total += part
        async with asyncio.Lock():
            total += 1
        return total

    async def twice(self):
        return await self.read(2) * 2


async def top(count):
    found = [each async for each in parts(count)]
    later = lambda: parts(count)
    return found, later


async def parts(count):
    for number in range(count):
        yield number


print(asyncio.run(Link().twice()), asyncio.run(top(2))[0])
"""


@pytest.mark.parametrize(
    ("first", "last", "is_waiting"), [(7, 9, True), (10, 11, True), (15, 15, True), (19, 19, True), (20, 20, False)]
)
def test_lines_that_wait_become_a_function_that_is_waited_for(
    root: Path, first: int, last: int, is_waiting: bool
) -> None:
    (root / "wait.py").write_text(WAITING, encoding="utf-8")
    text = after(extract(Workspace(Repository.open(root)), "wait.py", first, last, "part"), "wait.py")
    assert ("async def part(" in text) == is_waiting
    (root / "wait.py").write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, "-W", "error", "wait.py"], cwd=root, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("4 [0, 1]\n", "")


def test_a_function_is_inlined_only_if_nothing_is_left_behind(root: Path, workspace: Workspace) -> None:
    (root / "pkg" / "loud.py").write_text(
        "class Loud:\n    def cry(self):\n        return 1\n\n    def run(self):\n        return self.cry()\n"
    )
    (root / "pkg" / "cry.py").write_text("def cry_with(loud):\n    return loud.cry()\n")
    with pytest.raises(EditRefusedError, match="would be left") as caught:
        inline(Workspace(Repository.open(root)), "pkg/loud.py", "Loud.cry")
    assert caught.value.reason is Refusal.NOT_POSSIBLE
    done = inline(workspace, "pkg/net.py", "twice")
    assert "print(3 * 2)" in after(done, "pkg/use.py")


def test_a_parameter_comes_after_the_others_with_its_annotation(root: Path, workspace: Workspace) -> None:
    done = add_parameter(workspace, "pkg/net.py", "fetch", "timeout", "1.5", "float")
    head = "def fetch(url: str, retries: int = 3, *, verbose: bool = False, timeout: float = 1.5) -> Optional[str]:"
    assert head in after(done, "pkg/net.py")
    assert runs(root, done)


@pytest.mark.parametrize(
    ("head", "wanted"),
    [
        ("def f():", "def f(x=1):"),
        ("def f(*args, **kw):", "def f(*args, x=1, **kw):"),
        ("def f(a, /, *args):", "def f(a, /, *args, x=1):"),
        ("def f(a, *args: int):", "def f(a, *args: int, x=1):"),
        ("def f(**kw):", "def f(x=1, **kw):"),
        ("def f(a, /):", "def f(a, /, x=1):"),
        ("def f(a=(1)):", "def f(a=(1), x=1):"),
        ("def f(\n    a,\n    b: int = 2,\n):", "def f(\n    a,\n    b: int = 2,\n    x=1,\n):"),
        ("def f(a, *, b):", "def f(a, *, b, x=1):"),
        ("def f[T](a: T):", "def f[T](a: T, x=1):"),
    ],
)
def test_a_parameter_fits_into_every_shape_of_signature(
    root: Path, workspace: Workspace, head: str, wanted: str
) -> None:
    if "[T]" in head and sys.version_info < (3, 12):
        pytest.skip("needs the syntax of Python 3.12")
    (root / "pkg" / "f.py").write_text(f"{head}\n    return 1\n", encoding="utf-8")
    workspace.repository.refresh()
    if "/" in head:
        with pytest.raises(EditRefusedError):
            add_parameter(workspace, "pkg/f.py", "f", "a", "1")
    assert after(add_parameter(workspace, "pkg/f.py", "f", "x", "1"), "pkg/f.py").startswith(wanted)


def test_a_parameter_goes_with_what_its_calls_pass(root: Path, workspace: Workspace) -> None:
    done = remove_parameter(workspace, "pkg/net.py", "fetch", "verbose")
    assert "def fetch(url: str, retries: int = 3) -> Optional[str]:" in after(done, "pkg/net.py")
    assert 'fetch("u", retries=4)\n' in after(done, "pkg/use.py")
    with pytest.raises(EditRefusedError, match="uses retries"):
        remove_parameter(workspace, "pkg/net.py", "fetch", "retries")


def test_a_parameter_is_renamed_where_it_is_passed_by_name(workspace: Workspace) -> None:
    done = rename_parameter(workspace, "pkg/net.py", "fetch", "retries", "tries")
    assert 'fetch("u", tries=4, verbose=True)' in after(done, "pkg/use.py")


def test_code_is_replaced_by_its_shape_in_every_language(root: Path, workspace: Workspace) -> None:
    (root / "app.js").write_text("const x = join( a , b );\n// join(a, b)\n", encoding="utf-8")
    workspace.repository.refresh()
    done = replace_code(workspace, "join($A, $B)", "path.join($B, $A)")
    assert after(done, "app.js") == "const x = path.join(b, a);\n// join(a, b)\n"
    done = replace_code(workspace, "os.path.join($$$A)", "Path($$$A)", path="pkg")
    assert "return Path(url, str(retries))" in after(done, "pkg/net.py")


def test_code_is_replaced_in_every_encoding(root: Path, workspace: Workspace) -> None:
    (root / "app.js").write_bytes("const x = join(a, 'é');\r\n".encode("utf-16"))
    workspace.repository.refresh()
    (change,) = replace_code(workspace, "join($A, $B)", "merge($A, $B)").changes.files
    assert change.after == "const x = merge(a, 'é');\r\n".encode("utf-16")


REFUSED: dict[str, Callable[[Workspace], Refactoring]] = {
    Refusal.NO_TARGET: lambda w: rename(w, "pkg/net.py", "nothing", "x"),
    Refusal.NOT_POSSIBLE: lambda w: rename(w, "pkg/net.py", "fetch", "class"),
    Refusal.NO_OP: lambda w: rename(w, "pkg/net.py", "fetch", "fetch"),
    Refusal.OUTSIDE: lambda w: rename(w, "../x.py", "fetch", "y"),
    Refusal.HIDDEN: lambda w: rename(w, ".env", "fetch", "y"),
    Refusal.AMBIGUOUS: lambda w: rename(w, "pkg/net.py", "send", "y"),
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_be_is_refused_with_the_right_reason(root: Path, workspace: Workspace, reason: str) -> None:
    (root / ".env").write_text("fetch=1\n", encoding="utf-8")
    with pytest.raises(EditRefusedError) as caught:
        REFUSED[reason](workspace)
    assert caught.value.reason == reason


def test_a_taken_name_is_refused(workspace: Workspace) -> None:
    with pytest.raises(EditRefusedError, match="defines twice already"):
        rename(workspace, "pkg/net.py", "fetch", "twice")


@pytest.mark.parametrize(
    ("file", "symbol"),
    [("a.py", "Shape.__init__"), ("a.py", "Shape.__eq__"), ("a.py", "__getattr__"), ("__main__.py", "")],
)
def test_a_name_that_python_looks_for_is_not_given_away(
    root: Path, workspace: Workspace, file: str, symbol: str
) -> None:
    code = (
        "class Shape:\n    def __init__(self, x): ...\n    def __eq__(self, other): ...\n\n\ndef __getattr__(n): ...\n"
    )
    (root / "a.py").write_text(code, encoding="utf-8")
    (root / "__main__.py").write_text("import a\n", encoding="utf-8")
    workspace.repository.refresh()
    with pytest.raises(EditRefusedError, match=r"__ is a special name") as caught:
        rename(workspace, file, symbol, "other")
    assert caught.value.reason is Refusal.NOT_POSSIBLE
    assert caught.value.hint


def test_a_private_name_is_renamed(root: Path, workspace: Workspace) -> None:
    (root / "a.py").write_text("class A:\n    def __f(self): ...\n    def g(self): self.__f()\n", encoding="utf-8")
    workspace.repository.refresh()
    assert "self.__h()" in after(rename(workspace, "a.py", "A.__f", "__h"), "a.py")


def test_what_another_module_passes_on_with_everything_else_stays(root: Path, workspace: Workspace) -> None:
    (root / "pkg" / "__init__.py").write_text('from pkg.net import *\n\n__all__ = ["twice"]\n', encoding="utf-8")
    workspace.repository.refresh()
    refusal = r"pkg/__init__.py names twice in its __all__"
    with pytest.raises(EditRefusedError, match=refusal) as caught:
        inline(workspace, "pkg/net.py", "twice")
    assert caught.value.reason is Refusal.NOT_POSSIBLE
    assert "from pkg.new import twice\n" in after(
        move(workspace, "pkg/net.py", "twice", "pkg/new.py"), "pkg/__init__.py"
    )


def test_a_name_is_renamed_through_imports_of_everything(root: Path, workspace: Workspace) -> None:
    (root / "pkg" / "wide.py").write_text("from .net import *  # Session\n", encoding="utf-8")
    (root / "pkg" / "__init__.py").write_text('from .wide import *\n\n__all__ = ["Session"]\n', encoding="utf-8")
    (root / "pkg" / "own.py").write_text("from .wide import *\n\n\nclass Session: ...\n", encoding="utf-8")
    (root / "app.py").write_text(
        'import pkg\nfrom pkg import Session\n\nNAME = "pkg.Session"\nassert Session is pkg.Session\n', encoding="utf-8"
    )
    workspace.repository.refresh()
    done = rename(workspace, "pkg/net.py", "Session", "Talk")
    assert '__all__ = ["Talk"]' in after(done, "pkg/__init__.py")
    assert 'NAME = "pkg.Talk"\nassert Talk is pkg.Talk\n' in after(done, "app.py")
    assert "pkg/own.py" not in done.changes.paths
    assert runs(root, done)
    subprocess.run([sys.executable, "app.py"], cwd=root, check=True)


def test_a_name_that_an_import_of_everything_would_leave_out_is_refused(root: Path, workspace: Workspace) -> None:
    (root / "pkg" / "__init__.py").write_text("from .net import *\n", encoding="utf-8")
    workspace.repository.refresh()
    with pytest.raises(EditRefusedError, match=r"pkg has twice by an import of everything") as caught:
        rename(workspace, "pkg/net.py", "twice", "_twice")
    assert caught.value.hint


def test_nothing_of_the_repository_is_executed_and_nothing_is_written(root: Path, workspace: Workspace) -> None:
    trap = "import pathlib\npathlib.Path(__file__).with_name('ran').write_text('x')\n"
    (root / ".ropeproject").mkdir()
    (root / ".ropeproject" / "config.py").write_text(trap, encoding="utf-8")
    (root / "pkg" / "trap.py").write_text(trap, encoding="utf-8")
    (root / "pyproject.toml").write_text(
        '[tool.rope]\nextension_modules = ["pkg.trap"]\ntype_hinting_factory = "pkg.trap.x"\n', encoding="utf-8"
    )
    workspace.repository.refresh()
    before = sorted(path for path in root.rglob("*"))
    rename(workspace, "pkg/net.py", "Session", "Conversation")
    move(workspace, "pkg/net.py", "fetch", "pkg/new.py")
    assert sorted(path for path in root.rglob("*")) == before


def test_ignored_files_are_neither_changed_nor_looked_at(root: Path, workspace: Workspace) -> None:
    (root / ".gitignore").write_text("build/\n", encoding="utf-8")
    (root / "build").mkdir()
    (root / "build" / "copy.py").write_text("from pkg.net import Session\n", encoding="utf-8")
    workspace.repository.refresh()
    done = rename(workspace, "pkg/net.py", "Session", "Conversation")
    assert "build/copy.py" not in done.changes.paths


def test_line_ends_and_encoding_survive(root: Path, workspace: Workspace) -> None:
    data = "# café\r\nfrom pkg.net import Session\r\nx = Session()\n".encode("latin-1")
    (root / "pkg" / "old.py").write_bytes(b"# -*- coding: latin-1 -*-\r\n" + data)
    workspace.repository.refresh()
    done = rename(workspace, "pkg/net.py", "Session", "Conversation")
    change = next(each for each in done.changes.files if each.path == "pkg/old.py")
    assert change.after == b"# -*- coding: latin-1 -*-\r\n" + data.replace(b"Session", b"Conversation")


@pytest.mark.slow
def test_a_rename_across_five_hundred_files_is_right(tmp_path: Path) -> None:
    root = tmp_path / "large"
    (root / "big").mkdir(parents=True)
    (root / "tests").mkdir()
    (root / "big" / "__init__.py").write_text("from big.core import Session\n", encoding="utf-8")
    (root / "big" / "core.py").write_text("class Session:\n    limit = 1\n", encoding="utf-8")
    for number in range(500):
        uses = ("from big.core import Session", "from big import Session", "import big.core", "from . import core")[
            number % 4
        ]
        name = ("Session", "Session", "big.core.Session", "core.Session")[number % 4]
        own = "class Session:\n    limit = 2\n" if number % 5 == 0 else f"{uses}\n"
        used = "Session" if number % 5 == 0 else name
        text = f"{own}\n\ndef f{number}(s: {used!r}) -> int:\n    session = {used}()\n    return session.limit\n"
        (root / "big" / f"m{number}.py").write_text(text, encoding="utf-8")
    check = "from big import core, m1\n\n\ndef test_it():\n    assert m1.f1(core.Session()) == 1\n"
    (root / "tests" / "test_it.py").write_text(check, encoding="utf-8")
    done = rename(Workspace(Repository.open(root)), "big/core.py", "Session", "Conversation")
    assert len(done.changes.files) == 400 + 3
    for change in done.changes.files:
        assert change.after is not None
        assert b"Session" not in change.after
        (root / change.path).write_bytes(change.after)
    program = "import big, importlib\n" + "\n".join(
        f"m = importlib.import_module('big.m{number}'); assert m.f{number}(None) == {2 if number % 5 == 0 else 1}"
        for number in range(500)
    )
    subprocess.run([sys.executable, "-c", program], cwd=root, check=True)


@pytest.mark.parametrize("destination", ["fresh/nodes.py", "pkg/inner/nodes.py", "scripts/nodes.py"])
def test_nothing_moves_where_nobody_can_tell_how_it_is_imported(root: Path, destination: str) -> None:
    (root / "scripts").mkdir()
    (root / "scripts/run.py").write_text("", encoding="utf-8")
    with pytest.raises(EditRefusedError, match=r"has no __init__.py") as caught:
        move(Workspace(Repository.open(root)), "pkg/net.py", "fetch", destination)
    assert caught.value.reason is Refusal.NOT_POSSIBLE
    assert "__init__.py first" in caught.value.hint


def test_code_that_parses_and_does_not_compile_is_refused(root: Path) -> None:
    (root / "odd.py").write_text("def twin(a, a): ...\n\n\ndef other(): ...\n", encoding="utf-8")
    with pytest.raises(EditRefusedError) as caught:
        move(Workspace(Repository.open(root)), "odd.py", "other", "fine.py")
    assert caught.value.reason is Refusal.SYNTAX


@pytest.mark.parametrize(
    ("place", "is_told"),
    [
        ("tests/helpers.py", True),
        ("tests/conftest.py", False),
        ("conftest.py", False),
    ],
)
def test_a_fixture_that_moves_to_where_pytest_may_not_find_it_is_told(
    tmp_path: Path, place: str, is_told: bool
) -> None:
    (tmp_path / "tests").mkdir()
    fixture = "import pytest\n\n\n@pytest.fixture\ndef db():\n    return 1\n"
    (tmp_path / "tests/test_db.py").write_text(f"{fixture}\n\ndef test(db): ...\n", encoding="utf-8")
    done = move(Workspace(Repository.open(tmp_path)), "tests/test_db.py", "db", place)
    assert any("see that db is found in" in note for note in done.notes) == is_told


@pytest.mark.parametrize(
    "look", ["getattr(home, 'on_' + n)", "getattr(home, n)", "vars(home)[n]", "getattr(home, f'on_{n}')()"]
)
def test_a_look_into_the_old_module_by_a_name_that_is_made_is_told(tmp_path: Path, look: str) -> None:
    (tmp_path / "home.py").write_text("def on_key(): ...\n\n\ndef go(n): ...\n", encoding="utf-8")
    (tmp_path / "use.py").write_text(f"import home\n\n\ndef find(n):\n    return {look}\n", encoding="utf-8")
    done = move(Workspace(Repository.open(tmp_path)), "home.py", "on_key", "goal.py")
    assert "use.py:5 looks in home for a name that may be on_key: it is in goal.py now" in done.notes
