"""Who had a name from the module that it has left has it from the new one, and imports it where it did before."""

from pathlib import Path

import pytest

from khepri.edits.change import ChangeSet
from khepri.edits.moving.redirection import Move, named_plainly, redirect_imports
from khepri.edits.moving.refactor import move
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

NET = "# How it begins.\ndef begin():\n    return fetch(1)\n\n\n# How it is fetched.\ndef fetch(url):\n    return url\n"


def workspace_of(root: Path, files: dict[str, str]) -> Workspace:
    for path, text in {"pkg/__init__.py": "", "pkg/net.py": NET, **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return Workspace(Repository.open(root))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from pkg.net import fetch\n", "from pkg.new import fetch\n"),
        (
            "from .net import begin, fetch as get  # é\n",
            "from .net import begin\nfrom pkg.new import fetch as get  # é\n",
        ),
        (
            "import pkg.net\nprint(pkg.net.fetch(1))\nfrom pkg.net import fetch as g\nprint(g(2))\n",
            "import pkg.net\nimport pkg.new\nprint(pkg.new.fetch(1))\nfrom pkg.new import fetch as g\nprint(g(2))\n",
        ),
        (
            "def f():\n    from pkg.net import fetch\n    return fetch(1)\n",
            "def f():\n    from pkg.new import fetch\n    return fetch(1)\n",
        ),
        (
            "import typing\nif typing.TYPE_CHECKING:\n    from pkg.net import fetch\n",
            "import typing\nif typing.TYPE_CHECKING:\n    from pkg.new import fetch\n",
        ),
        (
            "def f():\n    from . import net\n    return net.fetch(net.begin)\n",
            "def f():\n    from . import net\n    from pkg import new\n    return new.fetch(net.begin)\n",
        ),
        (
            "import pkg.net\nx = 'é', pkg.net.fetch(1)\n",
            "import pkg.net\nimport pkg.new\nx = 'é', pkg.new.fetch(1)\n",
        ),
        ("import sys; import pkg.net; pkg.net.fetch\n", "import sys; import pkg.net; import pkg.new; pkg.new.fetch\n"),
        (
            "import pkg.net as n\nnew = n.fetch(1)\n",
            "import pkg.net as n\nfrom pkg import new as new_module\nnew = new_module.fetch(1)\n",
        ),
        (
            "import os; from pkg.net import begin, fetch; x = 1\n",
            "import os; from pkg.net import begin; from pkg.new import fetch; x = 1\n",
        ),
        (
            "from pkg import net\n\n\ndef f(net):\n    return net.fetch(1)\n",
            "from pkg import net\n\n\ndef f(net):\n    return net.fetch(1)\n",
        ),
        (
            "from pkg import net\n\n\nclass A:\n    net = 1\n\n    def f(self):\n        return net.fetch(1)\n",
            "from pkg import net\nfrom pkg import new\n\n\nclass A:\n    net = 1\n\n    def f(self):\n"
            "        return new.fetch(1)\n",
        ),
    ],
)
def test_an_import_or_a_use_through_the_module_names_the_new_one_in_its_place(
    tmp_path: Path, before: str, after: str
) -> None:
    workspace = workspace_of(tmp_path, {"pkg/use.py": before, "pkg/new.py": ""})
    done = redirect_imports(workspace, ChangeSet("", ()), "fetch", "pkg/net.py", "pkg/new.py")
    assert [change.new_text for change in done.files] == ([after] if after != before else [])


def test_the_new_module_does_not_reach_for_the_name_through_the_old_one() -> None:
    text = "from . import net\nimport pkg.net\n\nX = net.fetch(pkg.net.fetch)\n"
    assert named_plainly(text, "pkg", Move("fetch", "pkg.net", "pkg.new")) == text.replace(
        "net.fetch(pkg.net.fetch)", "fetch(fetch)"
    )


def test_the_comments_of_the_neighbours_stay_with_them(tmp_path: Path) -> None:
    goal = "# How it is kept.\ndef keep(): ...\n\n\n# How it starts.\nif __name__ == '__main__':\n    keep()\n"
    done = move(workspace_of(tmp_path, {"pkg/new.py": goal}), "pkg/net.py", "fetch", "pkg/new.py")
    left, received = (change.new_text for change in done.changes.files)
    assert left == "from pkg.new import fetch\n\n\n# How it begins.\ndef begin():\n    return fetch(1)\n"
    moved = "# How it is fetched.\ndef fetch(url):\n    return url\n\n\n"
    assert received == goal.replace("# How it starts", f"{moved}# How it starts")


def test_the_import_of_what_has_gone_stands_where_those_that_go_with_it_stood(tmp_path: Path) -> None:
    net = NET.replace("# How it begins", "import os\n\n\n# How it begins").replace(
        "    return url", "    return os.path"
    )
    done = move(workspace_of(tmp_path, {"pkg/net.py": net}), "pkg/net.py", "fetch", "pkg/new.py")
    assert done.changes.files[0].new_text.startswith("from pkg.new import fetch\n\n\n# How it begins.\ndef begin")


def test_a_name_that_another_module_passes_on_as_well_may_go(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "from .parts import *\n\n__all__ = ['Base', 'Net']\n",
        "pkg/parts/__init__.py": "from .base import *\nfrom .net import *\n\n__all__ = ['Base', 'Net']\n",
        "pkg/parts/base.py": "class Base: ...\n",
        "pkg/parts/net.py": "from .base import Base\n\n__all__ = ['Net']\n\n\nclass Net(Base): ...\n",
        "pkg/parts/new.py": "",
    }
    done = move(workspace_of(tmp_path, files), "pkg/parts/net.py", "Net", "pkg/parts/new.py")
    assert "pkg/parts/net.py" in done.changes.paths
