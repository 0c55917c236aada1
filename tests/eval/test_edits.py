"""The edit tasks are sound: none passes before it is done, and what is planted is there."""

from pathlib import Path

import pytest

from khepri.edits.change import FileChange
from tests.eval.edits.__main__ import EditTask, is_sound, load_tasks, make_copy, passes
from tests.eval.edits.unrelated import unrelated_lines

TASKS = load_tasks()


def test_there_are_sixty_tasks_of_their_own() -> None:
    assert len(TASKS) == len({task.id for task in TASKS}) == 60


@pytest.mark.slow
@pytest.mark.parametrize("task", TASKS, ids=[task.id for task in TASKS])
def test_no_task_passes_before_it_is_done(task: EditTask, tmp_path: Path) -> None:
    root = make_copy(task, tmp_path)
    assert not passes(task, root)
    new = {path for path in task.files if not (root / path).exists()}
    assert len(new) <= 1


def test_a_change_that_was_not_promised_is_no_sound_one() -> None:
    before = {"a.py": b"a = 1\n", "b.py": b"b = 1\n"}
    assert is_sound(before, {**before, "a.py": b"a = 2\n"}, {"a.py": b"a = 2\n"})
    assert not is_sound(before, {**before, "b.py": b"b = 2\n"}, {})
    assert not is_sound(before, {**before, "a.py": b"a =\n"}, {"a.py": b"a =\n"})
    assert is_sound(before, {"a.py": b"a = 1\n"}, {"b.py": None})


@pytest.mark.parametrize(
    ("after", "plan", "count"),
    [
        (b"def b():\n    return 1\n\n\nlimit = b()\n", "rename m.py a to b", 0),
        (b"import os\n\n\ndef a():\n    return os.sep\n\n\nlimit = a()\n", "rewrite m.py a", 0),
        (b"def a():\n    return 1\n\n\nlimit = 3\n", "rewrite m.py c", 2),
        (b"def a():\n    return 2\n\n\nlimit = a()\n", "rewrite m.py c", 2),
    ],
)
def test_lines_that_the_plan_is_not_about_are_counted(after: bytes, plan: str, count: int) -> None:
    before = b"def a():\n    return 1\n\n\nlimit = a()\n"
    assert unrelated_lines([FileChange("m.py", before, after)], [plan]) == count
