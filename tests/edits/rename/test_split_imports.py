"""What is imported from one place or another keeps its name there, and nothing else is imported by a new one."""

from pathlib import Path

import pytest

from khepri.edits.change import FileChange, change_set
from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.python.imports import check_imports
from khepri.edits.refusal import EditRefusedError
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

DEFINED = "def fast(x, slack=0):\n    return x\n"


def renamed(root: Path, files: dict[str, str], path: str = "a.py") -> tuple[dict[str, str], str]:
    """Return the texts of all files after ``fast`` is called ``quick``, and its notes."""
    written(root, files)
    done = rename(Workspace(Repository.open(root)), path, "fast", "quick")
    return files | {change.path: change.new_text for change in done.changes.files}, "\n".join(done.notes)


def written(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


USES = '\n\n__all__ = ["fast"]\nprint(fast(1))\n'


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    {}\nexcept ImportError:\n    from slow import fast" + USES,
        "try:\n    {}\nexcept ImportError:\n    from elsewhere import fast" + USES,
        "try:\n    from elsewhere import fast\nexcept ImportError:\n    {}" + USES,
        "try:\n    {}\nexcept ImportError:\n\n    def fast(x): ..." + USES,
        "try:\n    {}\nexcept ImportError:\n\n    class fast: ..." + USES,
        "import sys\n\nif sys.platform == 'win32':\n    {}\nelse:\n    from slow import fast" + USES,
        "def f():\n    try:\n        {}\n    except ImportError:\n        from slow import fast\n    return fast(1)\n",
        "def f():\n    global fast\n    try:\n        {}\n    except ImportError:\n        from slow import fast\n",
    ],
)
def test_an_import_that_stands_beside_another_keeps_the_name_of_both(tmp_path: Path, text: str) -> None:
    user = "import b\nfrom b import fast\n\nfast(1)\nb.fast(2)\n"
    files = {"a.py": DEFINED, "slow.py": DEFINED, "b.py": text.format("from a import fast"), "c.py": user}
    after, notes = renamed(tmp_path, files)
    assert after["a.py"] == DEFINED.replace("fast", "quick")
    assert after["b.py"] == text.format("from a import quick as fast")
    assert (after["c.py"], after["slow.py"]) == (user, DEFINED)
    assert "b.py:" in notes


def test_the_other_import_of_the_two_is_followed_as_well(tmp_path: Path) -> None:
    text = "try:\n    from a import fast\nexcept ImportError:\n    from slow import {}\nfast(1)\n"
    files = {"a.py": DEFINED, "slow.py": DEFINED, "b.py": text.format("fast")}
    after, _ = renamed(tmp_path, files, "slow.py")
    assert after["b.py"] == text.format("quick as fast")


def test_imports_that_give_another_name_are_followed_one_by_one(tmp_path: Path) -> None:
    names = "(\n        {} as f,\n        fine,\n    )"
    text = f"try:\n    from a import {names}\nexcept ImportError:\n    from slow import fast as f\n"
    files = {"a.py": DEFINED + "\n\ndef fine(): ...\n", "slow.py": DEFINED, "b.py": text.format("fast")}
    assert renamed(tmp_path, files)[0]["b.py"] == text.format("quick")


def test_an_import_through_a_package_that_passes_the_name_on_is_followed(tmp_path: Path) -> None:
    text = "try:\n    from . import {}\nexcept ImportError:\n    from slow import fast\nfast(1)\n"
    files = {"p/a.py": DEFINED, "p/__init__.py": "from .a import fast\n", "p/b.py": text.format("fast")}
    after, _ = renamed(tmp_path, files, "p/a.py")
    assert after["p/__init__.py"] == "from .a import quick\n"
    assert after["p/b.py"] == text.format("quick as fast")


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    from _speed import {0}\nexcept ImportError:\n\n    def {1}(x): ...\n\n\n{1}(1)\n",
        "def {1}(x): ...\n\n\ntry:\n    from _speed import {0}\nexcept ImportError:\n    pass\n{1}(1)\n",
        "try:\n    from _speed import {0}\nexcept ImportError:\n    {1} = None\n",
    ],
)
@pytest.mark.parametrize("is_here", [True, False])
def test_what_stands_for_a_definition_in_its_own_file_is_imported_by_its_own_name(
    tmp_path: Path, text: str, is_here: bool
) -> None:
    files = {"a.py": text.format("fast", "fast"), "c.py": "from a import fast\n"}
    after, _ = renamed(tmp_path, files | ({"_speed.py": DEFINED} if is_here else {}))
    assert after["a.py"] == text.format("fast as quick", "quick")
    assert after["c.py"] == "from a import quick\n"
    assert after.get("_speed.py", DEFINED) == DEFINED


