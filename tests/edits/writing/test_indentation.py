"""Code is indented as the code that it replaces."""

from pathlib import Path

import pytest

from khepri.edits.locate import find_target, read_source
from khepri.edits.workspace import Workspace
from khepri.edits.writing.addition import added
from khepri.edits.writing.indentation import in_style_of
from khepri.edits.writing.rewrite import rewritten
from khepri.repo.root import Repository

TABBED = "class A:\n\tdef f(self):\n\t\tif self:\n\t\t\treturn 1\n\t\treturn 2\n"
SPACED = TABBED.replace("\t", "  ")


@pytest.mark.parametrize("path", ["a.py", "b.py"])
@pytest.mark.parametrize("width", ["\t", "  ", "    "])
@pytest.mark.parametrize("depth", [0, 1])
def test_tabs_stay_tabs_and_spaces_spaces_whatever_the_model_writes(
    tmp_path: Path, path: str, width: str, depth: int
) -> None:
    text = {"a.py": TABBED, "b.py": SPACED}[path]
    (tmp_path / path).write_text(text, encoding="utf-8")
    target = find_target(read_source(Workspace(Repository.open(tmp_path)), path), "A.f")
    lines = ("def f(self):", "\tif self:", "\t\treturn 3", "\treturn 2")
    written = "\n".join("\t" * depth + line for line in lines).replace("\t", width)
    if path == "b.py" and width == "    ":
        return  # other spaces are as good
    assert rewritten(target, written, "return 3").after == text.replace("1", "3").encode()


def test_a_whole_file_and_a_new_member_keep_the_style_too(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(TABBED, encoding="utf-8")
    source = read_source(Workspace(Repository.open(tmp_path)), "a.py")
    after = TABBED.replace("1", "3")
    assert rewritten(find_target(source), after.replace("\t", "    "), "return 3").after == after.encode()
    change = added(find_target(source, "A"), "def g(self):\n    return 4")
    assert change.after == f"{TABBED}\n\tdef g(self):\n\t\treturn 4\n".encode()


@pytest.mark.parametrize(
    ("old", "code"),
    [
        ("if a:\n\tb\n", "if a:\n   b\n  c\n"),
        ("if a:\n\tb\n", "if a:\n b\n"),
        ("if a:\n\tb\n  c\n", "if a:\n    b\n"),
        ("a = 1\n", "if a:\n    b\n"),
        ("if a:\n\tb\n", "f(a,\n    b,\n      c)"),
    ],
)
def test_what_is_mixed_or_fits_no_steps_stays(old: str, code: str) -> None:
    assert in_style_of(old, code) == code
