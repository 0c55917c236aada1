"""Writing a change: all of it or nothing, whatever happens meanwhile, and back again."""

import errno
import os
import random
import re
import resource
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from khepri.edits import files
from khepri.edits.apply import apply, undo
from khepri.edits.change import FileChange, change_set
from khepri.edits.checkpoints import Checkpoints
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.repo.root import Repository

BEFORE = {"a.py": b"old a\n", "b.py": b"old b\r\n", "gone.py": b"old d\n"}
AFTER = {"a.py": b"new a\n", "b.py": b"new b\r\n", "made/c.py": b"new c\n"}
CHANGES = change_set("all", [FileChange(path, BEFORE.get(path), AFTER.get(path)) for path in sorted({*BEFORE, *AFTER})])


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    for name, data in BEFORE.items():
        (root / name).write_bytes(data)
    return root


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


def contents(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def test_a_change_is_written_and_taken_back(root: Path, state: Path) -> None:
    repository, checkpoints = Repository.open(root), Checkpoints(root, state)
    number = apply(repository, CHANGES, checkpoints, 1.0)
    assert contents(root) == AFTER
    checkpoint = checkpoints.load(number)
    assert (checkpoint.is_complete, checkpoint.changes) == (True, CHANGES)
    assert undo(repository, checkpoint, checkpoints).paths == CHANGES.paths
    assert contents(root) == BEFORE
    assert not (root / "made").exists()
    assert checkpoints.all() == []


def test_changes_are_taken_back_in_turn(root: Path, state: Path) -> None:
    repository, checkpoints = Repository.open(root), Checkpoints(root, state)
    apply(repository, change_set("1", [FileChange("a.py", b"old a\n", b"1\n")]), checkpoints, 1.0)
    apply(repository, change_set("2", [FileChange("a.py", b"1\n", b"2\n")]), checkpoints, 2.0)
    first, second = reversed(checkpoints.all())
    with pytest.raises(EditRefusedError, match="changed since") as caught:
        undo(repository, first, checkpoints)
    assert caught.value.reason is Refusal.CHANGED_ON_DISK
    undo(repository, second, checkpoints)
    undo(repository, first, checkpoints)
    assert contents(root) == BEFORE


def test_mode_and_symbolic_links_survive(root: Path, state: Path) -> None:
    (root / "a.py").chmod(0o751)
    (root / "link.py").symlink_to("a.py")
    apply(
        Repository.open(root),
        change_set("x", [FileChange("link.py", b"old a\n", b"new\n")]),
        Checkpoints(root, state),
        0,
    )
    assert (root / "link.py").is_symlink()
    assert (root / "a.py").read_bytes() == b"new\n"
    assert (root / "a.py").stat().st_mode & 0o777 == 0o751


@pytest.mark.parametrize("mode", [0o755, 0o640])
def test_a_file_that_went_comes_back_with_its_mode(root: Path, state: Path, mode: int) -> None:
    (root / "gone.py").chmod(mode)
    repository, checkpoints = Repository.open(root), Checkpoints(root, state)
    apply(repository, change_set("x", [FileChange("gone.py", b"old d\n", None)]), checkpoints, 0.0)
    undo(repository, checkpoints.all()[0], checkpoints)
    assert (root / "gone.py").stat().st_mode & 0o777 == mode


def test_a_file_that_is_given_back_in_the_middle_has_its_mode(
    root: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "b.py").chmod(0o751)
    real = files.Staged.commit

    def commit(staged: files.Staged, before: bytes | None) -> None:
        if staged.target.name == "gone.py":
            raise OSError(errno.EIO, "Input/output error")
        real(staged, before)

    monkeypatch.setattr(files.Staged, "commit", commit)
    changes = change_set("x", [FileChange("b.py", BEFORE["b.py"], None), FileChange("gone.py", b"old d\n", b"x\n")])
    with pytest.raises(OSError, match="Input/output"):
        apply(Repository.open(root), changes, Checkpoints(root, state), 0.0)
    assert contents(root) == BEFORE
    assert (root / "b.py").stat().st_mode & 0o777 == 0o751


@pytest.mark.parametrize(
    ("path", "prepare", "reason"),
    [
        ("../out.py", "", Refusal.OUTSIDE),
        ("out/x.py", "ln -s .. out", Refusal.OUTSIDE),
        (".env", "", Refusal.HIDDEN),
        (".git/hooks/pre-commit", "mkdir -p .git/hooks", Refusal.HIDDEN),
        (".GIT/hooks/pre-commit", "", Refusal.HIDDEN),
        ("hidden.py", "echo hidden.py > .khepriignore", Refusal.HIDDEN),
        (".khepri/permissions.toml", "", Refusal.HIDDEN),
        (".khepriignore", "", Refusal.HIDDEN),
        ("a.py", "", Refusal.CHANGED_ON_DISK),
        ("folder", "mkdir folder", Refusal.UNREADABLE),
        ("pipe", "mkfifo pipe", Refusal.UNREADABLE),
    ],
)
def test_what_must_not_be_written_is_refused_and_nothing_else_is_written(
    root: Path, state: Path, path: str, prepare: str, reason: Refusal
) -> None:
    subprocess.run(prepare, cwd=root, shell=True, check=True)
    changes = change_set("x", [FileChange("b.py", b"old b\r\n", b"new\n"), FileChange(path, None, b"x\n")])
    with pytest.raises(EditRefusedError) as caught:
        apply(Repository.open(root), changes, Checkpoints(root, state), 0.0)
    assert caught.value.reason is reason
    assert (root / "b.py").read_bytes() == BEFORE["b.py"]
    assert not list(root.parent.rglob(f"{files.TEMPORARY_PREFIX}*"))
    assert Checkpoints(root, state).all() == []


def test_a_read_only_file_is_left_alone(root: Path, state: Path) -> None:
    (root / "a.py").chmod(0o444)
    with pytest.raises(EditRefusedError, match="read-only") as caught:
        apply(Repository.open(root), CHANGES, Checkpoints(root, state), 0.0)
    assert caught.value.reason is Refusal.READ_ONLY
    assert contents(root) == BEFORE


def test_a_file_that_was_replaced_during_the_review_is_kept(root: Path, state: Path) -> None:
    (root / "b.py").unlink()
    (root / "b.py").write_bytes(b"somebody's work\n")
    with pytest.raises(EditRefusedError, match="changed on disk"):
        apply(Repository.open(root), CHANGES, Checkpoints(root, state), 0.0)
    assert contents(root) == {**BEFORE, "b.py": b"somebody's work\n"}


def test_a_file_that_is_replaced_between_the_writes_is_kept_and_the_others_are_given_back(
    root: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = files.Staged.commit

    def commit(staged: files.Staged, before: bytes | None) -> None:
        if staged.target.name == "gone.py":
            staged.target.write_bytes(b"somebody's work\n")
        real(staged, before)

    monkeypatch.setattr(files.Staged, "commit", commit)
    with pytest.raises(EditRefusedError, match="changed on disk"):
        apply(Repository.open(root), CHANGES, Checkpoints(root, state), 0.0)
    assert contents(root) == {**BEFORE, "gone.py": b"somebody's work\n"}


def test_whoever_has_a_file_open_goes_on_reading_the_old_one(root: Path, state: Path) -> None:
    with (root / "a.py").open("rb", buffering=0) as reader:
        assert reader.read(2) == b"ol"
        apply(Repository.open(root), CHANGES, Checkpoints(root, state), 0.0)
        assert reader.read() == b"d a\n"


def test_a_content_is_on_the_disk_before_it_takes_its_place(
    root: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: dict[int, int] = {}
    placed: list[str] = []
    real_sync = os.fsync

    def sync(descriptor: int) -> None:
        status = os.fstat(descriptor)
        synced[status.st_ino] = status.st_size
        real_sync(descriptor)

    def placing(real: Callable[[Path, Path], None]) -> Callable[[Path, Path], None]:
        def place(source: Path, target: Path) -> None:
            assert synced[source.stat().st_ino] == source.stat().st_size, target
            if target.is_relative_to(root):
                # Only what is remembered for good can be taken back after a loss of power.
                assert next(state.iterdir()).stat().st_ino in synced, target
            placed.append(target.name)
            real(source, target)

        return place

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(os, "replace", placing(os.replace))
    monkeypatch.setattr(os, "link", placing(os.link))
    apply(Repository.open(root), CHANGES, Checkpoints(root, state), 0.0)
    assert {"a.py", "b.py", "c.py", "000001.zip"} <= {*placed}
    assert {(root / "a.py").parent.stat().st_ino, (root / "made").stat().st_ino} <= synced.keys()


def test_a_change_that_was_given_back_leaves_nothing_to_take_back(
    root: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.replace

    def place(source: Path, target: Path) -> None:
        if target.name == "b.py":
            raise OSError(errno.EIO, "Input/output error")
        real(source, target)

    monkeypatch.setattr(os, "replace", place)
    checkpoints = Checkpoints(root, state)
    with pytest.raises(OSError, match="Input/output"):
        apply(Repository.open(root), CHANGES, checkpoints, 0.0)
    assert contents(root) == BEFORE
    assert not (root / "made").exists()
    assert checkpoints.all() == []


def test_an_undo_that_fails_leaves_nothing_behind_and_can_be_tried_again(
    root: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, checkpoints = Repository.open(root), Checkpoints(root, state)
    (root / "sub").mkdir()
    (root / "sub" / "z.py").write_bytes(b"old z\n")
    first = change_set("x", [FileChange("a.py", b"old a\n", b"new a\n"), FileChange("sub/z.py", b"old z\n", None)])
    number = apply(repository, first, checkpoints, 0.0)
    (root / "sub").rmdir()
    before = contents(root)

    real = os.replace

    def refuse(source: Path, target: Path) -> None:
        if target.is_relative_to(root):
            raise OSError(errno.EIO, "Input/output error")
        real(source, target)

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", refuse)
        with pytest.raises(OSError, match="Input/output"):
            undo(repository, checkpoints.load(number), checkpoints)
    assert contents(root) == before
    assert not (root / "sub").exists()
    undo(repository, checkpoints.load(number), checkpoints)
    assert (root / "sub" / "z.py").read_bytes() == b"old z\n"


def test_what_could_not_be_given_back_can_be_taken_back_later(
    root: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.replace
    done: list[Path] = []

    def place(source: Path, target: Path) -> None:
        if target.is_relative_to(root) and done:
            raise OSError(errno.EIO, "Input/output error")
        real(source, target)
        done.extend([target] if target.is_relative_to(root) else [])

    repository, checkpoints = Repository.open(root), Checkpoints(root, state)
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", place)
        with pytest.raises(OSError, match="Input/output"):
            apply(repository, CHANGES, checkpoints, 0.0)
    assert (root / "a.py").read_bytes() == AFTER["a.py"]
    undo(repository, checkpoints.all()[0], checkpoints)
    assert contents(root) == BEFORE


def disk_calls() -> Iterator[tuple[str, int]]:
    for name in ("open", "replace", "link", "unlink", "fsync", "mkdir"):
        for number in range(1, 12):
            yield name, number


def refusal_of(change: Callable[[], object]) -> str:
    """Return why a change is refused; empty if it is made."""
    try:
        change()
    except EditRefusedError as error:
        return error.message
    return ""


@pytest.mark.parametrize(("name", "number"), disk_calls())
def test_a_full_disk_at_any_step_loses_nothing(
    root: Path, state: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    repository, checkpoints = Repository.open(root), Checkpoints(root, state)
    real, calls = getattr(os, name), 0

    def call(*arguments: object, **keywords: object) -> object:
        nonlocal calls
        calls += 1
        if calls == number:
            named = () if isinstance(arguments[0], int) else (str(arguments[0]),)
            raise OSError(errno.ENOSPC, "No space left on device", *named)
        return real(*arguments, **keywords)

    with monkeypatch.context() as patched:
        patched.setattr(os, name, call)
        told = refusal_of(lambda: apply(repository, CHANGES, checkpoints, 0.0))
    assert "None" not in told
    assert "no file was changed" not in told or contents(root) == BEFORE
    assert contents(root) in (BEFORE, AFTER)
    if contents(root) == AFTER:
        undo(repository, checkpoints.all()[0], checkpoints)
    assert contents(root) == BEFORE


def test_a_full_disk_is_told_with_the_file_that_it_has_no_room_for(
    root: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, checkpoints = Repository.open(root), Checkpoints(root, state)
    real, full = os.fsync, [root]

    def fsync(descriptor: int) -> None:
        if full and os.readlink(f"/proc/self/fd/{descriptor}").startswith(f"{full[0]}/"):
            raise OSError(errno.ENOSPC, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    for full[0], kind in ((root, "*.py"), (state, "*.zip")):
        with pytest.raises(EditRefusedError) as caught:
            apply(repository, CHANGES, checkpoints, 0.0)
        assert caught.value.reason is Refusal.DISK_FULL
        told = re.search(r"the disk is full: (\S+) cannot be written \(.*\); no file was changed", caught.value.message)
        assert told is not None
        assert Path(told[1]).is_relative_to(full[0])
        assert Path(told[1]).match(kind)
    assert contents(root) == BEFORE
    full.clear()
    number = apply(repository, CHANGES, checkpoints, 0.0)
    full.append(root)
    with pytest.raises(EditRefusedError, match=r"the disk is full: .*; nothing was taken back"):
        undo(repository, checkpoints.load(number), checkpoints)
    assert contents(root) == AFTER


def killed(root: Path, state: Path, number: int, what: str) -> "subprocess.CompletedProcess[str]":
    program = [sys.executable, "-m", "tests.edits.killed", str(root), str(state), str(number), what]
    return subprocess.run(program, cwd=Path(__file__).parents[2], check=False, capture_output=True, text=True)


@pytest.mark.slow
def test_a_kill_at_any_step_of_an_undo_leaves_each_file_old_or_new_and_the_next_undo_ends_it(
    root: Path, state: Path
) -> None:
    survived = False
    for number in range(1, 200):
        repository, checkpoints = Repository.open(root), Checkpoints(root.resolve(), state)
        apply(repository, CHANGES, checkpoints, 0.0)
        done = killed(root, state, number, "undo")
        for path in {*BEFORE, *AFTER}:
            found = (root / path).read_bytes() if (root / path).exists() else None
            assert found in (BEFORE.get(path), AFTER.get(path)), (number, path)
        for checkpoint in checkpoints.all():
            undo(repository, checkpoint, checkpoints)
        assert {
            p: d for p, d in contents(root).items() if not Path(p).name.startswith(files.TEMPORARY_PREFIX)
        } == BEFORE
        if done.returncode == 0:
            survived = True
            break
        assert done.returncode == -9, done.stderr
    assert survived
    assert number > 10


@pytest.mark.parametrize("most_bytes", [0, 100, 7999, 9000, 20_000])
def test_a_write_that_breaks_off_in_the_middle_loses_nothing(root: Path, state: Path, most_bytes: int) -> None:
    before = {"a.py": random.Random(1).randbytes(8000), "b.py": random.Random(2).randbytes(16_000)}
    for name, data in before.items():
        (root / name).write_bytes(data)
    changes = change_set("x", [FileChange(name, data, data[::-1]) for name, data in before.items()])
    repository, checkpoints = Repository.open(root), Checkpoints(root, state)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, limits[1]))
    try:
        with pytest.raises(EditRefusedError, match=r"disk is full: .*File too large.*no file was changed"):
            apply(repository, changes, checkpoints, 0.0)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert {name: (root / name).read_bytes() for name in before} == before
    assert not list(root.rglob(f"{files.TEMPORARY_PREFIX}*"))
    assert checkpoints.all() == []


def test_a_file_that_became_a_link_to_another_place_during_the_review_is_not_followed(root: Path, state: Path) -> None:
    outside = root.parent / "outside.py"
    outside.write_bytes(BEFORE["b.py"])
    (root / "b.py").unlink()
    (root / "b.py").symlink_to(outside)
    with pytest.raises(EditRefusedError) as caught:
        apply(Repository.open(root), CHANGES, Checkpoints(root, state), 0.0)
    assert caught.value.reason is Refusal.OUTSIDE
    assert outside.read_bytes() == BEFORE["b.py"]
    assert (root / "a.py").read_bytes() == BEFORE["a.py"]


def test_a_kill_at_any_step_leaves_each_file_old_or_new_and_undo_takes_it_back(root: Path, state: Path) -> None:
    survived = False
    for number in range(1, 200):
        done = killed(root, state, number, "apply")
        found = {p: d for p, d in contents(root).items() if not Path(p).name.startswith(files.TEMPORARY_PREFIX)}
        for path in {*BEFORE, *AFTER}:
            assert found.get(path) in (BEFORE.get(path), AFTER.get(path)), (number, path)
        repository, checkpoints = Repository.open(root), Checkpoints(root.resolve(), state)
        for checkpoint in checkpoints.all():
            undo(repository, checkpoint, checkpoints)
        repository.refresh()
        number_of_it = apply(repository, change_set("x", [FileChange("a.py", b"old a\n", b"x\n")]), checkpoints, 0.0)
        undo(repository, checkpoints.load(number_of_it), checkpoints)
        assert {p: d for p, d in contents(root).items() if "/" not in p} == BEFORE, number
        if done.returncode == 0:
            survived = True
            break
        assert done.returncode == -9, done.stderr
    assert survived
    assert number > 20


@pytest.mark.parametrize(("ignored", "link"), [("real.py", "link.py"), ("link.py", "link.py")])
def test_neither_a_link_nor_what_it_leads_to_may_be_hidden(root: Path, state: Path, ignored: str, link: str) -> None:
    (root / ".khepriignore").write_text(f"/{ignored}\n", encoding="utf-8")
    (root / "real.py").write_bytes(b"real\n")
    (root / link).symlink_to("real.py")
    with pytest.raises(EditRefusedError) as caught:
        apply(
            Repository.open(root),
            change_set("x", [FileChange(link, b"real\n", b"new\n")]),
            Checkpoints(root, state),
            0.0,
        )
    assert caught.value.reason is Refusal.HIDDEN
    assert (root / "real.py").read_bytes() == b"real\n"


def test_two_checkpoints_stay_two_where_one_cannot_be_made_of_them(
    root: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, checkpoints = Repository.open(root), Checkpoints(root, state)
    apply(repository, change_set("1", [FileChange("a.py", b"old a\n", b"1\n")]), checkpoints, 1.0)
    apply(repository, change_set("2", [FileChange("a.py", b"1\n", b"2\n")]), checkpoints, 2.0)

    def refuse(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", refuse)
        with pytest.raises(OSError, match="No space"):
            checkpoints.fold(1, 2)
    assert [each.number for each in checkpoints.all()] == [2, 1]
    with checkpoints.locked(), pytest.raises(EditRefusedError):
        checkpoints.fold(1, 2)
    assert checkpoints.load(checkpoints.fold(1, 2)).changes.files == (FileChange("a.py", b"old a\n", b"2\n"),)


def test_a_change_is_not_whole_because_another_one_of_its_number_was(root: Path, state: Path) -> None:
    checkpoints = Checkpoints(root, state)
    with checkpoints.locked():
        number = checkpoints.begin(CHANGES, 0.0)
        checkpoints.complete(number)
    next(state.rglob("*.zip")).unlink()
    with checkpoints.locked():
        assert checkpoints.begin(CHANGES, 0.0) == number
    assert not checkpoints.load(number).is_complete


def test_two_processes_do_not_write_at_once(root: Path, state: Path) -> None:
    checkpoints = Checkpoints(root, state)
    with checkpoints.locked(), pytest.raises(EditRefusedError) as caught:
        apply(Repository.open(root), CHANGES, Checkpoints(root, state), 0.0)
    assert caught.value.reason is Refusal.BUSY
    number = apply(Repository.open(root), CHANGES, checkpoints, 0.0)
    with checkpoints.locked(), pytest.raises(EditRefusedError) as caught:
        undo(Repository.open(root), checkpoints.load(number), Checkpoints(root, state))
    assert caught.value.reason is Refusal.BUSY
    assert contents(root) == AFTER


def test_a_number_is_kept_from_other_changes_before_its_checkpoint_goes(
    root: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository, checkpoints = Repository.open(root), Checkpoints(root, state)
    number = apply(repository, CHANGES, checkpoints, 0.0)
    real = os.replace

    def refuse(source: Path, target: Path) -> None:
        if target.suffix == ".undone":
            raise OSError(errno.ENOSPC, "No space left on device", str(target))
        real(source, target)

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(EditRefusedError, match=r"the files are taken back"):
        undo(repository, checkpoints.load(number), checkpoints)
    assert [each.number for each in checkpoints.all()] == [number]


def test_a_checkpoint_with_another_content_than_was_written_takes_nothing_back(root: Path, state: Path) -> None:
    checkpoints = Checkpoints(root, state)
    number = apply(Repository.open(root), CHANGES, checkpoints, 0.0)
    archive = next(state.rglob("*.zip"))
    with zipfile.ZipFile(archive) as old:
        members = {name: old.read(name) for name in old.namelist()}
    with zipfile.ZipFile(archive, "w") as new:
        for name, data in (members | {"0.before": b"somebody else's\n"}).items():
            new.writestr(name, data)
    with pytest.raises(EditRefusedError, match="damaged"):
        checkpoints.load(number)


def test_only_the_latest_checkpoints_are_kept_and_a_damaged_one_is_named(
    root: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("khepri.edits.checkpoints.MOST_CHECKPOINTS", 3)
    repository, checkpoints = Repository.open(root), Checkpoints(root, state)
    last = b"old a\n"
    for step in range(5):
        data = b"%d\n" % step
        apply(repository, change_set(str(step), [FileChange("a.py", last, data)]), checkpoints, 0.0)
        last = data
    assert [checkpoint.number for checkpoint in checkpoints.all()] == [5, 4, 3]
    archive = next(state.rglob("000005.zip"))
    archive.write_bytes(archive.read_bytes()[:-30])
    with pytest.raises(EditRefusedError, match="damaged"):
        checkpoints.load(5)
    with pytest.raises(EditRefusedError, match="no change number 1"):
        checkpoints.load(1)


def test_of_what_was_taken_back_only_the_latest_numbers_are_kept(
    root: Path, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("khepri.edits.checkpoints.MOST_CHECKPOINTS", 2)
    repository, checkpoints = Repository.open(root), Checkpoints(root, state)
    for number in range(1, 6):
        assert apply(repository, CHANGES, checkpoints, 0.0) == number
        undo(repository, checkpoints.load(number), checkpoints)
    assert [number for number in range(1, 6) if checkpoints.is_undone(number)] == [4, 5]


def test_what_khepri_remembers_is_for_the_user_only(root: Path, state: Path) -> None:
    apply(Repository.open(root), CHANGES, Checkpoints(root, state), 0.0)
    archive = next(state.rglob("*.zip"))
    assert archive.stat().st_mode & 0o077 == 0
    assert archive.parent.stat().st_mode & 0o077 == 0