@pytest.mark.parametrize("path", ["a.py", "slow.py"])
def test_a_rename_is_refused_where_one_of_several_modules_has_the_name(tmp_path: Path, path: str) -> None:
    text = "try:\n    import a as m\nexcept ImportError:\n    import slow as m\n\nm.fast(1)\n"
    with pytest.raises(EditRefusedError, match=r"b\.py:6 has fast from one of several modules that are called m"):
        renamed(tmp_path, {"a.py": DEFINED, "slow.py": DEFINED, "b.py": text}, path)


def test_what_is_imported_twice_from_one_place_has_one_name(tmp_path: Path) -> None:
    text = (
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from a import fast\nelse:\n    from a import fast\n"
    )
    assert renamed(tmp_path, {"a.py": DEFINED, "b.py": text})[0]["b.py"] == text.replace("fast", "quick")


def test_a_file_that_stays_as_it_is_imports_nothing_that_is_gone(tmp_path: Path) -> None:
    written(tmp_path, {"a.py": DEFINED, "b.py": "from a import fast\n"})
    change = FileChange("a.py", DEFINED.encode(), DEFINED.replace("fast", "quick").encode())
    with pytest.raises(EditRefusedError, match=r"b\.py would import fast from a, which does not have it any more"):
        check_imports(Workspace(Repository.open(tmp_path)), change_set("", [change]))


EITHER = (
    "try:\n    from a import {0}\nexcept ImportError:\n    from slow import {0}\n\n{0}(1)\n{0}(1, 2)\n{0}(1, slack=3)\n"
)
THROUGH = "import b\nfrom b import fast as f\n\nf(1, 2)\nb.fast(3, 4)\nb.fast(3)\n"


@pytest.mark.parametrize("path", ["a.py", "slow.py"])
@pytest.mark.parametrize("is_removed", [True, False])
def test_calls_of_one_function_or_another_are_told_where_a_parameter_changes(
    tmp_path: Path, path: str, is_removed: bool
) -> None:
    written(tmp_path, {"a.py": DEFINED, "slow.py": DEFINED, "b.py": EITHER.format("fast"), "c.py": THROUGH})
    workspace = Workspace(Repository.open(tmp_path))
    done = (
        remove_parameter(workspace, path, "fast", "slack")
        if is_removed
        else rename_parameter(workspace, path, "fast", "slack", "rest")
    )
    assert "b.py:7, b.py:8, c.py:4, c.py:5 call fast or something else" in "\n".join(done.notes)


def test_objects_of_one_class_or_another_are_told_where_a_parameter_changes(tmp_path: Path) -> None:
    text = "class Fast:\n    def __init__(self, x, slack=0): ...\n"
    written(tmp_path, {"a.py": text, "slow.py": text, "b.py": EITHER.format("Fast")})
    done = remove_parameter(Workspace(Repository.open(tmp_path)), "a.py", "Fast.__init__", "slack")
    assert "b.py:7, b.py:8 call Fast or something else" in "\n".join(done.notes)


def test_calls_of_what_only_an_accelerator_replaces_are_told(tmp_path: Path) -> None:
    text = DEFINED + "\n\ntry:\n    from _speed import fast\nexcept ImportError:\n    pass\n"
    written(tmp_path, {"a.py": text, "c.py": "from a import fast\n\nfast(1, 2)\n"})
    done = remove_parameter(Workspace(Repository.open(tmp_path)), "a.py", "fast", "slack")
    assert "c.py:3 calls fast or something else" in "\n".join(done.notes)


@pytest.mark.parametrize("path", ["a.py", "slow.py"])
def test_members_of_one_class_or_another_are_told(tmp_path: Path, path: str) -> None:
    text = "class A:\n    def go(self): ...\n"
    uses = "try:\n    from a import A\nexcept ImportError:\n    from slow import A\n\nA().go()\nx = A()\nx.go()\n"
    written(tmp_path, {"a.py": text, "slow.py": text, "b.py": uses})
    done = rename(Workspace(Repository.open(tmp_path)), path, "A.go", "run")
    assert "see that both have what is used at b.py:6, b.py:8" in "\n".join(done.notes)


def test_an_import_of_everything_beside_another_is_told(tmp_path: Path) -> None:
    text = "try:\n    from a import *\nexcept ImportError:\n    from slow import fast\n\nfast(1)\n"
    after, notes = renamed(tmp_path, {"a.py": DEFINED, "slow.py": DEFINED, "b.py": text})
    assert after["b.py"] == text
    assert "b.py imports everything (*) from where fast was, and has another one too" in notes
