"""A new version of a definition changes that definition alone, and a docstring task its docstring alone."""

from pathlib import Path

import pytest

from khepri.edits.locate import Target, find_target, read_source
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.edits.writing.blocks import with_blocks
from khepri.edits.writing.rewrite import rewritten
from khepri.repo.root import Repository

SHAPES = """import functools
import os

LIMIT = 3


@functools.cache
def area(width, height):
    # both in metres
    with lock:
        return width * height  # square metres


class Box:
    @property
    def size(self):
        return self._size

    @staticmethod
    def empty():
        pass
"""
AREA = "\n".join(SHAPES.split("\n")[6:11])
TEXT = '"""Return the area."""'
DOCUMENTED = AREA.replace("height):\n", f"height):\n    {TEXT}\n")
TASK = "add a docstring to area"


def target(root: Path, symbol: str) -> Target:
    (root / "shapes.py").write_text(SHAPES, encoding="utf-8")
    return find_target(read_source(Workspace(Repository.open(root)), "shapes.py"), symbol)


def refused(root: Path, symbol: str, written: str, task: str) -> EditRefusedError:
    with pytest.raises(EditRefusedError) as caught:
        rewritten(target(root, symbol), written, task)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(
    "written",
    [
        f"{TEXT}\n{AREA}",
        f"{DOCUMENTED}\n\nos.system('x')",
        f"{DOCUMENTED}\n\nif LIMIT:\n    os.system('x')",
        f"{DOCUMENTED}\n\nfor x in area(1, 2):\n    pass",
        f"{DOCUMENTED}\n\nX = os.system('x')",
        f"{DOCUMENTED}\n\narea.x = 1",
        f"import os\n\nos.environ.clear()\n{DOCUMENTED}",
        f"{DOCUMENTED}\n\narea(1, 2)",
    ],
)
@pytest.mark.parametrize("task", [TASK, "make area faster"])
def test_no_statement_may_stand_outside_of_the_definition(tmp_path: Path, written: str, task: str) -> None:
    error = refused(tmp_path, "area", written, task)
    assert error.reason is Refusal.MALFORMED
    assert "outside of area" in error.message


def test_a_text_beside_a_method_is_refused_too(tmp_path: Path) -> None:
    method = f"    {TEXT}\n    @property\n    def size(self):\n        return self._size"
    assert "outside of size" in refused(tmp_path, "Box.size", method, "add a docstring to Box.size").message


@pytest.mark.parametrize(
    "written",
    [
        f"import math\n\n{AREA.replace('height  #', 'math.pi  #')}",
        f"{AREA.replace('width *', 'FACTOR *')}\n\n\nFACTOR = 2",
        f"FACTOR: int = 2\n\n\n{AREA.replace('width *', '_scaled(FACTOR) *')}\n\n\ndef _scaled(x):\n    return x",
    ],
)
def test_what_the_definition_uses_may_come_along(tmp_path: Path, written: str) -> None:
    assert rewritten(target(tmp_path, "area"), written, "let area use a factor").after


@pytest.mark.parametrize(
    ("symbol", "gone", "task", "may"),
    [
        ("area", "@functools.cache\n", "make area accept None", False),
        ("area", "@functools.cache\n", "do not cache the results of area any more: drop functools.cache", True),
        ("area", "@functools.cache\n", "area should have no decorator", True),
        ("Box.size", "    @property\n", "let size return 0 where there is none", False),
        ("Box.size", "    @property\n", "turn the property size into a method", True),
        ("Box", "    @staticmethod\n", "let size return 0 where there is none", False),
    ],
)
def test_a_decorator_stays_unless_the_task_speaks_of_it(
    tmp_path: Path, symbol: str, gone: str, task: str, may: bool
) -> None:
    code = target(tmp_path, symbol).text
    written = f"{code}\n".replace(gone, "").replace("return ", "return 0 or ").rstrip("\n")
    if may:
        assert rewritten(target(tmp_path, symbol), written, task).after
    else:
        error = refused(tmp_path, symbol, written, task)
        assert error.reason is Refusal.SHRINKAGE
        assert gone.strip() in error.message


def test_a_decorator_with_other_arguments_or_of_another_kind_is_the_tasks(tmp_path: Path) -> None:
    cached = AREA.replace("functools.cache", "functools.cache(1)")
    assert rewritten(target(tmp_path, "area"), cached, "bound what is kept").after
    other = "    @classmethod\n    def empty(cls):\n        pass"
    assert rewritten(target(tmp_path, "Box.empty"), other, "make empty a classmethod").after


