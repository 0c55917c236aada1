"""What changes is what the task names, where a whole file or a class is written anew."""

from pathlib import Path

import pytest

from khepri.edits.locate import Target, find_target, read_source
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.edits.writing.elsewhere import told_of_others
from khepri.edits.writing.rewrite import rewritten
from khepri.repo.root import Repository

TEXT = "const LOW = 0;\n\nfunction slug(a) {\n  return a;\n}\n\nclass Box {\n  clamp(a) {\n    return LOW;\n  }\n}\n"
TASK = "slug should replace blanks"
SLUG = ("return a;", "return a.b;")
CLAMP = ("return LOW;", "return 1;")


def target(root: Path, symbol: str = "") -> Target:
    (root / "a.js").write_text(TEXT, encoding="utf-8")
    return find_target(read_source(Workspace(Repository.open(root)), "a.js"), symbol)


def test_a_file_in_which_something_else_changes_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EditRefusedError, match=r"Box\.clamp changes, and slug, which the task names, stays") as caught:
        rewritten(target(tmp_path), TEXT.replace(*CLAMP), TASK)
    assert caught.value.reason is Refusal.UNASKED


def test_what_changes_beside_what_is_named_is_told(tmp_path: Path) -> None:
    both = TEXT.replace(*SLUG).replace(*CLAMP)
    assert rewritten(target(tmp_path), both, TASK).new_text == both
    assert ["Box.clamp changes as well" in note for note in told_of_others("a.js", "", TEXT, both, TASK)] == [True]


@pytest.mark.parametrize(
    ("text", "task"),
    [
        (TEXT.replace(*SLUG), TASK),
        (TEXT.replace("LOW = 0", "LOW = 1"), "clamp should begin at 1"),
        (TEXT.replace(*CLAMP), "1 is the least"),
        (TEXT.replace(*SLUG).replace(*CLAMP), "change both slug and clamp"),
    ],
)
def test_what_is_as_it_was_asked_for_is_neither_refused_nor_told(tmp_path: Path, text: str, task: str) -> None:
    assert rewritten(target(tmp_path), text, task).new_text == text
    assert told_of_others("a.js", "", TEXT, text, task) == ()


def test_a_class_is_looked_at_as_a_file_is_and_a_function_is_not(tmp_path: Path) -> None:
    box = target(tmp_path, "Box")
    assert rewritten(box, box.text.replace(*CLAMP), TASK).after
    clamp = target(tmp_path, "Box.clamp")
    assert rewritten(clamp, clamp.text.replace(*CLAMP), "slug and clamp").after
