"""A whole file is written with all that belongs to it, or not at all, whatever the file system can."""

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from khepri.edits import files
from khepri.edits.apply import apply
from khepri.edits.change import FileChange, change_set
from khepri.edits.checkpoints import Checkpoints
from khepri.edits.files import TEMPORARY_PREFIX, read_bytes, stage, write_atomically
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.repo.root import Repository

OLD, NEW, THEIRS = b"old\n", b"new\n", b"somebody's work\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.py"
    path.write_bytes(OLD)
    return path


def refuse(number: int) -> Callable[..., None]:
    def call(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return call


def leftovers(path: Path) -> list[Path]:
    return list(path.parent.glob(f"{TEMPORARY_PREFIX}*"))


def test_extended_attributes_survive(path: Path) -> None:
    try:
        os.setxattr(path, "user.khepri", b"kept")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    stage(path, NEW).commit(OLD)
    assert (path.read_bytes(), os.getxattr(path, "user.khepri")) == (NEW, b"kept")


def test_attributes_that_nobody_can_read_stop_no_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "listxattr", refuse(errno.ENOTSUP), raising=False)
    stage(path, NEW).commit(OLD)
    assert path.read_bytes() == NEW


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_stays_theirs_with_its_mode(path: Path) -> None:
    os.chown(path, 12345, 12346)
    path.chmod(0o4751)
    stage(path, NEW).commit(OLD)
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12345, 12346, 0o4751)


def test_who_may_not_give_a_file_away_writes_it_all_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: path.stat().st_uid + 1)
    monkeypatch.setattr(os, "fchown", refuse(errno.EPERM))
    stage(path, NEW).commit(OLD)
    assert path.read_bytes() == NEW


def test_what_goes_into_a_private_file_is_never_open_to_others(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.chmod(0o600)
    seen: list[int] = []
    real = os.fchmod

    def look(descriptor: int, mode: int) -> None:
        seen.append(os.fstat(descriptor).st_mode & 0o077)
        real(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", look)
    stage(path, NEW).commit(OLD)
    assert seen == [0]


@pytest.mark.parametrize("has_links", [True, False])
def test_a_new_file_takes_nobodys_place(path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool) -> None:
    target = path.with_name("new.py")
    real = os.link if has_links else refuse(errno.EPERM)

    def somebody_is_faster(source: Path, place: Path) -> None:
        place.write_bytes(THEIRS)
        real(source, place)

    monkeypatch.setattr(os, "link", real)
    stage(target, NEW).commit(None)
    assert target.read_bytes() == NEW
    target.unlink()
    monkeypatch.setattr(os, "link", somebody_is_faster)
    staged = stage(target, NEW)
    with pytest.raises(EditRefusedError) as caught:
        staged.commit(None)
    staged.discard()
    assert caught.value.reason is Refusal.CHANGED_ON_DISK
    assert target.read_bytes() == THEIRS
    assert leftovers(path) == []


def test_a_second_name_that_cannot_go_makes_no_new_file_a_failure(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = path.with_name("new.py")
    staged = stage(target, NEW)
    monkeypatch.setattr(os, "unlink", refuse(errno.EIO))
    staged.commit(None)
    assert target.read_bytes() == NEW


def test_more_than_anybody_would_edit_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_MOST_BYTES", len(OLD))
    assert read_bytes(path) == OLD
    path.write_bytes(OLD + b"x")
    with pytest.raises(EditRefusedError) as caught:
        read_bytes(path)
    assert caught.value.reason is Refusal.UNREADABLE


def test_a_link_is_not_read_for_what_it_leads_to(path: Path) -> None:
    link = path.with_name("link.py")
    link.symlink_to(path)
    with pytest.raises(EditRefusedError) as caught:
        read_bytes(link)
    assert caught.value.reason is Refusal.UNREADABLE


def test_a_file_of_khepris_own_stays_whole_and_alone_if_it_cannot_be_replaced(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", refuse(errno.ENOSPC))
        with pytest.raises(OSError, match="No space"):
            write_atomically(path, NEW)
    assert (path.read_bytes(), leftovers(path)) == (OLD, [])
    write_atomically(path, NEW)
    assert path.read_bytes() == NEW


def left_by(folder: Path, process: int, age_s: float, name: str = ".khepri-{0}-0123456789ab.tmp") -> Path:
    place = folder / name.format(process)
    place.write_bytes(b"left")
    os.utime(place, (place.stat().st_atime - age_s,) * 2)
    return place


@pytest.fixture
def dead_process() -> int:
    gone = subprocess.Popen(["true"])
    gone.wait()
    return gone.pid


@pytest.mark.parametrize("kind", ["of a change", "of Khepri's own"])
def test_what_a_killed_write_left_is_removed_by_a_later_one_there(path: Path, dead_process: int, kind: str) -> None:
    folder = path.parent
    left = left_by(folder, dead_process, 600)
    kept = [
        left_by(folder, os.getpid(), 600),
        left_by(folder, os.getppid(), 86_400),
        left_by(folder, dead_process, 600, ".khepri-{0}-notes.tmp"),
        left_by(folder, dead_process, 600, ".khepri-{0}-0123456789ab.tmp.py"),
    ]
    young = left_by(folder, dead_process, 5, ".khepri-{0}-ba9876543210.tmp")
    link = folder / f".khepri-{dead_process}-aaaaaaaaaaaa.tmp"
    link.symlink_to(path)
    if kind == "of a change":
        state = folder.parent / "state"
        repository = Repository.open(folder)
        apply(repository, change_set("x", [FileChange("a.py", OLD, NEW)]), Checkpoints(folder, state), 0.0)
    else:
        write_atomically(path, NEW)
    assert path.read_bytes() == NEW
    assert not left.exists()
    # Khepri's own folders are not locked, and a process may run where it cannot be seen.
    assert young.exists() == (kind == "of Khepri's own")
    assert all(each.exists() for each in kept)
    assert link.is_symlink()


def test_what_a_process_was_writing_as_it_was_killed_is_known_for_its_own(path: Path) -> None:
    write = "import os, signal, sys; from pathlib import Path; from khepri.edits.files import stage; "
    write += "stage(Path(sys.argv[1]), b'x'); os.kill(os.getpid(), signal.SIGKILL)"
    subprocess.run([sys.executable, "-c", write, str(path)], check=False)
    (left,) = leftovers(path)
    write_atomically(path, NEW)
    assert left.exists()
    os.utime(left, (left.stat().st_atime - 600,) * 2)
    write_atomically(path, NEW)
    assert leftovers(path) == []
