"""What is true of a member of a class is true of those that an object may have in its place."""

from pathlib import Path

import pytest

from khepri.edits.inlining.inlining import inline
from khepri.edits.locate import find_python
from khepri.edits.parameters.new_parameter import add_parameter
from khepri.edits.parameters.parameters import rename_parameter
from khepri.edits.python.class_relations import relatives
from khepri.edits.refusal import EditRefusedError
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

MIXED = {
    "p/__init__.py": "from .base import Base\n",
    "p/base.py": (
        "class Base:\n    def {0}(self, {1}):\n        return {1}\n\n"
        "    def start(self):\n        return self.{0}({1}=1)\n"
    ),
    "p/mix.py": "class Mixin:\n    def {0}(self, {1}):\n        return super().{0}({1}) + 100\n",
    "p/both.py": "from p import Base\nfrom .mix import Mixin as M\n\n\nclass Both(M, Base):\n    pass\n",
    "p/other.py": "class Other:\n    def go(self, n):\n        return n\n",
}


def written(root: Path, files: dict[str, str], *names: str) -> Workspace:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(filled(text, *names), encoding="utf-8")
    return Workspace(Repository.open(root))


def filled(text: str, *names: str) -> str:
    for number, name in enumerate(names):
        text = text.replace(f"{{{number}}}", name)
    return text


def test_a_class_that_is_mixed_with_another_is_related_to_it_and_one_of_the_same_method_is_not(tmp_path: Path) -> None:
    workspace = written(tmp_path, MIXED, "go", "n")
    found = relatives(workspace, find_python(workspace, "p/base.py", "Base.go"))
    assert [(each.path, each.symbol, each.line) for each in found] == [("p/mix.py", "Mixin.go", 2)]


@pytest.mark.parametrize("at", [("p/base.py", "Base.go"), ("p/mix.py", "Mixin.go")])
def test_a_method_is_renamed_with_that_of_a_mixin_which_calls_it_by_super(tmp_path: Path, at: tuple[str, str]) -> None:
    done = rename(written(tmp_path, MIXED, "go", "n"), *at, "run")
    texts = {change.path: change.new_text for change in done.changes.files}
    assert texts == {path: filled(MIXED[path], "run", "n") for path in ("p/base.py", "p/mix.py")}
    assert "is renamed too" in done.notes[0]


LOCAL = """from p import Base


def test():
    class Local:
        def {0}(self, n):
            return super().{0}(n)

    class Both(Local, Base): ...

    assert Both().{0}(2)
"""


def test_a_method_is_renamed_with_that_of_a_mixin_inside_a_function(tmp_path: Path) -> None:
    done = rename(written(tmp_path, {**MIXED, "test_it.py": LOCAL}, "go", "n"), "p/base.py", "Base.go", "run")
    texts = {change.path: change.new_text for change in done.changes.files}
    assert texts["test_it.py"] == filled(LOCAL, "run")
    assert "test_it.py test.Local.go are renamed too" in done.notes[0]


def test_a_parameter_is_renamed_in_the_mixin_too(tmp_path: Path) -> None:
    done = rename_parameter(written(tmp_path, MIXED, "go", "n"), "p/base.py", "Base.go", "n", "m")
    texts = {change.path: change.new_text for change in done.changes.files}
    assert texts == {path: filled(MIXED[path], "go", "m") for path in ("p/base.py", "p/mix.py")}


def test_a_method_that_a_mixin_may_have_in_its_place_is_not_inlined(tmp_path: Path) -> None:
    with pytest.raises(EditRefusedError, match=r"may mean p/mix.py:Mixin.go"):
        inline(written(tmp_path, MIXED, "go", "n"), "p/base.py", "Base.go")


FIELDS = (
    "class Base:\n    {0} = 'base'\n\n    def show(self):\n        return self.{0}\n\n\n"
    "class Sub(Base):\n    {0} = 'sub'\n\n\n"
    "class Inst(Base):\n    def __init__(self):\n        self.{0} = 'inst'\n\n\n"
    "class Prop(Base):\n    @property\n    def {0}(self):\n        return 'prop'\n\n\n"
    "class Other:\n    name = 'other'\n"
)


@pytest.mark.parametrize("symbol", ["Base.name", "Sub.name", "Inst.name", "Prop.name"])
def test_a_field_is_renamed_with_what_classes_below_put_in_its_place(tmp_path: Path, symbol: str) -> None:
    done = rename(written(tmp_path, {"a.py": FIELDS}, "name"), "a.py", symbol, "title")
    assert done.changes.files[0].new_text == filled(FIELDS, "title")


def test_what_is_no_method_keeps_its_parameters_and_is_told(tmp_path: Path) -> None:
    text = (
        "class A:\n    def go(self, n):\n        return n\n\n    def start(self):\n        return self.go(n=1)\n\n\n"
        "class B(A):\n    def other(self, n):\n        return n\n\n    go = other\n"
    )
    done = rename_parameter(written(tmp_path, {"a.py": text}), "a.py", "A.go", "n", "m")
    assert any("a.py:13 puts something else in the place of a.py A.go" in each for each in done.notes)


def test_a_base_class_that_the_library_does_not_know_is_no_obstacle(tmp_path: Path) -> None:
    text = "class A:\n    def go(self): ...\n\n\nclass B(Thing, A):\n    def go(self): ...\n"
    text = f"from unknown import Thing\n\n\n{text}"
    done = add_parameter(written(tmp_path, {"a.py": text}), "a.py", "A.go", "k", "0")
    assert done.changes.files[0].new_text == text.replace("go(self)", "go(self, k=0)")


def test_a_property_of_an_unknown_type_has_parameters_all_the_same(tmp_path: Path) -> None:
    text = (
        "class A:\n    @property\n    def size(self, u=0):\n        return self.x\n\n\n"
        "class B(A):\n    @property\n    def size(self, u=0):\n        return self.y\n"
    )
    done = add_parameter(written(tmp_path, {"a.py": text}), "a.py", "A.size", "k", "0")
    assert "def size(self, u=0, k=0):" in done.changes.files[0].new_text


def test_a_class_in_a_class_is_renamed_with_what_classes_below_put_in_its_place(tmp_path: Path) -> None:
    text = (
        "class A:\n    class {0}:\n        x = 1\n\n    def make(self):\n        return self.{0}()\n\n\n"
        "class B(A):\n    class {0}(A.{0}):\n        x = 2\n"
    )
    for symbol in ("A.Inner", "B.Inner"):
        done = rename(written(tmp_path, {"a.py": text}, "Inner"), "a.py", symbol, "Core")
        assert done.changes.files[0].new_text == text.replace("{0}", "Core")
