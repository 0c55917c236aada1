"""A module is renamed with what means it, and what merely has its name is left."""

from pathlib import Path

import pytest

from khepri.edits.refusal import EditRefusedError
from khepri.edits.rename.module_rename import rename_module
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

MODULE = "import logging\n\n\ndef get(name):\n    return logging.getLogger(name)\n"


def renamed(root: Path, files: dict[str, str], path: str, new: str) -> tuple[dict[str, str], str]:
    """Return the texts of all files that are there after a rename, and its notes."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    done = rename_module(Workspace(Repository.open(root)), path, new)
    after = files | {change.path: change.new_text for change in done.changes.files}
    return {
        path: text
        for path, text in after.items()
        if path not in {c.path for c in done.changes.files if c.after is None}
    }, "\n".join(done.notes)


def in_package(root: Path, **files: str) -> tuple[dict[str, str], str]:
    named = {name.replace("__", "/") + ".py": text for name, text in files.items()}
    return renamed(root, {"pkg/__init__.py": "", "pkg/logging.py": MODULE, **named}, "pkg/logging.py", "logs")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import pkg.logging as l\nl.get(1)\n", "import pkg.logs as l\nl.get(1)\n"),
        ("import pkg.logging\npkg.logging.get(1)\n", "import pkg.logs\npkg.logs.get(1)\n"),
        ("import pkg as p\nprint(p.logging.get)\n", "import pkg as p\nprint(p.logs.get)\n"),
        ("from pkg.logging import get\n", "from pkg.logs import get\n"),
        ("from pkg import logging\nlogging.get(1)\n", "from pkg import logs\nlogs.get(1)\n"),
        ("from pkg import (\n    logging,\n)\n", "from pkg import (\n    logs,\n)\n"),
        (
            "from pkg import logging\n\n\ndef f(logs):\n    return logging.get(logs)\n",
            "from pkg import logs as logging\n\n\ndef f(logs):\n    return logging.get(logs)\n",
        ),
        (
            "try:\n    from pkg import logging\nexcept ImportError:\n    import logging\nlogging.x\n",
            "try:\n    from pkg import logs as logging\nexcept ImportError:\n    import logging\nlogging.x\n",
        ),
        ("from pkg import logging as logging\nlogging.get(1)\n", "from pkg import logs as logging\nlogging.get(1)\n"),
        (
            'from unittest import mock\nmock.patch("pkg.logging.get")\nmock.patch("mypkg.logging.get")\n',
            'from unittest import mock\nmock.patch("pkg.logs.get")\nmock.patch("mypkg.logging.get")\n',
        ),
        ('import pkg.logging\n\nprint(f"é {pkg.logging.get}")\n', 'import pkg.logs\n\nprint(f"é {pkg.logs.get}")\n'),
        ('import logging\n\nlogging.getLogger("x")\n', None),
        ("from logging import getLogger\n", None),
        ("import other.logging\nother.logging.get()\n", None),
        ("é = 1; from pkg import logging; é = logging.get\n", "é = 1; from pkg import logs; é = logs.get\n"),
    ],
)
def test_imports_paths_and_texts_follow_a_module_and_its_namesakes_stay(
    tmp_path: Path, before: str, after: str | None
) -> None:
    done, _ = in_package(tmp_path, use=before)
    assert done["use.py"] == (after or before)
    assert done["pkg/logs.py"] == MODULE
    assert "pkg/logging.py" not in done


def test_relative_imports_follow_and_those_of_the_standard_library_stay(tmp_path: Path) -> None:
    done, _ = in_package(
        tmp_path,
        pkg__a="from .logging import get\nimport logging\nlogging.getLogger('x')\n",
        pkg__b="from . import logging\nlogging.get(1)\n",
        pkg__sub____init__="",
    )
    assert done["pkg/a.py"] == "from .logs import get\nimport logging\nlogging.getLogger('x')\n"
    assert done["pkg/b.py"] == "from . import logs\nlogs.get(1)\n"


def test_a_package_that_passes_its_module_on_lists_it_by_its_new_name(tmp_path: Path) -> None:
    start = "from . import {0}\nfrom .{0} import get\n\n__all__ = ['{0}', 'get']\n"
    files = {"pkg/__init__.py": start.format("logging"), "pkg/logging.py": MODULE}
    done, _ = renamed(tmp_path, files, "pkg/logging.py", "logs")
    assert done["pkg/__init__.py"] == start.format("logs")


@pytest.mark.parametrize(
    "use",
    ['patch("pkg.app.logging.get")\n', "import pkg.app\npkg.app.logging.get(1)\n", "from pkg.app import *\nlogging\n"],
)
def test_a_name_by_which_others_reach_the_module_in_a_file_stays_there(tmp_path: Path, use: str) -> None:
    done, _ = in_package(tmp_path, pkg__app="from pkg import logging\nlogging.get(1)\n", use=use)
    assert done["pkg/app.py"] == "from pkg import logs as logging\nlogging.get(1)\n"
    assert done["use.py"] == use


def test_a_stub_goes_with_its_module_and_others_follow(tmp_path: Path) -> None:
    files = {"pkg/__init__.py": "", "pkg/logging.py": MODULE, "pkg/logging.pyi": "def get(name): ...\n"}
    files["pkg/a.pyi"] = "from .logging import get as get\n"
    done, _ = renamed(tmp_path, files, "pkg/logging.py", "logs")
    assert done["pkg/logs.pyi"] == files["pkg/logging.pyi"]
    assert "pkg/logging.pyi" not in done
    assert done["pkg/a.pyi"] == "from .logs import get as get\n"


@pytest.mark.parametrize(
    ("files", "path", "new", "why"),
    [
        ({"pkg/__init__.py": ""}, "pkg/__init__.py", "start", "makes its folder a package"),
        ({"pkg/__init__.py": "", "pkg/a.py": "", "pkg/b.py": ""}, "pkg/a.py", "b", "is there already"),
        ({"pkg/__init__.py": "", "pkg/a.py": "", "pkg/b/__init__.py": ""}, "pkg/a.py", "b", "is there already"),
        ({"pkg/__init__.py": "from .run import run\n", "pkg/run.py": "def run(): ...\n"}, "pkg/run.py", "go", "else"),
        ({"pkg/__init__.py": "go = 1\n", "pkg/run.py": ""}, "pkg/run.py", "go", "else"),
        ({"tools/logging.py": "", "app.py": "import logging\n"}, "tools/logging.py", "logs", "outside the repository"),
        (
            {"x/requests.py": "", "app.py": "import requests\n", "requirements.txt": "requests>=2\n"},
            "x/requests.py",
            "web",
            "outside the repository",
        ),
        ({"helpers.py": "", "app.py": "import helpers, json\n"}, "helpers.py", "json", "another module is imported"),
        ({"a/util.py": "", "b/util.py": ""}, "a/util.py", "tool", "both imported"),
        ({"conftest.py": ""}, "conftest.py", "fixtures", "found by its name"),
        ({"a.py": ""}, "a.py", "class", "no name in Python"),
        ({"web/a.js": ""}, "web/a.js", "b", "not Python"),
        (
            {"pkg/__init__.py": "", "pkg/a.py": "", "use.py": "def f(pkg): return pkg.a\nimport pkg\n"},
            "pkg/a.py",
            "b",
            "nobody can tell",
        ),
        (
            {"pkg/__init__.py": "__all__ = ['run']\n", "pkg/run.py": "", "use.py": "from pkg import *\nrun.x\n"},
            "pkg/run.py",
            "go",
            "import of everything",
        ),
    ],
)
def test_what_cannot_be_sound_is_refused_with_its_reason(
    tmp_path: Path, files: dict[str, str], path: str, new: str, why: str
) -> None:
    with pytest.raises(EditRefusedError, match=why):
        renamed(tmp_path, files, path, new)


def test_a_module_in_no_package_is_followed_where_it_is_imported(tmp_path: Path) -> None:
    files = {
        "helpers.py": "def get(): ...\n",
        "app.py": "import helpers\n\nhelpers.get()\n",
        "test_app.py": 'from helpers import get\n\npatch("helpers.get")\nother("helpers.nothing")\n',
    }
    done, notes = renamed(tmp_path, files, "helpers.py", "support")
    assert done["app.py"] == "import support\n\nsupport.get()\n"
    assert done["test_app.py"] == 'from support import get\n\npatch("support.get")\nother("helpers.nothing")\n'
    assert "test_app.py:4" in notes


def test_texts_that_may_mean_the_module_and_other_files_are_told(tmp_path: Path) -> None:
    files = {"pkg/__init__.py": "", "pkg/logging.py": MODULE, "pyproject.toml": '[x]\na = "pkg.logging:get"\n'}
    files["a.py"] = 'import importlib\n\nimportlib.import_module(".logging", "pkg")\nopen("pkg/logging.py")\n'
    _, notes = renamed(tmp_path, files, "pkg/logging.py", "logs")
    assert "a.py:3, a.py:4" in notes
    assert "pyproject.toml" in notes


def test_a_program_in_a_package_that_imports_what_lies_beside_it_is_told(tmp_path: Path) -> None:
    files = {"pkg/__init__.py": "", "pkg/helper.py": "", "pkg/run.py": "import helper\n"}
    done, notes = renamed(tmp_path, files, "pkg/helper.py", "support")
    assert done["pkg/run.py"] == "import helper\n"
    assert "pkg/run.py may mean pkg/helper.py" in notes
