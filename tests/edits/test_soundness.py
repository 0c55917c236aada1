"""What a refactoring library may not leave behind, tried on the library itself."""

from collections.abc import Callable
from pathlib import Path

import pytest

from khepri.edits.change import FileChange, change_set
from khepri.edits.inlining.inlining import inline
from khepri.edits.moving.refactor import extract, move
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.rename import Refactoring, rename
from khepri.edits.soundness import check_sound, new_fault
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

F = "def f():\n    return 1\n"


def workspace_of(root: Path, files: dict[str, str]) -> Workspace:
    for path, text in files.items():
        (root / path).write_text(text, encoding="utf-8")
    return Workspace(Repository.open(root))


def move_f(workspace: Workspace) -> Refactoring:
    return move(workspace, "a.py", "f", "b.py")


def rename_f(new: str) -> Callable[[Workspace], Refactoring]:
    return lambda workspace: rename(workspace, "a.py", "f", new)


REFUSED: dict[str, tuple[dict[str, str], Callable[[Workspace], Refactoring], str]] = {
    "a global left behind": (
        {"a.py": "n = 0\n\n\ndef f():\n    global n\n    n += 1\n", "b.py": ""},
        move_f,
        "f uses n, which functions of a.py assign as a global",
    ),
    "a name that is there already": (
        {"a.py": F, "b.py": F},
        move_f,
        "b.py would define f more than once",
    ),
    "the name of a function taken for an extract": (
        {"a.py": "def g():\n    return 1\n\n\ndef f(a):\n    b = a + 1\n    print(b)\n    return b\n"},
        lambda workspace: extract(workspace, "a.py", 7, 7, "g"),
        "a.py would define g more than once",
    ),
    "a local name of a user": (
        {"a.py": f"{F}\n\ndef h():\n    g = 2\n    return f() + g\n"},
        rename_f("g"),
        "g stands for something else at a.py:6",
    ),
    "a name of an importing module": (
        {"a.py": F, "b.py": "from a import f\n\ng = 5\nprint(f() + g)\n"},
        rename_f("g"),
        "g stands for something else at b.py:3",
    ),
    "a builtin that is used": (
        {"a.py": "def f(x):\n    return len(x)\n"},
        rename_f("len"),
        "len stands for something else at a.py:2",
    ),
    "a call that would be made twice": (
        {"a.py": "def f(x):\n    return x + x\n\n\ndef use(take):\n    return f(take())\n"},
        lambda workspace: inline(workspace, "a.py", "f"),
        "what a.py:6 passes to f would not be evaluated exactly once",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_broken_code_that_the_library_leaves_is_refused_with_its_place(tmp_path: Path, case: str) -> None:
    files, refactoring, message = REFUSED[case]
    with pytest.raises(EditRefusedError, match=message) as caught:
        refactoring(workspace_of(tmp_path, files))
    assert caught.value.hint


@pytest.mark.parametrize(
    "text",
    [
        "class f:\n    @property\n    def x(self): ...\n\n    @x.setter\n    def x(self, value): ...\n",
        "if 1:\n    def f(): ...\nelse:\n    def f(): ...\n",
        "def f():\n    return gone\n",
        "def h(g):\n    return g\n\n\ndef f():\n    return h\n",
    ],
)
def test_what_was_so_before_may_stay_so(text: str) -> None:
    after = text.replace("class f", "class g").replace("def f", "def g")
    check_sound(change_set("t", [FileChange("a.py", text.encode(), after.encode())]), renamed=("f", "g"))
    check_sound(change_set("t", [FileChange("a.py", text.encode(), b""), FileChange("b.py", b"", text.encode())]))


def test_a_file_that_was_broken_may_stay_broken() -> None:
    check_sound(change_set("t", [FileChange("a.py", b"def f(:\n", b"def g(:\n")]), renamed=("f", "g"))
    with pytest.raises(EditRefusedError, match="in line 1") as caught:
        check_sound(change_set("t", [FileChange("a.py", b"def f(): ...\n", b"def f(:\n")]))
    assert caught.value.reason is Refusal.SYNTAX
    check_sound(change_set("t", [FileChange("a.py", b"x = 1\n", None), FileChange("a.js", b"", b"f(")]))


def test_a_new_fault_is_told_in_every_language() -> None:
    assert new_fault(FileChange("a.js", b"f()\n", b"f(\n")) is not None
    assert new_fault(FileChange("a.js", b"f(\n", b"g(\n")) is None
    assert new_fault(FileChange("a.txt", b"", b"f(\n")) is None
    assert new_fault(FileChange("a.py", b"x\n", None)) is None


def test_a_name_that_only_type_checkers_miss_is_noted() -> None:
    after = b"from __future__ import annotations\n\n\ndef f(a: ssl.SSLContext) -> None: ...\n"
    notes = check_sound(change_set("move f", [FileChange("b.py", b"", after)]))
    assert notes == ("b.py:4 has ssl in an annotation, and nothing defines it there: import it",)
