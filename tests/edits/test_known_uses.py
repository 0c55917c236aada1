"""Where the code says what an object is, a rename follows it, and leaves another class's member without a word."""

from pathlib import Path

import pytest

from khepri.edits.rename import rename
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
