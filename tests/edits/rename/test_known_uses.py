"""Where the code says what an object is, a rename follows it, and leaves another class's member without a word."""

from pathlib import Path

import pytest

from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

HOME = """class A:
    def {0}(self):
        return 1


class Sub(A):
    def {0}(self):
        return super().{0}() + 1


class B:
    def {1}(self):
        return 2


class SubB(B):
    def {1}(self):
        return super().{1}() + 1
"""
USE = """import a
from typing import Optional
from a import A, B, Sub


def f(p: A, q: "B", r: Optional[a.Sub], s: "A | None", *rest: int):
    t: B = q
    u = a.A()
    return (p.{0}(), q.{1}(), r.{0}(), s.{0}(), t.{1}(), u.{0}(), (lambda: p.{0}())(), (lambda q: q.run())(p))


def g(p: A):
    p = f(p)
    return p.run()
"""


@pytest.mark.parametrize(
    ("symbol", "names"), [("A.run", ("go", "run")), ("Sub.run", ("go", "run")), ("B.run", ("run", "go"))]
)
def test_a_member_is_renamed_on_objects_that_are_annotated_or_made(
    tmp_path: Path, symbol: str, names: tuple[str, str]
) -> None:
    for path, text in {"a.py": HOME, "use.py": USE}.items():
        (tmp_path / path).write_text(text.format("run", "run"), encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "a.py", symbol, "go")
    after = {change.path: change.new_text for change in done.changes.files}
    assert after == {"a.py": HOME.format(*names), "use.py": USE.format(*names)}
    (note,) = done.notes
    assert note == "2 uses of .run may mean something else and were left: use.py:9, use.py:14"


@pytest.mark.parametrize(
    "test",
    [
        "    with pytest.raises(a.Bad) as e:\n        f()\n    assert e.value.{0} and not e.type.cause\n",
        "    with self.assertRaisesRegex(a.Bad, 'x') as e:\n        f()\n    return e.exception.{0}\n",
        "    with pytest.raises(a.Worse) as e:\n        f(e.value.cause)\n    with pytest.raises(a.Bad) as e:\n"
        "        f()\n    return e.value.{0}\n",
        "    with pytest.raises((a.Bad, a.Worse)) as e:\n        f()\n    return e.value.cause\n",
    ],
)
def test_what_is_read_of_an_expected_error_is_renamed(tmp_path: Path, test: str) -> None:
    home = "class Bad(Exception):\n    {0} = 1\n\n\nclass Worse(Exception):\n    cause = 2\n"
    use = f"import a\nimport pytest\n\n\ndef test(self, f):\n{test}"
    for path, text in {"a.py": home, "use.py": use}.items():
        (tmp_path / path).write_text(text.format("cause"), encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "a.py", "Bad.cause", "reason")
    after = {change.path: change.new_text for change in done.changes.files}
    assert after == {
        path: text.format("reason") for path, text in {"a.py": home, "use.py": use}.items() if "{0}" in text
    }


def test_what_is_renamed_by_inference_alone_is_told_where_another_class_has_the_name(tmp_path: Path) -> None:
    text = (
        "class A:\n    def size(self):\n        return 1\n\n\nclass B:\n    def {0}(self):\n        return 2\n\n\n"
        "class Both:\n    def __init__(self, flag):\n        self.part = B()\n"
        "        if flag:\n            self.part = A()\n\n"
        "    def use(self):\n        return self.part.size() + A().size()\n"
    )
    (tmp_path / "a.py").write_text(text.format("size"), encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "a.py", "A.size", "length")
    assert "self.part.length() + A().length()" in done.changes.files[0].new_text
    assert done.notes == (
        "a.py:18 may have other objects too, but was renamed as if of A: see that no other .size is there",
    )
    (tmp_path / "a.py").write_text(text.format("other"), encoding="utf-8")
    assert not rename(Workspace(Repository.open(tmp_path)), "a.py", "A.size", "length").notes


@pytest.mark.parametrize("made", ["a = A()\n{0}if flag:\n{0}    a = B()", "a = A() if flag else B()"])
@pytest.mark.parametrize("name", ["self.part", "part"])
def test_what_may_be_of_the_class_too_is_told_where_it_is_left(tmp_path: Path, made: str, name: str) -> None:
    made = made.replace("a =", f"{name} =").replace("{0}", " " * 8)
    text = (
        "class A:\n    def size(self):\n        return 1\n\n\nclass B:\n    def size(self):\n        return 2\n\n\n"
        f"class Both:\n    def use(self, flag):\n        {made}\n        return {name}.size()\n"
    )
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "a.py", "A.size", "length")
    line = text[: text.index(f"return {name}")].count("\n") + 1
    assert any(f"a.py:{line}" in each for each in done.notes)


PAIR = "class A:\n    def go(self): ...\n\n\nclass B:\n    def go(self): ...\n\n\n"
FACTORY = PAIR + "def mk(n):\n    if n:\n        return A()\n    return B()\n"


@pytest.mark.parametrize("symbol", ["A.go", "B.go"])
@pytest.mark.parametrize(
    "factory",
    [
        FACTORY,
        PAIR + "def mk(n):\n    return A() if n else B()\n",
        PAIR + "def mk(n):\n    if n:\n        r = A()\n    else:\n        r = B()\n    return r\n",
    ],
)
def test_what_a_factory_of_several_classes_returns_is_told(tmp_path: Path, factory: str, symbol: str) -> None:
    uses = "from a import mk\n\n\ndef use(n):\n    mk(n).go()\n    x = mk(n)\n    x.go()\n"
    for name, text in {"a.py": factory, "b.py": uses}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "a.py", symbol, "run")
    assert "b.py:5, b.py:7 " in "\n".join(done.notes) or ": b.py:5, b.py:7" in "\n".join(done.notes)


def test_what_is_left_on_objects_whose_class_the_code_says_is_not_told(tmp_path: Path) -> None:
    own = "    def twice(self):\n        self.go()\n"
    uses = "x = B()\nx.go()\nB().go()\nB.go(x)\n\n\ndef f(b: B, c):\n    b.go()\n    c = B()\n"
    (tmp_path / "a.py").write_text(PAIR.rstrip() + "\n\n" + own + "\n\n" + uses, encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "a.py", "A.go", "run")
    assert done.notes == ()
