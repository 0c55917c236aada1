"""What a call passes takes the place of a parameter in the f-strings of a function that is inlined."""

from pathlib import Path

import pytest

from khepri.edits.inline_fstrings import filling
from khepri.edits.inlining import inline
from khepri.edits.refusal import EditRefusedError
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


@pytest.mark.parametrize(
    ("body", "written", "filled"),
    [
        ('x = f"{n}"', '"a"', "'a'"),
        ("x = f'{n}'", "'a'", '"a"'),
        ('x = f"it\'s {n}"', '"a"', "'a'"),
        ('x = f"{n}"', 'f"run {i}"', "f'run {i}'"),
        ('x = f"{n}"', "a.b(c)[1]", "a.b(c)[1]"),
        ('x = f"{n}"', "{1: 2}", "({1: 2})"),
        ('x = f"{n}"', "lambda: 1", "(lambda: 1)"),
        ('x = f"{m}" + n', '"a"', '"a"'),
        ('x = f"{n}"', '"it\'s"', None),
        ('x = f"{n}"', r'"\n"', None),
        ("x = f'{n}' f\"{n}\"", "'a'", None),
        ('x = f"{n=}"', "1", None),
        ('x = f"{n == 1}"', "1", "1"),
    ],
)
def test_what_fills_an_f_string_has_other_quotes_and_nothing_that_ends_it(
    body: str, written: str, filled: str | None
) -> None:
    assert filling(body, "n", written) == filled


LABEL = 'def label(name, level="info"):\n    return f"[{level}] {name}"\n\n\n'


def inlined(root: Path, text: str) -> str:
    (root / "m.py").write_text(text, encoding="utf-8")
    return inline(Workspace(Repository.open(root)), "m.py", "label").changes.files[0].new_text


def test_a_function_that_fills_an_f_string_is_inlined(tmp_path: Path) -> None:
    text = LABEL + 'def run(n):\n    return label(f"run {n}") + label("x", level="w")\n'
    assert inlined(tmp_path, text) == "def run(n):\n    return f\"[{'info'}] {f'run {n}'}\" + f\"[{'w'}] {'x'}\"\n"


def test_statements_whose_names_the_caller_has_too_are_inlined(tmp_path: Path) -> None:
    body = 'def label(name):\n    line = f"[{name}]"\n    OUT.append(line)\n\n\n'
    use = 'def run(n):\n    line = n\n    label(f"run {n}")\n    return line\n\n\nX = run(3)\n'
    out: list[str] = []
    scope: dict[str, object] = {"OUT": out}
    exec(inlined(tmp_path, body + use), scope)
    assert (scope["X"], out) == (3, ["[run 3]"])


def test_what_has_no_room_in_an_f_string_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(EditRefusedError, match=r"\"it's\" cannot stand for name in an f-string of the function"):
        inlined(tmp_path, LABEL + 'def run():\n    return label("it\'s")\n')
