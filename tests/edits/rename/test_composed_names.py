"""A definition that may be asked for by a name that is put together is told when it is renamed."""

from pathlib import Path

import pytest

from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

HOME = "class Walker:\n    def visit_list(self): ...\n\n    def walk(self, n):\n        {0}\n\n\ndef visit_all(): ...\n"
IN_CLASS = [
    "return getattr(self, f'visit_{n}')()",
    "return getattr(self, 'visit_' + n, None)",
    "return getattr(self, 'visit_%s' % n)",
    "return getattr(self, 'visit_{}'.format(n))",
    "return getattr(type(self), f'{n}_list')",
    "found = 'visit_' + n.__class__.__name__; return getattr(self, found)",
    "return hasattr(n.walker, f'visit_{n}')",
    "return methodcaller(f'visit_{n}')",
    "return self.__dict__['visit_' + n]",
    "found = f'Visit_{n}'; return getattr(self, found.lower())",
    "return getattr(self, f'visit-{n}'.replace('-', '_'))",
    "return getattr(self, n)()",
    "return getattr(self, n.name)()",
    "return object.__getattribute__(self, n['kind'])()",
]


def notes(root: Path, home: str, symbol: str, use: str = "") -> tuple[str, ...]:
    (root / "home.py").write_text(home, encoding="utf-8")
    (root / "use.py").write_text(use, encoding="utf-8")
    return rename(Workspace(Repository.open(root)), "home.py", symbol, "see").notes


@pytest.mark.parametrize("line", IN_CLASS)
def test_a_method_that_a_composed_name_may_mean_is_told(tmp_path: Path, line: str) -> None:
    assert notes(tmp_path, HOME.format(line), "Walker.visit_list") == (
        "visit_list may be asked for at home.py:5 by a name that is put together or passed there, which was left: "
        "see that see is found",
    )


@pytest.mark.parametrize(
    "use",
    [
        "import home\ngetattr(home, f'visit_{n}')\n",
        "from home import Walker\n\n\nclass Other(Walker):\n    def f(self):\n        getattr(self, f'visit_{n}')\n",
    ],
)
def test_a_composed_name_elsewhere_is_told_for_what_has_it(tmp_path: Path, use: str) -> None:
    symbol, other = (
        ("visit_all", "Walker.visit_list") if use.startswith("import") else ("Walker.visit_list", "visit_all")
    )
    assert "use.py" in "".join(notes(tmp_path, HOME.format("pass"), symbol, use))
    assert notes(tmp_path, HOME.format("pass"), other, use) == ()


def test_a_function_is_told_where_its_module_looks_for_it(tmp_path: Path) -> None:
    assert "home.py:5" in notes(tmp_path, HOME.format("return globals()[f'visit_{n}']"), "visit_all")[0]


@pytest.mark.parametrize("read", ["globals()[n]", "globals().get(n.upper())", "globals()[n.kind]"])
def test_a_function_is_told_where_its_module_looks_for_a_name_that_is_passed(tmp_path: Path, read: str) -> None:
    home = HOME.format("pass") + f"\n\ndef find(n):\n    return {read}\n"
    assert "visit_all may be asked for at home.py:12" in notes(tmp_path, home, "visit_all")[0]
    assert notes(tmp_path, home, "Walker.visit_list") == ()


@pytest.mark.parametrize(
    ("use", "symbol"),
    [
        ("import home\n\n\ndef f(n):\n    return getattr(home, n)\n", "visit_all"),
        ("from home import Walker\n\n\ndef f(n):\n    return getattr(Walker, n)\n", "Walker.visit_list"),
    ],
)
def test_what_is_asked_for_a_name_that_is_passed_is_told(tmp_path: Path, use: str, symbol: str) -> None:
    assert "may be asked for at use.py:5" in notes(tmp_path, HOME.format("pass"), symbol, use)[0]
    other = {"visit_all": "Walker.visit_list", "Walker.visit_list": "visit_all"}[symbol]
    assert notes(tmp_path, HOME.format("pass"), other, use) == ()


@pytest.mark.parametrize(
    ("line", "use"),
    [
        ("return getattr(self, f'leave_{n}')", ""),
        ("return [getattr(self, each) for each in dir(self)]", ""),
        ("pass\n\n    def __getattr__(self, n):\n        return getattr(self, n.lower())", ""),
        ("return getattr(n, n)", "class Other:\n    def f(self, n):\n        return getattr(self, n)\n"),
        ("return getattr(n, f'v{n}')", ""),
        ("pass", "class Other:\n    def f(self, n):\n        return getattr(self, f'visit_{n}')\n"),
        ("pass", "import ast\ngetattr(ast, f'visit_{n}')\n"),
    ],
)
def test_what_a_composed_name_cannot_mean_is_not_told(tmp_path: Path, line: str, use: str) -> None:
    assert notes(tmp_path, HOME.format(line), "Walker.visit_list", use) == ()
