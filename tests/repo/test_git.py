import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from khepri.errors import ToolError
from khepri.repo import git as history
from khepri.repo.gitcommand import run_git
from khepri.repo.root import Repository

Git = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path, git: Git) -> Path:
    root = tmp_path / "project"
    root.mkdir()
    git(root, "init")
    (root / "app.py").write_text("one\ntwo\n")
    (root / ".env").write_text("PASSWORD=hunter2\n")
    (root / "own.txt").write_text("hidden words\n")
    git(root, "add", "--force", ".")
    git(root, "commit", "-m", "first: begin")
    (root / "app.py").write_text("one\ntwo\nthree\n")
    (root / ".env").write_text("PASSWORD=hunter3\n")
    (root / "own.txt").write_text("more hidden words\n")
    git(root, "commit", "-am", "second: count on\n\nbecause two is not enough")
    (root / ".khepriignore").write_text("own.txt\n")
    return root


def test_the_log_is_newest_first_and_obeys_path_and_ref(folder: Path, git: Git) -> None:
    repository = Repository.open(folder)
    assert [(commit.subject, commit.date, commit.author) for commit in history.log(repository)] == [
        ("second: count on", "2026-01-02", "Ann"),
        ("first: begin", "2026-01-02", "Ann"),
    ]
    assert len(history.log(repository, max_count=1)) == 1
    assert [commit.subject for commit in history.log(repository, ref="HEAD~1")] == ["first: begin"]
    assert [commit.subject for commit in history.log(repository, ref="HEAD~1..HEAD")] == ["second: count on"]
    git(folder, "mv", "app.py", "gone.py")
    assert len(history.log(repository, path="./app.py")) == 2
    assert history.log(repository, path="never.py") == ()


def test_a_commit_shows_without_its_secrets(folder: Path) -> None:
    patch = history.show(Repository.open(folder), ref="HEAD")
    assert "because two is not enough" in patch.text
    assert "+three" in patch.text
    assert (patch.paths, patch.hidden) == (("app.py",), 2)
    assert "hunter" not in patch.text
    assert "hidden words" not in patch.text


def test_the_first_commit_shows_too(folder: Path) -> None:
    patch = history.show(Repository.open(folder), ref="HEAD~1", path="app.py")
    assert "+one" in patch.text
    assert "hunter" not in patch.text


def test_a_merge_shows_what_it_brought(folder: Path, git: Git) -> None:
    git(folder, "checkout", "-b", "side", "HEAD~1")
    (folder / "side.py").write_text("side\n")
    (folder / "leak.pem").write_text("hunter4\n")
    git(folder, "add", "--force", "side.py", "leak.pem")
    git(folder, "commit", "-m", "side")
    git(folder, "checkout", "main")
    git(folder, "merge", "side", "-m", "merge side")
    patch = history.show(Repository.open(folder))
    assert "+side" in patch.text
    assert "hunter" not in patch.text


def test_a_file_shows_as_it_was(folder: Path) -> None:
    repository = Repository.open(folder)
    assert history.show(repository, ref="HEAD~1:app.py").text == "one\ntwo\n"
    for ref in ("HEAD:.env", "HEAD:./x/../.env", "HEAD:own.txt", ":0:.env", ":.env", "HEAD:"):
        with pytest.raises(ToolError):
            history.show(repository, ref=ref)


def test_no_object_is_shown_but_a_commit(folder: Path, git: Git) -> None:
    repository = Repository.open(folder)
    secret = git(folder, "rev-parse", "HEAD:.env").strip()
    git(folder, "tag", "-m", "blob", "blob", secret)
    for ref in (secret, secret[:8], "blob", "HEAD^{tree}", ":/first", "HEAD^{blob}"):
        with pytest.raises(ToolError):
            history.show(repository, ref=ref)


def test_a_difference_leaves_out_secrets(folder: Path, git: Git) -> None:
    repository = Repository.open(folder)
    (folder / "app.py").write_text("one\n")
    (folder / ".env").write_text("PASSWORD=hunter5\n")
    git(folder, "add", "app.py")
    patch = history.diff(repository)
    assert "-three" in patch.text
    assert (patch.paths, patch.hidden) == (("app.py",), 1)
    assert "hunter" not in patch.text
    assert history.diff(repository, ref="HEAD~1..HEAD").paths == ("app.py",)
    assert history.diff(repository, ref="HEAD~1", path="app.py").paths == ("app.py",)
    assert history.diff(repository, ref="HEAD...HEAD").text == ""


def test_a_secret_that_was_renamed_does_not_show(folder: Path, git: Git) -> None:
    git(folder, "mv", "--force", "own.txt", "id_rsa")
    git(folder, "commit", "-m", "rename")
    patch = history.show(Repository.open(folder))
    assert (patch.paths, patch.hidden) == ((), 2)
    assert "hidden words" not in patch.text


