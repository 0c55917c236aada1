"""What reads the name of a class that gets another one is told, and what only shows it is not."""

from pathlib import Path

import pytest

from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


def notes(root: Path, base: str, home: str = "class BinOp(Base): ...\n") -> str:
    (root / "base.py").write_text(base, encoding="utf-8")
    (root / "home.py").write_text(f"from base import Base\n\n\n{home}", encoding="utf-8")
    return "\n".join(rename(Workspace(Repository.open(root)), "home.py", "BinOp", "Omega").notes)


READING = [
    "class Base:\n    def __init_subclass__(cls, **kw):\n        KINDS[cls.__name__] = cls\n",
    "class Base:\n    def kind(self):\n        return type(self).__name__.lower()\n",
    "class Base:\n    def kind(self):\n        return self.__class__.__qualname__\n",
    "class Meta(type):\n    def __new__(mcs, name, bases, ns):\n        ns['table'] = name\n\n\n"
    "class Base(metaclass=Meta): ...\n",
    "class Meta(type):\n    def __init__(cls, name, bases, ns):\n        KINDS[cls.__name__] = cls\n\n\n"
    "class Root(metaclass=Meta): ...\n\n\nclass Base(Root): ...\n",
]


@pytest.mark.parametrize("base", READING)
def test_what_a_class_inherits_and_reads_its_name_is_told(tmp_path: Path, base: str) -> None:
    assert notes(tmp_path, base) == (
        "base.py:3 reads the name of a class, which is Omega now for what was BinOp: see what is done with it"
    )


@pytest.mark.parametrize(
    "base",
    [
        "class Base:\n    def __repr__(self):\n        return f'<{type(self).__name__}>'\n",
        "class Base:\n    def f(self):\n        raise TypeError(type(self).__name__)\n",
        "class Base:\n    def f(self):\n        log.warning('%s', self.__class__.__name__)\n",
        "class Base: ...\n\n\nclass Other(Base):\n    def kind(self):\n        return type(self).__name__\n",
        "class Meta(type):\n    def __new__(mcs, name, bases, ns):\n"
        "        return super().__new__(mcs, name, bases, ns)\n\n\nclass Base(metaclass=Meta): ...\n",
    ],
)
def test_what_only_shows_the_name_or_reads_that_of_others_is_not_told(tmp_path: Path, base: str) -> None:
    assert notes(tmp_path, base) == ""


@pytest.mark.parametrize(
    ("composed", "found"),
    [
        ("getattr(self, 'visit_' + type(node).__name__)", "visit_BinOp"),
        ("getattr(self, f'visit_{node.__class__.__name__.lower()}', None)", "visit_binop"),
        ("find('on_%s' % snake(type(node).__name__))", "on_bin_op"),
        ("getattr(self, '{}_handler'.format(type(node).__name__))", "BinOp_handler"),
    ],
)
def test_a_method_that_is_looked_up_by_the_name_of_a_class_is_told(tmp_path: Path, composed: str, found: str) -> None:
    rest = "    def visit_unary(self): ...\n\n    def bin_op(self): ...\n"
    base = f"class Base: ...\n\n\nclass V:\n    def visit(self, node):\n        return {composed}\n\n"
    note = notes(tmp_path, f"{base}    def {found}(self): ...\n\n{rest}")
    assert note == f"{found} (base.py:8) may be looked up by the name of a class, and was left: BinOp is Omega now"
    assert notes(tmp_path, base + rest) == ""


@pytest.mark.parametrize(
    "use",
    [
        "KINDS = {each.__name__: each for each in (BinOp, Base)}\n",
        "ALL = [Base, BinOp]\nKINDS = {each.__name__: each for each in ALL}\n",
        "for each in [BinOp]: KINDS[each.__qualname__] = each\n",
        "KINDS[BinOp.__name__] = BinOp\n",
    ],
)
def test_a_name_that_is_read_in_a_loop_or_right_there_is_told(tmp_path: Path, use: str) -> None:
    note = notes(tmp_path, "class Base: ...\n", f"class BinOp(Base): ...\n\n\n{use}")
    line = 6 + use.count("\n")
    assert note == f"the name of BinOp is read at home.py:{line}, which is Omega now: see what is done with it"


def test_what_is_called_with_a_definition_and_reads_its_name_is_told(tmp_path: Path) -> None:
    base = "class Base: ...\n\n\ndef register(kind):\n    KINDS[kind.__name__] = kind\n"
    use = "class BinOp(Base): ...\n\n\nimport base\n\nbase.register(BinOp)\n"
    assert notes(tmp_path, base, use) == (
        "register reads the name of what it is given (base.py:5), which is Omega now: see what it does with it"
    )
