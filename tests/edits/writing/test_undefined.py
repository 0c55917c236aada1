"""What a new version uses is defined: the standard library is imported, anything else is refused."""

from pathlib import Path

import pytest

from khepri.edits.locate import find_target, read_source
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.edits.writing.rewrite import rewritten
from khepri.repo.root import Repository

PYTHON = '"""Roots."""\n\nimport os\n\n\ndef root(a):\n    return unknown_before(a)\n'
GO = 'package a\n\nimport (\n\t"sort"\n)\n\nvar log = 1\n\nfunc Root(a []int) int {\n\treturn sort.X(a)\n}\n'


def written(root: Path, path: str, text: str, symbol: str, old: str, new: str) -> str:
    (root / path).write_text(text, encoding="utf-8")
    target = find_target(read_source(Workspace(Repository.open(root)), path), symbol)
    return rewritten(target, target.text.replace(old, new), "let it compute the root").new_text


def test_a_module_of_the_standard_library_is_imported(tmp_path: Path) -> None:
    text = written(tmp_path, "a.py", PYTHON, "root", "unknown_before(a)", "math.sqrt(unknown_before(a))")
    assert "import os\nimport math\n\n\ndef root" in text


@pytest.mark.parametrize("code", ["compute(a)", "math", "numpy.sqrt(a)", "[no_such for _ in a]"])
def test_what_nothing_defines_is_refused(tmp_path: Path, code: str) -> None:
    with pytest.raises(EditRefusedError, match="nothing defines") as caught:
        written(tmp_path, "a.py", PYTHON, "root", "unknown_before(a)", code)
    assert caught.value.reason is Refusal.MALFORMED


@pytest.mark.parametrize("code", ["os.sep", "len(a)", "__file__", "[b for b in a]", "root(a)"])
def test_what_is_defined_is_used_as_it_is(tmp_path: Path, code: str) -> None:
    text = written(tmp_path, "a.py", PYTHON, "root", "unknown_before(a)", code)
    assert text == PYTHON.replace("unknown_before(a)", code)


@pytest.mark.parametrize(
    ("code", "imports"),
    [
        ("math.Sqrt(sort.X(a))", '\t"math"\n'),
        ("json.Size(time.Second, a)", '\t"encoding/json"\n\t"time"\n'),
        ("int(time.Duration(1))", '\t"time"\n'),
        ("log.X(a)", ""),
        ("config.X(a)", ""),
        ("func(time T) int { return time.x }(a)", ""),
    ],
)
def test_a_package_of_the_standard_library_is_imported_in_go(tmp_path: Path, code: str, imports: str) -> None:
    text = written(tmp_path, "a.go", GO, "Root", "sort.X(a)", code)
    assert text == GO.replace("sort.X(a)", code).replace(")\n\nvar", f"{imports})\n\nvar")
