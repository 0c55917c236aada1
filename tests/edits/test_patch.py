"""The patch of a change is one that the real git applies to the very bytes."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from khepri.edits.change import FileChange, change_set
from khepri.edits.patch import patch_of
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
