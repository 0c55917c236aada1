"""What a pattern may be: anything with a word, a value or an operator of its own, however short."""

from pathlib import Path

import pytest

from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.structural import replace_code
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


def workspace_of(root: Path, text: str) -> Workspace:
    (root / "a.py").write_text(text, encoding="utf-8")
    return Workspace(Repository.open(root))


@pytest.mark.parametrize(
    ("text", "pattern", "replacement", "after"),
    [
        ("assert eq(a, f(b))\n", "eq($A, $B)", "$A == $B", "assert a == f(b)\n"),
        ("x = f(1)\n", "f($A)", "$A", "x = 1\n"),
        ("x = a == b\n", "$A == $B", "$B == $A", "x = b == a\n"),
        ("x = y + 0\n", "$A + 0", "$A", "x = y\n"),
    ],
)
def test_a_pattern_of_a_short_name_or_an_operator_is_taken(
    tmp_path: Path, text: str, pattern: str, replacement: str, after: str
) -> None:
    done = replace_code(workspace_of(tmp_path, text), pattern, replacement)
    assert done.changes.files[0].after == after.encode()


@pytest.mark.parametrize("pattern", ["$A", "$$$A", "$$$", "$_", "($A)", "$A, $B", "$F($$$A)", "$A.$B", "$A[$B]"])
def test_a_pattern_of_holes_alone_would_match_anything(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(EditRefusedError, match="would match anything") as refused:
        replace_code(workspace_of(tmp_path, "f(x)\n"), pattern, "y")
    assert refused.value.reason is Refusal.NOT_POSSIBLE