def test_odd_names_are_excluded_literally(folder: Path, git: Git) -> None:
    for name in ("[a]*.pem", "🪲 \"x\" 'y'.key", "line\nend.pem", ":(top).key", "plain.py"):
        (folder / name).write_text("hunter6\n" if not name.endswith(".py") else "plain\n")
    git(folder, "add", "--force", ".")
    git(folder, "commit", "-m", "odd")
    patch = history.show(Repository.open(folder))
    assert "hunter" not in patch.text
    assert "+plain" in patch.text


def test_blame_tells_the_commit_of_each_line(folder: Path) -> None:
    repository = Repository.open(folder)
    lines = history.blame(repository, "app.py")
    assert [(line.number, line.author, line.date, line.text) for line in lines] == [
        (1, "Ann", "2026-01-02", "one"),
        (2, "Ann", "2026-01-02", "two"),
        (3, "Ann", "2026-01-02", "three"),
    ]
    assert lines[0].sha == lines[1].sha != lines[2].sha
    assert [line.number for line in history.blame(repository, "app.py", first=2, last=2)] == [2]
    assert len(history.blame(repository, "app.py", ref="HEAD~1")) == 2
    for path in (".env", "own.txt", "missing.py", "../x"):
        with pytest.raises(ToolError):
            history.blame(repository, path)
    with pytest.raises(ToolError, match="3 lines"):
        history.blame(repository, "app.py", first=50, last=60)


def test_status_names_branch_and_changes_but_no_secret(folder: Path, git: Git) -> None:
    (folder / "app.py").write_text("changed\n")
    (folder / "new.py").write_text("")
    (folder / "server.key").write_text("")
    (folder / ".env").write_text("changed")
    assert history.status(Repository.open(folder)) == (
        "branch main",
        " M app.py",
        "?? .khepriignore",
        "?? new.py",
    )
    git(folder, "checkout", "--detach")
    assert history.status(Repository.open(folder))[0] == "branch HEAD (no branch)"


@pytest.mark.parametrize(
    "ref",
    ["--output=/tmp/pwned", "-p", "", " ", "no such", "nope", "a..--output=x", "HEAD@{upstream}", "x" * 5000, "HEAD\0"],
)
def test_refs_that_are_none_are_refused(folder: Path, ref: str) -> None:
    repository = Repository.open(folder)
    for question in (history.show, history.log, history.diff):
        with pytest.raises(ToolError):
            question(repository, ref=ref or "\n")


