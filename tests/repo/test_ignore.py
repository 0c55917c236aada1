import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from khepri.errors import ToolError
from khepri.repo.ignore import SECRET_PATTERNS, Hidden, IgnoreRules, ripgrep
from khepri.repo.root import Repository

Git = Callable[..., str]


def write(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("x\n")


def test_nested_ignore_files_and_exceptions_hold_without_git(tmp_path: Path) -> None:
    write(tmp_path, "a.log", "keep.log", "sub/b.log", "sub/c.tmp", "sub/deep/c.tmp", "d.tmp")
    (tmp_path / ".gitignore").write_text("*.log\n!keep.log\n")
    (tmp_path / "sub" / ".gitignore").write_text("*.tmp\n!/c.tmp\n")
    assert Repository.open(tmp_path).files() == (".gitignore", "d.tmp", "keep.log", "sub/.gitignore", "sub/c.tmp")


def test_git_excludes_of_the_repository_and_of_the_user_hold(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init")
    write(tmp_path, "a.py", "a.mine", "a.everywhere")
    (tmp_path / ".git" / "info" / "exclude").write_text("*.mine\n")
    excludes = tmp_path / ".git" / "global"
    excludes.write_text("*.everywhere\n")
    git(tmp_path, "config", "--global", "core.excludesFile", str(excludes))
    assert Repository.open(tmp_path).files() == ("a.py",)


def test_rules_of_folders_above_the_root_do_not_hold(tmp_path: Path, git: Git) -> None:
    (tmp_path / ".gitignore").write_text("*\n")
    write(tmp_path, "project/a.py")
    assert Repository.open(tmp_path / "project").files() == ("a.py",)
    git(tmp_path / "project", "init")
    assert Repository.open(tmp_path / "project").files() == ("a.py",)


def test_what_git_tracks_stays_visible_although_a_pattern_matches_it(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init")
    write(tmp_path, "vendor/kept.js", "vendor/other.js", ".env")
    (tmp_path / ".gitignore").write_text("vendor/\n.env\n")
    git(tmp_path, "add", "--force", "vendor/kept.js", ".env")
    assert Repository.open(tmp_path).files() == (".gitignore", "vendor/kept.js")


def test_a_tracked_link_or_a_tracked_file_behind_a_link_is_not_listed(tmp_path: Path, git: Git) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    write(root, "vendor/a.js", "b.js")
    write(outside, "a.js")
    git(root, "init")
    (root / ".gitignore").write_text("vendor\n*.js\n")
    git(root, "add", "--force", ".")
    shutil.rmtree(root / "vendor")
    (root / "vendor").symlink_to(outside)
    (root / "b.js").unlink()
    (root / "b.js").symlink_to("/etc/passwd")
    assert Repository.open(root).files() == (".gitignore",)


def test_ignore_files_of_other_programs_neither_hide_nor_reveal(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "b.log")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / ".ignore").write_text("a.py\n!b.log\n")
    (tmp_path / ".rgignore").write_text("!b.log\n")
    assert Repository.open(tmp_path).files() == (".gitignore", ".ignore", ".rgignore", "a.py")


def test_a_ripgrep_configuration_of_the_user_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "project", "a.py", "b.md")
    (tmp_path / "rgrc").write_text("--glob=!*.py\n--follow\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rgrc"))
    assert Repository.open(tmp_path / "project").files() == ("a.py", "b.md")


def test_khepriignore_hides_and_cannot_reveal(tmp_path: Path) -> None:
    write(tmp_path, "a.py", "data/x.csv", "data/keep.csv", "b.log", ".env")
    (tmp_path / ".gitignore").write_text("*.log\n")
    (tmp_path / ".khepriignore").write_text("data/*\n!data/keep.csv\n!*.log\n!.env\n")
    repository = Repository.open(tmp_path)
    assert repository.files() == (".gitignore", ".khepriignore", "a.py", "data/keep.csv")
    with pytest.raises(ToolError, match="khepriignore hides it"):
        repository.resolve("data/x.csv")


def test_a_khepriignore_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path, "project/a.py", "rules")
    (tmp_path / "rules").write_text("a.py\n")
    (tmp_path / "project" / ".khepriignore").symlink_to(tmp_path / "rules")
    assert Repository.open(tmp_path / "project").files() == ("a.py",)


@pytest.mark.parametrize(
    "path",
    [
        ".env",
        ".ENV",
        "deep/er/.env.production",
        "prod.env",
        "tls/Server.PEM",
        "a.key",
        "id_rsa",
        "id_ed25519.pub",
        ".npmrc",
        ".pypirc",
        ".netrc",
        ".git-credentials",
        "credentials",
        "credentials.json",
        "aws_credentials_not_this/credentials.yaml",
        "secrets.yml",
        "infra/terraform.tfstate",
        "store.p12",
        ".aws/config",
        "home/.ssh/credentials.py",
        ".docker/config.json",
    ],
)
def test_secrets_are_known(tmp_path: Path, path: str) -> None:
    assert IgnoreRules(tmp_path).reason(path) is Hidden.SECRET


@pytest.mark.parametrize(
    "path",
    [
        ".env.example",
        "env.py",
        "environment.yml",
        "auth/credentials.py",
        "docs/credentials.md",
        "secrets.py",
        "keys.py",
        "key.ts",
        "pem.go",
        "ssh/client.py",
        "docker/config.json",
        "tests/test_netrc.py",
    ],
)
def test_source_code_about_secrets_is_no_secret(tmp_path: Path, path: str) -> None:
    assert IgnoreRules(tmp_path).reason(path) is None


def test_the_patterns_hold_no_duplicate() -> None:
    assert len(set(SECRET_PATTERNS)) == len(SECRET_PATTERNS)


def test_ripgrep_is_the_one_of_the_installation_whatever_path_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    ripgrep.cache_clear()
    assert Path(ripgrep()).parent == Path(sys.executable).parent.resolve()


def test_without_ripgrep_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    write(tmp_path, "rg")
    (tmp_path / "rg").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".")
    monkeypatch.setattr("importlib.metadata.files", lambda name: None)
    ripgrep.cache_clear()
    try:
        with pytest.raises(ToolError, match="ripgrep") as caught:
            ripgrep()
        assert "install" in caught.value.hint
    finally:
        ripgrep.cache_clear()
