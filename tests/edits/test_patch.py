"""The patch of a change is one that the real git applies to the very bytes."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from khepri.edits.change import FileChange, change_set
from khepri.edits.patch import patch_of, patch_text
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository
from tests.conftest import Git

_FILES = {
    "plain.py": (b"a\nb\nc\n", b"a\nB\nc\n"),
    "crlf.py": (b"a\r\nb\nc\r\n", b"a\r\nB\nc\r\nd\r\n"),
    "no end.py": (b"a\nb", b"a\nc"),
    "gains end.py": (b"a\nb", b"a\nb\n"),
    "loses end.py": (b"a\nb\n", b"a\nb"),
    "new folder/new.py": (None, b"x\ny\n"),
    "gone.py": (b"x\ny\n", None),
    "new-empty.py": (None, b""),
    "gone-empty.py": (b"", None),
    "emptied.py": (b"x\n", b""),
    "filled.py": (b"", b"x\n"),
    "utf16.txt": ("a\nb\n".encode("utf-16"), "a\nc\n".encode("utf-16")),
    'naïve "q" \\ x.py': (b"a\n", b"b\n"),
    "nul.py": (b"a\0b\nc\n", b"a\0b\nd\n"),
    "gains nul.py": (b"a\nb\n", b"a\n\0\n"),
    "loses nul.py": (b"a\n\0", b"a\n"),
    "new-nul.bin": (None, b"\0"),
    "gone-nul.bin": (b"\0" * 9000, None),
    "far.py": (
        b"".join(b"%d\n" % n for n in range(60)),
        b"".join(b"%d\n" % (n + (n in (5, 9, 40)) * 100) for n in range(60)),
    ),
}


def write(root: Path, side: int) -> None:
    for name, sides in _FILES.items():
        data = sides[side]
        if data is not None:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(data)


def test_git_applies_the_patch_to_every_kind_of_file(tmp_path: Path, git: Git) -> None:
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "-q")
    write(root, 0)
    (tmp_path / "it.patch").write_bytes(patch_of(change_set("all", [FileChange(n, *s) for n, s in _FILES.items()])))
    git(root, "apply", "--whitespace=nowarn", str(tmp_path / "it.patch"))
    for name, (_, after) in _FILES.items():
        assert ((root / name).read_bytes() if (root / name).exists() else None) == after, name


def test_a_nul_byte_on_either_side_makes_a_binary_patch_and_no_other_file_is_one() -> None:
    for name, sides in _FILES.items():
        has_nul = any(b"\0" in (side or b"") for side in sides)
        patch = patch_of(change_set("x", [FileChange(name, *sides)]))
        assert (b"GIT binary patch" in patch) == has_nul, name
        assert b"\0" not in patch


@pytest.mark.parametrize("name", ["latin.py", "na\u00efve.py", os.fsdecode(b"caf\xe9 \xff.py")])
def test_a_patch_in_json_is_text_and_git_applies_it_all_the_same(tmp_path: Path, git: Git, name: str) -> None:
    before, after = b"x = 1  # caf\xe9\r\ny = 2\r\n", b"x = 3  # caf\xe9\r\ny = 2\r\n"
    git(tmp_path, "init", "-q")
    (tmp_path / name).write_bytes(before)
    (tmp_path / "plain.py").write_bytes(b"a\n")
    patch = patch_text(change_set("x", [FileChange(name, before, after), FileChange("plain.py", b"a\n", b"b\n")]))
    assert "-a\n+b\n" in patch
    place = tmp_path / ".git" / "it.patch"
    place.write_bytes(json.loads(json.dumps(patch)).encode())
    git(tmp_path, "apply", str(place))
    assert (tmp_path / name).read_bytes() == after
    assert (tmp_path / "plain.py").read_bytes() == b"b\n"


def test_a_binary_patch_claims_no_mode_for_a_file_that_stays(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=repository, check=True)
    (repository / "utf16.txt").write_bytes("a\n".encode("utf-16"))
    (repository / "utf16.txt").chmod(0o755)
    patch = patch_of(change_set("x", [FileChange("utf16.txt", "a\n".encode("utf-16"), "b\n".encode("utf-16"))]))
    done = subprocess.run(["git", "apply", "-"], cwd=repository, input=patch, capture_output=True, check=True)
    assert done.stderr == b""
    assert (repository / "utf16.txt").read_bytes() == "b\n".encode("utf-16")
    assert (repository / "utf16.txt").stat().st_mode & 0o777 == 0o755


def test_the_patch_knows_the_mode_of_a_file_that_goes_and_comes_back(tmp_path: Path, git: Git) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / "gone.sh").write_bytes(b"x\n")
    (tmp_path / "gone.sh").chmod(0o755)
    workspace = Workspace(Repository.open(tmp_path))
    workspace.take(change_set("x", [FileChange("gone.sh", b"x\n", None)]))
    patch = tmp_path / ".git" / "it.patch"
    patch.write_bytes(patch_of(workspace.changes("x")))
    assert b"deleted file mode 100755\n" in patch.read_bytes()
    git(tmp_path, "apply", str(patch))
    assert not (tmp_path / "gone.sh").exists()
    git(tmp_path, "apply", "-R", str(patch))
    assert (tmp_path / "gone.sh").stat().st_mode & 0o111


@pytest.mark.slow
@given(
    st.lists(st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"\n"]), max_size=30),
    st.lists(st.sampled_from([b"a\n", b"b\n", b"c\r\n", b"\n"]), max_size=30),
    st.booleans(),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_git_applies_any_patch(tmp_path: Path, git: Git, old: list[bytes], new: list[bytes], is_open: bool) -> None:
    before, after = b"".join(old), b"".join(new).removesuffix(b"\n" if is_open else b"")
    (tmp_path / "f").write_bytes(before)
    patch = patch_of(change_set("x", [FileChange("f", before, after)]))
    if patch:
        (tmp_path / "p").write_bytes(patch)
        git(tmp_path, "apply", "--whitespace=nowarn", "p")
    assert (tmp_path / "f").read_bytes() == after
