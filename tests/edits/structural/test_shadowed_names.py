"""A replacement brings a name only where it means what the replacement means by it."""

from pathlib import Path

import pytest

from khepri.edits.refusal import EditRefusedError
from khepri.edits.structural.structural import replace_code
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


def workspace_of(root: Path, text: str) -> Workspace:
    (root / "a.py").write_text(text, encoding="utf-8")
    return Workspace(Repository.open(root))


LIST, CLOCK = ("List[$T]", "list[$T]"), ("time.time()", "monotonic()")


@pytest.mark.parametrize(
    ("rule", "text", "line"),
    [
        (LIST, "class A:\n    def list(self): ...\n    def more(self, x: List[str]): ...\n", 3),
        (LIST, "class A:\n    list = 1\n    x: List[str]\n", 3),
        (LIST, "class A:\n    def list(self): ...\n    def f(self) -> List[List[str]]: ...\n", 3),
        (LIST, "def f(list):\n    x: List[str] = list\n", 2),
        (LIST, "def f(xs):\n    for list in xs:\n        return lambda: List[str]\n", 3),
        (LIST, "x = [List[int] for list in y]\n", 1),
        (LIST, "class A:\n    list = 1; y = 'é', List[List[str]], 'é'\n", 2),
        (LIST, "from own import list\nx = List[str]\n", 2),
        (CLOCK, "from time import monotonic\ndef f(monotonic):\n    return 'é' + time.time()\n", 3),
        (CLOCK, "from time import monotonic\nf = lambda monotonic: time.time()\n", 2),
        (CLOCK, "def f(monotonic):\n    return time.time()\nx = time.time()\n", 2),
    ],
)
def test_a_place_is_left_and_told_where_a_new_name_means_something_else(
    tmp_path: Path, rule: tuple[str, str], text: str, line: int
) -> None:
    old, new = rule
    fine = "" if "import list" in text else f"X = {old.replace('$T', 'int')}\n"
    name = new.partition("[")[0].partition("(")[0]
    if not fine:
        with pytest.raises(EditRefusedError, match=f"{name} means something else at a.py:{line}"):
            replace_code(workspace_of(tmp_path, text), old, new)
        return
    done = replace_code(workspace_of(tmp_path, text + fine), old, new)
    after = done.changes.files[0].new_text.split("\n")
    assert after[line - 1] == text.split("\n")[line - 1]
    assert after[-2] == f"X = {new.replace('$T', 'int')}"
    assert any(f"left, where {name} means something else: a.py:{line}" in note for note in done.notes)


@pytest.mark.parametrize(
    ("old", "new", "text", "after"),
    [
        (*LIST, "class A:\n    def list(self):\n        x: List[int] = []\n", "list[int]"),
        (*LIST, "class A:\n    def list(self): ...\n    class B:\n        x: List[int]\n", "list[int]"),
        (*LIST, "class A:\n    list = 1\n    x = [List[int] for _ in y]\n", "list[int]"),
        (*LIST, "def f(list): ...\nx: List[int]\n", "list[int]"),
        (*CLOCK, "from time import monotonic\ndef f(x):\n    return time.time()\n", "monotonic()"),
        ("log($X)", "self.log($X)", "class A:\n    def f(self):\n        log(1)\n", "self.log(1)"),
        ("log($X)", "self.log($X)", "class A:\n    def f(self):\n        log(1)\nlog(2)\n", "self.log(1)"),
        ("log($X)", "log.info($X)", "log = 1\ndef f(log):\n    log(1)\n", "log.info(1)"),
        ("f($X)", "g($X)", "def h(list):\n    f(list)\n", "g(list)"),
        ("f($X)", "[id for id in $X]", "def h(y):\n    f(y)\n", "[id for id in y]"),
    ],
)
def test_a_place_is_changed_where_a_new_name_means_what_is_meant(
    tmp_path: Path, old: str, new: str, text: str, after: str
) -> None:
    assert after in replace_code(workspace_of(tmp_path, text), old, new).changes.files[0].new_text


def test_lines_may_end_in_any_way(tmp_path: Path) -> None:
    text = "x = 'é'\rclass A:\r    list = 1\r    x: List[int]\rz: List[int]\r"
    (tmp_path / "a.py").write_bytes(text.encode())
    done = replace_code(Workspace(Repository.open(tmp_path)), *LIST)
    assert (done.changes.files[0].after or b"").decode() == text.replace("z: List", "z: list")