def test_an_empty_repository_says_that_it_has_no_commits(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init")
    (tmp_path / "a.py").write_text("new\n")
    git(tmp_path, "add", ".")
    repository = Repository.open(tmp_path)
    for question in (history.log, history.show):
        with pytest.raises(ToolError, match="no commits yet"):
            question(repository)
    with pytest.raises(ToolError, match="no commits yet"):
        history.blame(repository, "a.py")
    assert history.status(repository)[0] == "branch main (no commits yet)"
    assert "+new" in history.diff(repository).text


def test_a_bare_repository_has_a_history(folder: Path, tmp_path: Path, git: Git) -> None:
    git(tmp_path, "clone", "--bare", str(folder), "store.git")
    repository = Repository.open(tmp_path / "store.git")
    assert len(history.log(repository)) == 2
    assert "+three" in history.show(repository).text
    assert "hunter" not in history.show(repository).text
    assert "+three" in history.diff(repository, ref="HEAD~1..HEAD").text
    assert len(history.blame(repository, "app.py")) == 3
    for question in (history.status, history.diff):
        with pytest.raises(ToolError, match="bare"):
            question(repository)


def test_worktrees_and_submodules_have_a_history(folder: Path, tmp_path: Path, git: Git) -> None:
    git(folder, "worktree", "add", str(tmp_path / "other"))
    assert len(history.log(Repository.open(tmp_path / "other"))) == 2
    git(folder, "submodule", "add", str(folder), "inner")
    assert len(history.log(Repository.open(folder / "inner"))) == 2
    assert history.diff(Repository.open(folder)).paths == (".gitmodules", "inner")


def test_a_folder_without_git_says_so(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="not in a git repository"):
        history.log(Repository.open(tmp_path))


def test_the_environment_of_a_hook_does_not_lead_to_another_repository(
    folder: Path, tmp_path: Path, git: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    git(tmp_path, "init", "elsewhere")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere" / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", "nowhere")
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", "touch pwned")
    assert len(history.log(Repository.open(folder))) == 2


def test_a_configured_work_tree_elsewhere_is_not_read(folder: Path, tmp_path: Path, git: Git) -> None:
    (tmp_path / "app.py").write_text("private\n")
    git(folder, "config", "core.worktree", str(tmp_path))
    patch = history.diff(Repository.open(folder))
    assert "private" not in patch.text


def test_nothing_that_a_repository_configures_is_run(folder: Path, tmp_path: Path, git: Git) -> None:
    ran = tmp_path / "ran"
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\necho $0 $* >> {ran}\nexit 1\n")
    trap.chmod(0o755)
    shutil.copytree(folder, tmp_path / "library")
    git(folder, "submodule", "add", str(tmp_path / "library"), "inner")
    inner = folder / ".git" / "modules" / "inner"
    for place in (folder, folder / "inner"):
        for key in (
            "core.fsmonitor core.pager core.editor core.sshCommand core.alternateRefsCommand core.askPass "
            "diff.external gpg.program gpg.ssh.program diff.evil.command diff.evil.textconv filter.evil.clean "
            "filter.evil.smudge filter.evil.process filter.with.dots.and=equals.clean pager.log pager.diff "
            "interactive.diffFilter credential.helper remote.origin.uploadpack"
        ).split():
            git(place, "config", key, str(trap))
        git(place, "config", "core.hooksPath", str(tmp_path / "hooks"))
        git(place, "config", "log.showSignature", "true")
        git(place, "config", "filter.evil.required", "true")
        git(place, "config", "alias.log", f"!{trap}")
        git(place, "config", "core.attributesFile", str(tmp_path / "attributes"))
        git(place, "config", "extensions.partialClone", "origin")
        git(place, "config", "remote.origin.promisor", "true")
        git(place, "config", "remote.origin.url", f"ext::{trap}")
        git(place, "config", "diff.orderFile", "nowhere")
        git(place, "config", "diff.submodule", "log")
        git(place, "config", "status.submoduleSummary", "true")
        (place / ".gitattributes").write_text("* diff=evil filter=evil\napp.py filter=with.dots.and=equals\n")
        (place / "app.py").write_text("changed\n")
    (tmp_path / "attributes").write_text("* diff=evil filter=evil\n")
    for git_folder in (folder / ".git", inner):
        (git_folder / "info").mkdir(exist_ok=True)
        (git_folder / "info" / "attributes").write_text("* diff=evil filter=evil\n")
    (tmp_path / "hooks").mkdir()
    for hooks in (tmp_path / "hooks", folder / ".git" / "hooks", inner / "hooks"):
        for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction", "pre-auto-gc"):
            shutil.copy(trap, hooks / hook)
    # Touched files make git look at their content, which is where filters run.
    os.utime(folder / "own.txt", (1, 1))
    os.utime(folder / "inner" / "own.txt", (1, 1))

    repository = Repository.open(folder)
    repository.files()
    assert "+changed" in history.diff(repository).text
    assert "app.py" in " ".join(history.status(repository))
    history.log(repository, path="app.py")
    history.show(repository)
    history.show(repository, ref="HEAD:app.py")
    history.blame(repository, "app.py")
    with pytest.raises(ToolError):
        history.show(repository, ref="1" * 40)
    assert not ran.exists(), ran.read_text()


def test_git_itself_would_have_run_the_trap(folder: Path, tmp_path: Path, git: Git) -> None:
    """Proves that the traps of the test above are live ones."""
    ran = tmp_path / "ran"
    (folder / ".gitattributes").write_text("* filter=evil\n")
    git(folder, "config", "filter.evil.clean", f"echo x >> {ran}; cat")
    (folder / "app.py").write_text("changed\n")
    git(folder, "diff", "HEAD")
    assert ran.exists()


def test_another_owner_is_reported_clearly(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    for path in (folder, folder / ".git"):
        os.chown(path, 12345, 12345)
    with pytest.raises(ToolError, match="another user owns it") as caught:
        history.log(Repository.open(folder))
    assert "safe.directory" in caught.value.hint


def test_without_git_the_error_is_clear(folder: Path) -> None:
    import subprocess

    code = (
        "from pathlib import Path; from khepri.repo.root import Repository; from khepri.repo import git;"
        "from khepri.errors import ToolError\n"
        f"repository = Repository.open(Path({str(folder)!r}))\n"
        "print(len(repository.files()))\n"
        "try: git.log(repository)\n"
        "except ToolError as error: print(error.message)"
    )
    environment = {"PATH": "/nowhere", "HOME": str(folder)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.splitlines() == ["2", "git is not installed"]


def test_output_is_bounded(folder: Path, git: Git) -> None:
    (folder / "big.txt").write_text("line of text\n" * 500_000)
    git(folder, "add", "big.txt")
    git(folder, "commit", "-m", "big")
    assert len(run_git(folder, ["show", "HEAD"])) == 4_000_000


def test_a_damaged_repository_is_an_error_and_no_crash(folder: Path) -> None:
    (folder / ".git" / "HEAD").write_text("garbage")
    repository = Repository.open(folder)
    assert "app.py" in repository.files()
    with pytest.raises(ToolError):
        history.log(repository)
