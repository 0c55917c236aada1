"""What can be extracted from a function: whole statements, whichever lines are named."""

import ast
import itertools
from collections import Counter
from pathlib import Path

import pytest

from khepri.edits.locate import Target, find_target, read_source
from khepri.edits.moving.refactor import extract
from khepri.edits.python.statements import Statements
from khepri.edits.refusal import EditRefusedError
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

CODE = '''class Reader:
    @property
    def stem(self):
        """Text
that is not indented."""
        name = self.name
        if not name:
            raise ValueError(
                "empty"
            )
        if name == "x":
            raise ValueError("x")
        for part in name:
            print(part)
        return name
'''


def target(root: Path) -> Target:
    (root / "a.py").write_text(CODE, encoding="utf-8")
    return find_target(read_source(Workspace(Repository.open(root)), "a.py"), "Reader.stem")


def test_lines_of_statements_are_offered_and_a_quoted_one_alone(tmp_path: Path) -> None:
    statements = Statements(target(tmp_path))
    assert statements.starts("extract the checks") == [4, 6, 7, 8, 11, 12, 13, 14, 15]
    assert statements.ends == [5, 6, 10, 12, 14, 15]
    assert statements.starts('from "if not name:" to the second raise') == [7]


@pytest.mark.parametrize(
    ("lines", "whole"),
    [
        ((7, 12), (7, 12)),
        ((9, 11), (7, 12)),
        ((12, 8), (7, 12)),
        ((8, 9), (8, 10)),
        ((14, 14), (14, 14)),
        ((5, 6), (4, 6)),
    ],
)
def test_lines_grow_to_the_statements_that_hold_them(
    tmp_path: Path, lines: tuple[int, int], whole: tuple[int, int]
) -> None:
    assert Statements(target(tmp_path)).around(*lines) == whole


def test_what_they_grow_to_can_always_be_parsed(tmp_path: Path) -> None:
    statements = Statements(target(tmp_path))
    for start, end in itertools.product(range(4, 16), repeat=2):
        first, last = statements.around(start, end)
        assert first <= min(start, end)
        assert last >= max(start, end)
        ast.parse("\n".join(["def f():", *CODE.split("\n")[first - 1 : last]]))


def test_statements_that_were_found_are_extracted(tmp_path: Path) -> None:
    found = target(tmp_path)
    first, last = Statements(found).around(9, 11)
    for code in (CODE, CODE.replace("that is", "    that is")):
        (tmp_path / "a.py").write_text(code, encoding="utf-8")
        text = extract(Workspace(Repository.open(tmp_path)), "a.py", first, last, "check").changes.files[0].new_text
        assert "        self.check(name)" in text
        assert Counter(texts_in(text)) == Counter(texts_in(code))


def texts_in(code: str) -> list[object]:
    return [node.value for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Constant)]


def test_what_is_no_function_has_no_statements(tmp_path: Path) -> None:
    (tmp_path / "b.py").write_text("class X:\n    pass\n", encoding="utf-8")
    workspace = Workspace(Repository.open(tmp_path))
    with pytest.raises(EditRefusedError, match="no statements"):
        Statements(find_target(read_source(workspace, "b.py"), "X"))
