"""Where a module is handed on, a name of it that goes may be meant on any object, which is told."""

from pathlib import Path

import pytest

from khepri.edits.moving.refactor import move
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


def workspace(root: Path, use: str) -> Workspace:
    (root / "plug.py").write_text("def setup():\n    return 1\n", encoding="utf-8")
    (root / "goal.py").write_text("X = 1\n", encoding="utf-8")
    (root / "use.py").write_text(use, encoding="utf-8")
    return Workspace(Repository.open(root))


HANDED = [
    "import plug\n\n\ndef call(mod):\n    mod.setup()\n\n\ncall(plug)\n",
    "import plug as p\n\n\ndef call(o):\n    o.config.setup()\n\n\nPLUGINS = [p]\n",
    "import plug\n\n\ndef call(mods):\n    mods[0].setup()\n\n\nclass A:\n    def __init__(self, config=plug): ...\n",
]


@pytest.mark.parametrize("use", HANDED)
def test_a_name_of_a_module_that_is_handed_on_is_told(tmp_path: Path, use: str) -> None:
    files = workspace(tmp_path, use)
    for done in (rename(files, "plug.py", "setup", "init"), move(files, "plug.py", "setup", "goal.py")):
        (note,) = (each for each in done.notes if "handed on" in each)
        assert note.startswith("the module plug is handed on at use.py:")
        assert note.endswith("see whether setup of it is meant at use.py:5, which was left")


@pytest.mark.parametrize(
    "use",
    [
        "import plug\n\n\ndef call(mod):\n    mod.setup()\n\n\nplug.setup()\n",
        "import plug\n\n\ndef call(mod):\n    mod.setup()\n\n\nmonkeypatch.setattr(plug, 'setup', 1)\n",
        "import plug\n\n\ndef call(mod):\n    mod.other()\n\n\ncall(plug)\n",
        "import plug, goal\n\n\ndef call(mod):\n    goal.setup()\n\n\ncall(plug)\n",
    ],
)
def test_a_module_that_is_not_handed_on_or_not_asked_is_not_told(tmp_path: Path, use: str) -> None:
    assert not [each for each in rename(workspace(tmp_path, use), "plug.py", "setup", "init").notes if "handed" in each]
