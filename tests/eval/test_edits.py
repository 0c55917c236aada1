"""The edit tasks are sound: none passes before it is done, and what is planted is there."""

from pathlib import Path

import pytest

from tests.eval.edits.__main__ import EditTask, is_sound, load_tasks, make_copy, passes

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
