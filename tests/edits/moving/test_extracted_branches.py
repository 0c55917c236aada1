"""What is extracted returns what is read later and takes what it may leave as it was, whichever branch is taken."""

from pathlib import Path

import pytest

from khepri.edits.moving.refactor import extract
from khepri.edits.refusal import EditRefusedError
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


def outcomes(text: str) -> list[object]:
    """Return what ``f`` returns for some arguments."""
    names: dict[str, object] = {}
    exec(text, names)
    function = names["f"]
    assert callable(function)
    return [function(first, second) for first in (0, 1, 2) for second in (0, 1)]


@pytest.mark.parametrize(
    ("lines", "body"),
    [
        ((2, 3), ["h: list = [1]", "c = 1", "if v:", "    h = 2", "return h, c"]),
        ((2, 3), ["h = 1", "c = 1", "for h in range(v):", "    pass", "return h, c"]),
        ((2, 3), ["h = 1", "c = 1", "try:", "    h = 1 // v", "except ZeroDivisionError:", "    pass", "return h, c"]),
        ((2, 3), ["h = 1", "c = 1", "match v:", "    case 1:", "        h = 2", "return h, c"]),
        ((3, 6), ["x = 0", "if v:", "    if w:", "        print(1)", "    x = 1", "return x"]),
        ((3, 6), ["x = 0", "try:", "    x = 1 // v", "except ZeroDivisionError:", "    print(1)", "return x"]),
        ((3, 6), ["x = 0", "for i in range(v):", "    if i > 5:", "        print(i)", "    x = i", "return x"]),
        ((3, 3), ["n = 0", "n += 1", "if v:", "    n = 10", "return n"]),
        ((3, 7), ["d = 0", "if v > 1:", "    d = 1", "x = v + 1", "if d:", "    x = 0", "return x"]),
        ((3, 6), ["d = 5", "if v > 1:", "    d = 1", "if w:", "    print(d)", "return w"]),
        ((3, 4), ["if v:", "    x = w + 1", "    y = x", "else:", "    x = 3", "return x"]),
        ((3, 4), ["while v:", "    x = v", "    v = v - 1", "else:", "    x = 3", "return x"]),
    ],
)
def test_a_branch_around_or_behind_the_lines_changes_nothing(
    tmp_path: Path, lines: tuple[int, int], body: list[str]
) -> None:
    text = "def f(v, w):\n" + "".join(f"    {each}\n" for each in body)
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    done = extract(Workspace(Repository.open(tmp_path)), "a.py", *lines, "part")
    assert "part(" in done.changes.files[0].new_text
    assert outcomes(done.changes.files[0].new_text) == outcomes(text)


@pytest.mark.parametrize("lines", [(2, 3), (3, 3)])
def test_what_runs_as_a_class_is_made_is_not_extracted(tmp_path: Path, lines: tuple[int, int]) -> None:
    (tmp_path / "a.py").write_text("class A:\n    x = 1\n    y = x + 1\n", encoding="utf-8")
    with pytest.raises(EditRefusedError, match="stands in the body of the class A, which runs as it is made"):
        extract(Workspace(Repository.open(tmp_path)), "a.py", *lines, "part")


@pytest.mark.parametrize(
    ("lines", "body", "why"),
    [
        ((2, 2), ["it = (v * x for x in [w])", "v += 1", "return list(it)"], "uses v, which changes after them"),
        ((3, 3), ["it = (v * x for x in [w])", "v += 1", "return list(it)"], "a generator before the lines reads v"),
        ((2, 5), ["n = 0", "def g():", "    nonlocal n", "    n += 1", "g()", "return n"], "whose n is"),
        ((2, 3), ["global N", "N = v", "N += 1", "return N"], "whose N is"),
        ((2, 2), ["b = v", "return '{b}'.format(**locals())"], r"locals\(\) beside the lines may look for b"),
        ((2, 2), ["b = v", "return eval('b')"], r"eval\(\) beside the lines may look for b"),
    ],
)
def test_what_only_one_function_can_share_is_not_parted(
    tmp_path: Path, lines: tuple[int, int], body: list[str], why: str
) -> None:
    text = "def f(v, w):\n" + "".join(f"    {each}\n" for each in body)
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    with pytest.raises(EditRefusedError, match=why):
        extract(Workspace(Repository.open(tmp_path)), "a.py", *lines, "part")


def test_a_generator_that_is_run_at_once_is_extracted(tmp_path: Path) -> None:
    text = "def f(v, w):\n    n = sum(v * x for x in [w])\n    v += 1\n    return n, v\n"
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    done = extract(Workspace(Repository.open(tmp_path)), "a.py", 2, 2, "part")
    assert outcomes(done.changes.files[0].new_text) == outcomes(text)
