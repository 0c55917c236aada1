"""A folder without an ``__init__.py`` is a package where the repository imports it as one, and only there."""

from pathlib import Path

import pytest

from khepri.edits.inlining.inlining import inline
from khepri.edits.moving.refactor import move
from khepri.edits.python.imports import Modules
from khepri.edits.refusal import EditRefusedError
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

NET = "def fetch(u):\n    return u\n\n\nclass Session:\n    def send(self): ...\n"
USE = "from {0} import fetch, Session\nimport {0}\n\nfetch({0}.fetch(2))\n"
LAYOUTS = {
    "pkg/net.py": "pkg.net",
    "src/pkg/net.py": "pkg.net",
    "ns/pkg/net.py": "ns.pkg.net",
    "src/ns/pkg/net.py": "ns.pkg.net",
}


def workspace_of(root: Path, files: dict[str, str]) -> Workspace:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    return Workspace(Repository.open(root))


@pytest.mark.parametrize("has_init", [True, False])
@pytest.mark.parametrize(("path", "module"), LAYOUTS.items())
@pytest.mark.parametrize("place", ["docs/example.py", "scripts/deep/run.py", "top.py"])
def test_a_rename_reaches_the_uses_beside_the_package(
    tmp_path: Path, path: str, module: str, place: str, has_init: bool
) -> None:
    use = USE.format(module)
    inits = {f"{path.rpartition('/')[0]}/__init__.py": ""} if has_init else {}
    done = rename(workspace_of(tmp_path, {path: NET, place: use, **inits}), path, "fetch", "get")
    after = {change.path: change.new_text for change in done.changes.files}
    assert after == {path: NET.replace("fetch", "get"), place: use.replace("fetch", "get")}


def test_a_move_and_an_inlining_see_the_uses_beside_the_package(tmp_path: Path) -> None:
    workspace = workspace_of(tmp_path, {"src/pkg/net.py": NET, "docs/example.py": USE.format("pkg.net")})
    done = move(workspace, "src/pkg/net.py", "fetch", "src/pkg/new.py")
    example = next(change.new_text for change in done.changes.files if change.path == "docs/example.py")
    assert example == (
        "from pkg.net import Session\nfrom pkg.new import fetch\nimport pkg.net\nimport pkg.new\n\n"
        "fetch(pkg.new.fetch(2))\n"
    )
    used = "from pkg.net import fetch\n\nCALL = fetch\n"
    workspace = workspace_of(
        tmp_path, {"docs/example.py": used, "src/pkg/own.py": "from .net import fetch\nfetch(1)\n"}
    )
    with pytest.raises(EditRefusedError, match="docs/example"):
        inline(workspace, "src/pkg/net.py", "fetch")


def test_folders_that_nothing_imports_from_are_only_places(tmp_path: Path) -> None:
    files = {
        "docs/conf.py": "import sys, os.path\n",
        "tests/test_a.py": "from helpers import x\nfrom tests.data import y\n",
        "tests/helpers.py": "",
        "tools/run.py": "from tools import other\n",
        "parts/a.py": "from .b import (\n    c,\n)\n",
        "parts/b.py": "",
    }
    workspace = workspace_of(tmp_path, files)
    assert workspace.namespaces == {"parts"}
    names = Modules(workspace)
    assert [names.name(path) for path in sorted(files)] == ["conf", "parts.a", "parts.b", "helpers", "test_a", "run"]


def test_a_package_that_is_proposed_is_seen(tmp_path: Path) -> None:
    workspace = workspace_of(tmp_path, {"pkg/net.py": NET, "use.py": ""})
    assert not workspace.namespaces
    (tmp_path / "use.py").write_text("import pkg.net\n")
    assert workspace.fork().namespaces == frozenset()
    done = rename(workspace_of(tmp_path, {"use.py": "import pkg.net\n"}), "pkg/net.py", "fetch", "get")
    workspace.take(done.changes)
    assert workspace.namespaces == {"pkg"}


def test_a_file_run_as_a_program_does_not_own_what_it_imports_for_that(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/a.py": "class Session: ...\n\n\ndef made():\n    return Session()\n",
        "pkg/b.py": "if __name__ == '__main__':\n    from pkg.a import Session\n\n    print(Session())\n",
    }
    done = move(workspace_of(tmp_path, files), "pkg/a.py", "made", "pkg/b.py")
    assert done.changes.files[-1].new_text.startswith("from pkg.a import Session\n\n\ndef made():")