@pytest.mark.parametrize(
    "written",
    [
        DOCUMENTED.replace("@functools.cache\n", ""),
        DOCUMENTED.replace("    with lock:\n        return", "    return"),
        DOCUMENTED.replace("  # square metres", ""),
        DOCUMENTED.replace("    # both in metres\n", ""),
        DOCUMENTED.replace("width *", "width +"),
        DOCUMENTED.replace("height):", "height: float):"),
        AREA.replace("# both", "# Returns the area. Both"),
        f"import math\n\n{DOCUMENTED}\n\n\ndef other():\n    return 1",
    ],
)
@pytest.mark.parametrize("task", [TASK, "Please write a short docstring for `area`.", "give area a one-line docstring"])
def test_a_docstring_task_changes_the_docstring_alone(tmp_path: Path, written: str, task: str) -> None:
    assert refused(tmp_path, "area", written, task)
    block = f"<<<<<<< SEARCH\n{AREA}\n=======\n{written}\n>>>>>>> REPLACE\n"
    with pytest.raises(EditRefusedError):
        with_blocks(target(tmp_path, "area"), block, task)
    documented = SHAPES.replace(AREA, DOCUMENTED).encode()
    assert rewritten(target(tmp_path, "area"), DOCUMENTED, task).after == documented


COUNT = "export class A {\n  // two\n  count(a) {\n    return `a b` + a;\n  }\n}\n"


@pytest.mark.parametrize(
    ("code", "may"),
    [
        ("  /** Counts. */\n  count(a) {\n    return `a b` + a;\n  }", True),
        ("  count(a) {\n    // Counts.\n    return `a b`  +  a; // that is all\n  }", True),
        ("  /** Counts. */\n  count(a) {\n    return `a  b` + a;\n  }", False),
        ("  /** Counts. */\n  count(a, b) {\n    return `a b` + a;\n  }", False),
        ("  /** Counts. */\n  count(a) {\n    return `a b`;\n  }", False),
    ],
)
@pytest.mark.parametrize("task", ["add a doc comment to A.count", "Give A.count a JSDoc comment that says how"])
def test_a_comment_task_changes_comments_alone_in_any_language(tmp_path: Path, code: str, task: str, may: bool) -> None:
    (tmp_path / "a.js").write_text(COUNT, encoding="utf-8")
    method = find_target(read_source(Workspace(Repository.open(tmp_path)), "a.js"), "A.count")
    if may:
        assert rewritten(method, code, task).after
    else:
        with pytest.raises(EditRefusedError):
            rewritten(method, code, task)
    assert rewritten(method, code, f"{task}, and let count take b").after


def test_a_comment_in_python_may_be_a_docstring(tmp_path: Path) -> None:
    task = "add a comment to area"
    assert rewritten(target(tmp_path, "area"), DOCUMENTED, task).after
    commented = AREA.replace("    # both", "    # a product\n    # both")
    assert rewritten(target(tmp_path, "area"), commented, task).after
    assert refused(tmp_path, "area", commented.replace("width *", "width +"), task)


@pytest.mark.parametrize(
    "task",
    [
        "add a docstring and type hints to area",
        "add a docstring to area, and rename width to x",
        "let area take floats; its docstring says so",
        "write a docstring for area and add annotations",
    ],
)
def test_a_task_that_asks_for_more_may_change_more(tmp_path: Path, task: str) -> None:
    written = DOCUMENTED.replace("height):", "height: float):")
    assert rewritten(target(tmp_path, "area"), written, task).after


def test_a_docstring_may_come_in_the_place_of_a_filler_and_of_another(tmp_path: Path) -> None:
    empty = '    @staticmethod\n    def empty():\n        """Do nothing."""'
    assert rewritten(target(tmp_path, "Box.empty"), empty, "add a docstring to Box.empty").after
    whole = SHAPES.replace("    # both", f"    {TEXT}\n    # both")
    assert rewritten(target(tmp_path, ""), f'"""Shapes."""\n\n{whole}', "add docstrings").after
    assert refused(tmp_path, "", whole.replace("LIMIT = 3", "LIMIT = 4"), "add docstrings")
