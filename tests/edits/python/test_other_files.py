"""What no refactoring reaches is told: names in files that are no Python, and what a place in a file means."""

from pathlib import Path

import pytest

from khepri.edits.moving.refactor import move
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

FILES = {
    "pkg/__init__.py": "",
    "pkg/app.py": "def main():\n    return 1\n\n\ndef load_all():\n    return 2\n",
    "pyproject.toml": '[project.scripts]\nrun = "pkg.app:main"\nrun2 = "pkg.app:main"\n[tool.main]\n',
    "setup.cfg": "[options.entry_points]\nconsole_scripts =\n    run = pkg.app:main\n",
    "Makefile": "run:\n\tpython -m pkg.app\n\tpython pkg/app.py\n",
    "README.md": "The main thing is `main`, and load_all, on the main branch.\n",
    "data.bin": "main\0pkg.app:main",
}


def workspace(root: Path, files: dict[str, str]) -> Workspace:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return Workspace(Repository.open(root))


@pytest.mark.parametrize(
    ("symbol", "new", "note"),
    [
        ("main", "run", "main still stands in README.md (1 line), pyproject.toml (2 lines), setup.cfg (1 line)"),
        ("load_all", "load", "load_all still stands in README.md (1 line)"),
        ("", "tool", "pkg.app still stands in Makefile (2 lines), pyproject.toml (2 lines), setup.cfg (1 line)"),
    ],
)
def test_a_rename_tells_of_the_names_in_files_that_are_no_python(
    tmp_path: Path, symbol: str, new: str, note: str
) -> None:
    done = rename(workspace(tmp_path, FILES), "pkg/app.py", symbol, new)
    assert f"{note}: no Python, so it was left" in done.notes


def test_a_move_tells_of_the_entry_points_that_name_the_old_place(tmp_path: Path) -> None:
    done = move(workspace(tmp_path, FILES), "pkg/app.py", "main", "pkg/start.py")
    note = "pkg.app:main still stands in pyproject.toml (2 lines), setup.cfg (1 line): no Python, so it was left"
    assert done.notes == (note,)
    assert move(workspace(tmp_path, FILES), "pkg/app.py", "load_all", "pkg/start.py").notes == ()


REGISTRY = "class Plugin:\n    def __init_subclass__(cls): ...\n\n\ndef register(f):\n    return f\n"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (
            "@register\ndef f(): ...\n",
            "what @register does for f happens only once b.py is imported, and a.py does not",
        ),
        ("class f(Plugin): ...\n", "what the base class Plugin does for f happens only once b.py is imported"),
        ("class M(type): ...\n\n\nclass f(metaclass=M): ...\n", "what metaclass=M does for f"),
        ("def f():\n    return __file__, __name__\n", "f uses __file__, __name__, which mean b.py now"),
        ("def f():\n    return globals()\n", "f uses globals(), which means b.py now"),
    ],
)
def test_a_move_tells_what_depends_on_the_file(tmp_path: Path, code: str, words: str) -> None:
    head = "from registry import Plugin, register\n\n\n"
    files = {"registry.py": REGISTRY, "a.py": head + code, "b.py": "from registry import Plugin, register\n"}
    done = move(workspace(tmp_path, files), "a.py", "f", "b.py")
    assert any(note.startswith(words) for note in done.notes)


@pytest.mark.parametrize(
    "code",
    [
        "@register\ndef f(): ...\n\n\nf()\n",
        "import functools\n\n\n@functools.lru_cache(maxsize=3)\ndef f(): ...\n",
        "import abc\n\n\nclass f(metaclass=abc.ABCMeta): ...\n",
    ],
)
def test_a_move_tells_nothing_where_nothing_depends_on_the_file(tmp_path: Path, code: str) -> None:
    files = {"registry.py": REGISTRY, "a.py": "from registry import register\n\n\n" + code}
    assert move(workspace(tmp_path, files), "a.py", "f", "b.py").notes == ()
