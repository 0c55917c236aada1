"""A variable of a function is renamed in the function, and nothing else is."""

from pathlib import Path

import pytest

from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.rename import Refactoring, rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


def renamed(root: Path, text: str, symbol: str, new: str = "result") -> Refactoring:
    (root / "a.py").write_text(text, encoding="utf-8")
    (root / "b.py").write_text("acc = 1  # acc of total\n", encoding="utf-8")
    return rename(Workspace(Repository.open(root)), "a.py", symbol, new)


@pytest.mark.parametrize(
    "body",
    [
        "    é = 1; {0} = 0\n    for x in xs:\n        {0} += x\n    return {0}, f'{{0}}', xs.acc, dict(acc={0})\n",
        "    for {0}, y in xs:\n        with {0} as y:\n            print([{0} for y in {0}], lambda: {0})\n",
        "    if ({0} := xs):\n        del {0}\n    {0}: int = 2\n    return 'acc'  # acc\n",
        "    {0} = 1\n\n    def inner():\n        nonlocal {0}\n        {0} += 1\n    return inner\n",
        "    {0} = 1\n\n    def inner(acc):\n        return acc, [acc for acc in xs]\n    return inner({0}, acc={0})\n",
    ],
)
@pytest.mark.parametrize("head", ["def total(xs):\n", "async def total(xs):\n"])
def test_every_use_in_the_function_is_renamed_and_no_other(tmp_path: Path, body: str, head: str) -> None:
    around = "acc = 5\n\n\n{}\n\ndef other():\n    acc = 3\n    return acc\n\n\nprint(acc)\n"
    text = around.replace("{}", head + body)
    done = renamed(tmp_path, text.replace("{0}", "acc"), "total.acc")
    assert [change.path for change in done.changes.files] == ["a.py"]
    assert done.changes.files[0].new_text == text.replace("{0}", "result")


def test_a_variable_of_a_method_is_no_attribute(tmp_path: Path) -> None:
    text = "class C:\n    def m(self):\n        {0} = self.acc = 1\n        return {0}, self.acc\n"
    done = renamed(tmp_path, text.replace("{0}", "acc"), "C.m.acc")
    assert done.changes.files[0].new_text == text.replace("{0}", "result")


@pytest.mark.parametrize("taken", ["    result = 1\n", "    print(result)\n"])
def test_a_name_that_the_function_has_already_is_refused(tmp_path: Path, taken: str) -> None:
    with pytest.raises(EditRefusedError, match=r"result stands for something else at a\.py"):
        renamed(tmp_path, f"result = 3\n\n\ndef total():\n    acc = 2\n{taken}    return acc\n", "total.acc")


@pytest.mark.parametrize("body", ["    print(acc)\n", "    global acc\n    acc = 1\n", "    f = lambda acc: acc\n"])
def test_what_a_function_does_not_bind_itself_is_none_of_its_variables(tmp_path: Path, body: str) -> None:
    with pytest.raises(EditRefusedError, match=r"does not define total\.acc") as refused:
        renamed(tmp_path, f"def total():\n{body}", "total.acc")
    assert refused.value.reason is Refusal.NO_TARGET


def test_what_may_read_a_variable_by_its_name_is_told(tmp_path: Path) -> None:
    done = renamed(tmp_path, "def total():\n    acc = 2\n    return '{acc}'.format(**locals())\n", "total.acc")
    assert "a.py:3 calls locals(), which may mean acc by its name" in done.notes
