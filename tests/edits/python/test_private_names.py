"""A private attribute has another name outside its class, which a rename of it or of the class changes too."""

from pathlib import Path

import pytest

from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

OURS = """class {A}:
    {secret} = 1

    def __init__(self):
        self.{token} = 2

    def {hide}(self, other):
        return self.{secret}, other.{token}

    def {show}(self):
        return self.{hide}(self), {A}.{secret}


class B({A}):
    def __init__(self):
        self.__token = self._{A}{token} = 3

    def __hide(self, other):
        return other.__token, other.__hide
"""
USE = 'from a import {A}\n\nprint({A}()._{A}{secret}, {A}()._{A}{hide}(1), getattr({A}(), "_{A}{token}"))\n'
NAMES = {"A": "A", "secret": "__secret", "token": "__token", "hide": "__hide", "show": "show"}


def filled(text: str, **names: str) -> str:
    for hole, name in (NAMES | names).items():
        text = text.replace(f"{{{hole}}}", name)
    return text


def workspace_of(root: Path, more: str = "") -> Workspace:
    (root / "a.py").write_text(filled(OURS), encoding="utf-8")
    (root / "use.py").write_text(filled(USE) + more, encoding="utf-8")
    return Workspace(Repository.open(root))


@pytest.mark.parametrize(
    ("symbol", "names"),
    [
        ("A", {"A": "Alpha"}),
        ("A.__secret", {"secret": "__hidden"}),
        ("A.__token", {"token": "__mark"}),
        ("A.__hide", {"hide": "__conceal"}),
    ],
)
def test_the_name_outside_is_renamed_and_what_others_call_so_stays(
    tmp_path: Path, symbol: str, names: dict[str, str]
) -> None:
    (new,) = names.values()
    done = rename(workspace_of(tmp_path), "a.py", symbol, new)
    assert [change.new_text for change in done.changes.files] == [filled(OURS, **names), filled(USE, **names)]


def test_an_attribute_that_is_private_no_more_has_one_name_everywhere(tmp_path: Path) -> None:
    done = rename(workspace_of(tmp_path), "a.py", "A.__token", "token")
    ours, use = (change.new_text for change in done.changes.files)
    assert "self.token = 2" in ours
    assert "self.__token = self.token = 3" in ours
    assert 'getattr(A(), "token")' in use


def test_what_is_used_outside_does_not_become_private(tmp_path: Path) -> None:
    assert rename(workspace_of(tmp_path), "a.py", "A.show", "__show").changes.files
    with pytest.raises(EditRefusedError, match=r"private to A, and use.py:5 uses") as refused:
        rename(workspace_of(tmp_path, "\nA().show()\n"), "a.py", "A.show", "__show")
    assert refused.value.reason is Refusal.NOT_POSSIBLE


def test_a_name_outside_that_two_classes_give_is_refused(tmp_path: Path) -> None:
    other = "\n\nclass _A:\n    def f(self):\n        return self.__token\n"
    with pytest.raises(EditRefusedError, match=r"_A__token in a.py may be of the class at use.py:6") as refused:
        rename(workspace_of(tmp_path, other), "a.py", "A.__token", "__mark")
    assert refused.value.reason is Refusal.AMBIGUOUS
