"""What a package imports from its module of the same name is meant by that name, and not the module."""

from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import remove_parameter
from khepri.edits.python.package_names import names_over_modules
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

RETRY = "def retry(n=3, log=None):\n    return n\n"


def workspace(root: Path, use: str, init: str = "from .retry import retry\n", home: str = RETRY) -> Workspace:
    (root / "pkg").mkdir()
    (root / "pkg/__init__.py").write_text(init, encoding="utf-8")
    (root / "pkg/retry.py").write_text(home, encoding="utf-8")
    (root / "pkg/use.py").write_text(use, encoding="utf-8")
    return Workspace(Repository.open(root))


def renamed(files: Workspace, symbol: str = "retry", new: str = "attempt") -> tuple[str, str, str]:
    """Return the texts of the package and of the file that uses it after a rename, and its notes."""
    done = rename(files, "pkg/retry.py", symbol, new)
    texts = {each.path: each.new_text for each in done.changes.files}
    init, use = (texts.get(path, (files.read(path) or b"").decode()) for path in ("pkg/__init__.py", "pkg/use.py"))
    return init, use, "\n".join(done.notes)


@pytest.mark.parametrize(
    "use",
    [
        "from pkg import {0}\n\n{0}(1)\n",
        "from . import {0}\n\n{0}(1)\n",
        "from . import {0} as again\n\nagain(1)\n",
        "import pkg\n\npkg.{0}(1)\n",
        "import pkg.retry\n\npkg.{0}(1)\n",
        "from unittest.mock import patch\n\npatch('pkg.{0}')\npatch('pkg.retry.{0}')\npatch('pkg.retry.time.sleep')\n",
        "from importlib import import_module\n\nimport_module('pkg.retry').{0}(1)\n",
    ],
)
@pytest.mark.parametrize("init", ["from .retry import {0}\n", "from pkg.retry import {0}\n", "from .retry import *\n"])
def test_a_function_is_renamed_that_its_package_has_by_the_name_of_its_module(
    tmp_path: Path, use: str, init: str
) -> None:
    files = workspace(tmp_path, use.format("retry"), init.format("retry"))
    after = renamed(files)
    if "import_module" in use:
        assert after[1] == use.format("retry")
        assert "pkg/use.py:3" in after[2]
    else:
        assert after[:2] == (init.format("attempt"), use.format("attempt"))


@pytest.mark.parametrize(
    "use",
    [
        "def f():\n    import pkg.retry\n\n    return pkg.{0}(1)\n",
        "try:\n    import pkg.retry\nexcept ImportError:\n    pass\n",
        "def f():\n    import os, pkg.retry, sys\n\n    pkg.{0}(1)\n",
        "def f():\n    import os, \\\n        pkg.retry\n",
        "x = 1; import pkg.retry\n",
        "import pkg.retry; pkg.{0}(1)\n",
        "def f():\n    from pkg import {0}\n    import pkg.retry\n    from pkg.retry import {0} as a\n\n    {0}(a())\n",
    ],
)
def test_an_import_of_the_module_keeps_its_name_wherever_it_stands(tmp_path: Path, use: str) -> None:
    assert renamed(workspace(tmp_path, use.format("retry")))[1] == use.format("attempt")


def test_an_import_in_a_function_by_another_name_keeps_that_of_the_module_and_is_told(tmp_path: Path) -> None:
    use = "def f():\n    import pkg.retry as again\n\n    return again(1)\n"
    _, after, notes = renamed(workspace(tmp_path, use))
    assert after == use
    assert notes == "pkg/use.py:2 had retry by an import of the module of that name, and has the module itself now"


@pytest.mark.parametrize(
    "use",
    [
        "import logging\n\nlogging.getLogger('pkg.retry')\n",
        "import pytest\n\npytest.importorskip('pkg.retry')\n",
        "NAME = 'pkg.retry'\n",
    ],
)
def test_a_text_that_may_name_the_module_is_left_and_told(tmp_path: Path, use: str) -> None:
    _, after, notes = renamed(workspace(tmp_path, use))
    assert after == use
    assert f"left: pkg/use.py:{use.count(chr(10))}" in notes


def test_a_module_that_is_loaded_later_is_the_one_that_is_meant(tmp_path: Path) -> None:
    init, use = "from .core import retry\nfrom .retry import other\n", "from pkg import retry\n\nretry.other()\n"
    files = workspace(tmp_path, use, init, "def other():\n    return 1\n")
    assert renamed(files, "other", "another")[1] == use.replace("other", "another")


def test_what_had_the_function_by_an_import_of_the_module_is_told(tmp_path: Path) -> None:
    _, _, notes = renamed(workspace(tmp_path, "import pkg.retry as again\n\nagain(1)\n"))
    assert notes == "pkg/use.py:1 had retry by an import of the module of that name, and has the module itself now"


def test_a_parameter_goes_from_calls_through_the_package(tmp_path: Path) -> None:
    files = workspace(tmp_path, "import pkg\nfrom pkg import retry\n\nretry(1, 2)\npkg.retry(2, log=3)\n")
    done = remove_parameter(files, "pkg/retry.py", "retry", "log")
    texts = {each.path: each.new_text for each in done.changes.files}
    assert texts["pkg/use.py"].endswith("retry(1)\npkg.retry(2)\n")


@pytest.mark.parametrize(
    ("init", "names"),
    [
        ("from .a import a\n", {"a"}),
        ("try:\n    from p.a import x as a\nexcept ImportError:\n    a = None\n", {"a"}),
        ("from . import a\n", set()),
        ("import p.a as a\n", set()),
        ("def a(): ...\n\n\nfrom .a.b import c\n", {"c"}),
        ("from .a import *\n", {"x", "a"}),
        ("if TYPE_CHECKING:\n    from .a import a\n", set()),
    ],
)
def test_what_is_bound_behind_the_last_load_of_a_module_is_over_it(init: str, names: set[str]) -> None:
    modules = {"p.a": b"x = 1\n_y = 2\n\n\ndef a(): ...\n"}
    assert names_over_modules(init.encode(), "p", modules.get) == names
