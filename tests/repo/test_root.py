import os
import stat
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from khepri.errors import ConfigError, ToolError, UsageError
from khepri.repo.root import Repository

Git = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "src").mkdir(parents=True)
    (root / "src" / "app.py").write_text("print(1)\n")
    (root / "README.md").write_text("hello\n")
    return root


def test_a_folder_without_git_is_its_own_root(folder: Path) -> None:
    repository = Repository.open(folder / "src")
    assert (repository.root, repository.is_git, repository.files()) == (folder / "src", False, ("app.py",))


def test_the_root_is_the_top_of_the_work_tree(folder: Path, git: Git) -> None:
    git(folder, "init")
    repository = Repository.open(folder / "src")
    assert (repository.root, repository.is_git) == (folder, True)
    assert repository.files() == ("README.md", "src/app.py")


def test_inside_the_git_folder_the_root_is_the_work_tree(folder: Path, git: Git) -> None:
    git(folder, "init")
    assert Repository.open(folder / ".git" / "refs").root == folder


def test_a_bare_repository_has_history_but_no_files(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init", "--bare", "store.git")
    repository = Repository.open(tmp_path / "store.git")
    assert (repository.root, repository.is_bare, repository.files()) == (tmp_path / "store.git", True, ())
    with pytest.raises(ToolError, match="bare repository"):
        repository.resolve("HEAD")


def test_an_empty_repository_has_no_files(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init", "new")
    assert Repository.open(tmp_path / "new").files() == ()


def test_a_linked_worktree_is_a_root_of_its_own(folder: Path, tmp_path: Path, git: Git) -> None:
    git(folder, "init")
    git(folder, "add", ".")
    git(folder, "commit", "-m", "first")
    (folder / ".git" / "info" / "exclude").write_text("*.log\n")
    git(folder, "worktree", "add", str(tmp_path / "other"))
    (tmp_path / "other" / "x.log").write_text("noise")
    repository = Repository.open(tmp_path / "other" / "src")
    assert repository.root == tmp_path / "other"
    assert repository.files() == ("README.md", "src/app.py")


def test_a_submodule_is_read_from_outside_and_is_a_root_from_inside(folder: Path, tmp_path: Path, git: Git) -> None:
    for top in (folder, tmp_path / "library"):
        top.mkdir(exist_ok=True)
        (top / "own.txt").write_text("x")
        git(top, "init")
        git(top, "add", ".")
        git(top, "commit", "-m", "first")
    git(folder, "submodule", "add", str(tmp_path / "library"), "vendor/library")
    assert "vendor/library/own.txt" in Repository.open(folder).files()
    inside = Repository.open(folder / "vendor" / "library")
    assert (inside.root, inside.files()) == (folder / "vendor" / "library", ("own.txt",))


def test_a_nested_repository_is_read_but_its_git_folder_is_not(folder: Path, git: Git) -> None:
    git(folder, "init")
    (folder / "nested").mkdir()
    git(folder / "nested", "init")
    (folder / "nested" / "deep.py").write_text("1")
    repository = Repository.open(folder)
    assert repository.files() == ("README.md", "nested/deep.py", "src/app.py")
    for path in (".git/config", "nested/.git/config", "./nested/../.git/HEAD"):
        with pytest.raises(ToolError, match="git's own folder"):
            repository.resolve(path)


def test_a_repository_cannot_move_its_root_by_its_own_configuration(folder: Path, tmp_path: Path, git: Git) -> None:
    git(folder, "init")
    git(folder, "config", "core.worktree", str(tmp_path))
    assert Repository.open(folder).root == folder


@pytest.mark.parametrize("where", ["missing", "README.md", "src/app.py/x", "/proc", "/dev", "bad\0name"])
def test_a_place_without_a_project_is_a_usage_error(folder: Path, where: str) -> None:
    with pytest.raises(UsageError):
        Repository.open(folder / where)


def test_a_broken_ignore_file_is_named_at_once(folder: Path) -> None:
    (folder / ".khepriignore").write_text("!\n")
    with pytest.raises(ConfigError, match="khepriignore"):
        Repository.open(folder)


@pytest.mark.parametrize(
    "written",
    [
        "src/app.py",
        "./src/app.py",
        "src//app.py",
        " src/app.py\n",
        "'src/app.py'",
        '"`src/app.py`"',
        "src\\app.py",
        "/src/app.py",
        "src/../src/app.py",
        "src/app.py/",
    ],
)
def test_a_path_is_understood_however_a_model_writes_it(folder: Path, written: str) -> None:
    assert Repository.open(folder).resolve(written) == folder / "src" / "app.py"


def test_folders_the_root_and_absolute_paths_resolve(folder: Path) -> None:
    repository = Repository.open(folder)
    assert repository.resolve("src/") == folder / "src"
    assert repository.resolve(".") == repository.resolve("") == folder
    assert repository.resolve(str(folder / "README.md")) == folder / "README.md"
    assert repository.relative(folder / "src") == "src"
    assert repository.relative(folder) == "."


@pytest.mark.parametrize(
    "written",
    [
        "..",
        "../project2",
        "src/../../etc/passwd",
        "/etc/passwd",
        "/proc/self/environ",
        "~/.bashrc/../../..",
        "a\0b",
        "\ud83e",
        "x" * 5000,
    ],
)
def test_a_path_outside_is_refused(folder: Path, written: str) -> None:
    (folder.parent / "project2").mkdir()
    with pytest.raises(ToolError):
        Repository.open(folder).resolve(written)


def test_a_missing_path_names_the_nearest_ones(folder: Path) -> None:
    with pytest.raises(ToolError, match="does not exist") as caught:
        Repository.open(folder).resolve("src/apps.py")
    assert "src/app.py" in caught.value.hint
    with pytest.raises(ToolError) as caught:
        Repository.open(folder).resolve("lib/core/app.py")
    assert "src/app.py" in caught.value.hint


def test_links_inside_lead_to_their_target_which_is_listed_once(folder: Path) -> None:
    (folder / "link.py").symlink_to("src/app.py")
    (folder / "again").symlink_to("src")
    repository = Repository.open(folder)
    assert repository.files() == ("README.md", "src/app.py")
    assert repository.resolve("link.py") == repository.resolve("again/app.py") == folder / "src" / "app.py"


def test_links_out_of_the_root_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "private.txt").write_text("private")
    (folder / "file").symlink_to(tmp_path / "private.txt")
    (folder / "folder").symlink_to(tmp_path)
    (folder / "absolute").symlink_to("/etc")
    repository = Repository.open(folder)
    assert repository.files() == ("README.md", "src/app.py")
    for path in ("file", "folder", "folder/private.txt", "absolute/passwd"):
        with pytest.raises(ToolError, match="leads out of the repository"):
            repository.resolve(path)


def test_loops_and_dangling_links_are_refused(folder: Path) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    (folder / "self").symlink_to("self")
    (folder / "down").symlink_to(".")
    (folder / "gone").symlink_to("nowhere")
    repository = Repository.open(folder)
    assert repository.files() == ("README.md", "src/app.py")
    for path in ("a", "a/x", "self", "gone"):
        with pytest.raises(ToolError):
            repository.resolve(path)
    assert repository.resolve("down/down/down/README.md") == folder / "README.md"


def test_pipes_sockets_and_devices_are_not_files(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "null").symlink_to("/dev/null")
    repository = Repository.open(folder)
    assert repository.files() == ("README.md", "src/app.py")
    with pytest.raises(ToolError, match="not a regular file"):
        repository.resolve("pipe")
    with pytest.raises(ToolError):
        repository.resolve("null")


@pytest.mark.parametrize(
    "name", [".env", "config/.env.local", "server.pem", "id_rsa", ".ssh/known", ".aws/credentials"]
)
def test_secrets_are_refused_whether_they_exist_or_not(folder: Path, name: str) -> None:
    repository = Repository.open(folder)
    with pytest.raises(ToolError, match="never read"):
        repository.resolve(name)
    (folder / name).parent.mkdir(exist_ok=True)
    (folder / name).write_text("secret")
    (folder / "innocent.txt").symlink_to(name)
    repository.refresh()
    for path in (name, f"./{name}", f"src/../{name}", "innocent.txt"):
        with pytest.raises(ToolError, match="never read"):
            repository.resolve(path)
    assert repository.files() == ("README.md", "src/app.py")


def test_an_ignored_file_is_refused_and_says_so(folder: Path) -> None:
    (folder / ".gitignore").write_text("build/\n")
    (folder / "build").mkdir()
    (folder / "build" / "out.txt").write_text("x")
    repository = Repository.open(folder)
    with pytest.raises(ToolError, match="ignored"):
        repository.resolve("build/out.txt")
    with pytest.raises(ToolError, match="no visible file"):
        repository.resolve("build")


def test_a_file_written_later_is_found_without_asking_for_it(folder: Path) -> None:
    repository = Repository.open(folder)
    assert not repository.is_visible("new.py")
    (folder / "new.py").write_text("")
    assert repository.resolve("new.py") == folder / "new.py"
    assert repository.is_visible("new.py")


@pytest.mark.parametrize("name", ["with space.py", 'it\'s "quoted".py', "🪲 scarab.py", "$(touch x).py", "-rf", "*.py"])
def test_odd_names_are_listed_and_resolve(folder: Path, name: str) -> None:
    (folder / name).write_text("1")
    repository = Repository.open(folder)
    assert name in repository.files()
    assert repository.resolve(name) == folder / name


def test_names_that_cannot_be_shown_on_one_line_are_left_out_and_counted(folder: Path) -> None:
    (folder / "line\nbreak.py").write_text("1")
    (folder / "escape\x1b[2J.py").write_text("1")
    with open(os.fsencode(folder) + b"/latin-\xe9.py", "wb") as file:
        file.write(b"1")
    repository = Repository.open(folder)
    assert repository.files() == ("README.md", "src/app.py")
    assert repository.unnameable_files == 3
    for path in ("line\nbreak.py", os.fsdecode(b"latin-\xe9.py")):
        with pytest.raises(ToolError) as caught:
            repository.resolve(path)
        caught.value.message.encode()


def test_visibility_holds_for_files_folders_and_the_root(folder: Path) -> None:
    repository = Repository.open(folder)
    assert all(repository.is_visible(path) for path in (".", "src", "src/app.py"))
    assert not any(repository.is_visible(path) for path in ("sr", "src/", "..", "missing", "src/app"))


def test_a_selection_obeys_the_folder_and_the_glob(folder: Path) -> None:
    for name in ("src/a.ts", "src/b.tsx", "src/deep/c.ts", "top.ts"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    repository = Repository.open(folder)
    assert repository.select("src", "*.{ts,tsx}") == ("src/a.ts", "src/b.tsx", "src/deep/c.ts")
    assert repository.select(None, "/*.ts") == ("top.ts",)
    assert repository.select("src", "!*.ts") == ("src/app.py", "src/b.tsx")
    assert repository.select("top.ts") == ("top.ts",)
    for glob in ("[z-a]", "{a,b}" * 20, "\\"):
        with pytest.raises(ToolError):
            repository.select(None, glob)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_unreadable_folder_does_not_hide_the_others(folder: Path) -> None:
    closed = folder / "closed"
    closed.mkdir()
    closed.chmod(0)
    try:
        assert Repository.open(folder).files() == ("README.md", "src/app.py")
    finally:
        closed.chmod(stat.S_IRWXU)


def test_five_thousand_files_are_listed_completely(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(5000):
        place = tmp_path / f"package{number % 50}"
        place.mkdir(exist_ok=True)
        (place / f"module{number}.py").touch()
    repository = Repository.open(tmp_path)
    started = time.perf_counter()
    assert len(repository.files()) == 5000
    listed_ms = (time.perf_counter() - started) * 1000
    with capsys.disabled():
        print(f" [5000 files listed in {listed_ms:.0f} ms]", end="")


def test_opening_and_listing_do_not_import_gitpython_in_a_folder_without_git(folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from khepri.repo.root import Repository;"
        f"Repository.open(Path({str(folder)!r})).files(); print('git' in sys.modules)"
    )
    import sys

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
