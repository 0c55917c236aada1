"""``khepri undo``: what it takes back, what it leaves alone, and what it says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from khepri.edits.apply import apply
from khepri.edits.change import FileChange, change_set
from khepri.edits.checkpoints import Checkpoints
from khepri.repo.root import Repository


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "a.py").write_text("0\n", encoding="utf-8")
    repository = Repository.open(root)
    checkpoints = Checkpoints(repository.root, tmp_path / "state" / "khepri" / "checkpoints")
    for number in range(3):
        change = FileChange("a.py", b"%d\n" % number, b"%d\n" % (number + 1))
        apply(repository, change_set(f"make it {number + 1}", [change]), checkpoints, 1_700_000_000.0 + number)
    return root


def khepri(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "XDG_STATE_HOME": str(root.parent / "state"), "COLUMNS": "100"}
    return subprocess.run(
        [sys.executable, "-m", "khepri", "undo", "--cwd", str(root), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def text(root: Path) -> str:
    return (root / "a.py").read_text(encoding="utf-8")


def test_changes_are_listed_and_taken_back_one_by_one(root: Path) -> None:
    listed = khepri(root, "--list").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["3", "2", "1"]
    assert "make it 3" in listed[0]
    done = khepri(root)
    assert (done.returncode, text(root)) == (0, "2\n")
    assert "took back 3: make it 3" in done.stdout
    assert khepri(root).returncode == khepri(root).returncode == 0
    assert text(root) == "0\n"
    done = khepri(root, "--json")
    assert (done.returncode, json.loads(done.stdout)) == (8, {"undone": []})


def test_all_changes_back_to_one_are_taken_back_at_once(root: Path) -> None:
    done = khepri(root, "--to", "2", "--json")
    assert [each["number"] for each in json.loads(done.stdout)["undone"]] == [3, 2]
    assert text(root) == "1\n"
    assert len(json.loads(khepri(root, "--list", "--json").stdout)["changes"]) == 1
    assert khepri(root, "--to").returncode == 2


def test_a_file_that_has_changed_since_is_left_alone(root: Path) -> None:
    (root / "a.py").write_text("mine\n", encoding="utf-8")
    done = khepri(root)
    assert (done.returncode, text(root)) == (9, "mine\n")
    assert "has been changed since" in done.stderr
    assert "khepri undo 3 --dry-run | git apply" in done.stderr
    assert khepri(root, "3", "--dry-run").stdout.endswith("-3\n+2\n")


def test_a_file_that_was_removed_since_is_said_to_be_gone(root: Path) -> None:
    (root / "a.py").unlink()
    done = khepri(root)
    assert (done.returncode, (root / "a.py").exists()) == (9, False)
    assert "a.py is gone since change 3" in done.stderr


def test_what_was_taken_back_before_another_change_could_not_be_is_told(root: Path) -> None:
    repository = Repository.open(root)
    checkpoints = Checkpoints(repository.root, root.parent / "state" / "khepri" / "checkpoints")
    (root / "b.py").write_text("mine\n", encoding="utf-8")
    apply(repository, change_set("b", [FileChange("b.py", b"mine\n", b"its\n")]), checkpoints, 0.0)
    apply(repository, change_set("a", [FileChange("a.py", b"3\n", b"4\n")]), checkpoints, 0.0)
    (root / "b.py").write_text("other\n", encoding="utf-8")
    done = khepri(root, "--to", "4", "--json")
    found = json.loads(done.stdout)
    assert (done.returncode, found["exit_code"], found["error"]["reason"]) == (9, 9, "changed on disk")
    assert [each["number"] for each in found["undone"]] == [5]
    assert "b.py has been changed" in done.stderr
    assert (text(root), (root / "b.py").read_text(encoding="utf-8")) == ("3\n", "other\n")


def test_two_at_once_take_each_change_back_once(root: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(root.parent / "state")}
    command = [sys.executable, "-m", "khepri", "undo", "--cwd", str(root), "--json"]
    running = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(4)
    ]
    ends = [(json.loads(process.communicate()[0]), process.returncode) for process in running]
    taken = [each["number"] for found, _ in ends for each in found.get("undone", ()) if each["paths"]]
    assert all(code in (0, 8, 9) for _, code in ends)
    assert len(taken) == len(set(taken)) == sum(code == 0 for _, code in ends)
    assert text(root) == f"{3 - len(taken)}\n"


def test_a_number_that_is_none_is_named(root: Path) -> None:
    done = khepri(root, "77")
    assert done.returncode == 9
    assert "--list" in done.stderr


def test_what_has_been_taken_back_is_not_taken_back_again_and_its_number_never_means_another_change(root: Path) -> None:
    assert khepri(root, "3").returncode == 0
    again = khepri(root, "3", "--json")
    assert (again.returncode, json.loads(again.stdout)) == (8, {"undone": []})
    assert "change 3 has been taken back already" in again.stderr
    repository = Repository.open(root)
    checkpoints = Checkpoints(repository.root, root.parent / "state" / "khepri" / "checkpoints")
    assert apply(repository, change_set("t", [FileChange("a.py", b"2\n", b"9\n")]), checkpoints, 0.0) == 4
    assert (khepri(root, "3").returncode, text(root)) == (8, "9\n")


def test_a_change_whose_files_are_as_before_leaves_nothing_to_take_back(root: Path) -> None:
    (root / "a.py").write_text("2\n", encoding="utf-8")
    done = khepri(root)
    assert (done.returncode, done.stdout) == (8, "nothing is left of 3: make it 3\n")
    assert khepri(root).stdout.startswith("took back 2")


def test_a_dry_run_is_a_patch_that_git_applies(root: Path) -> None:
    patch = khepri(root, "--dry-run").stdout
    assert text(root) == "3\n"
    subprocess.run(["git", "apply"], cwd=root, input=patch, text=True, check=True)
    assert text(root) == "2\n"


def test_a_dry_run_for_a_script_is_an_object_with_the_patch(root: Path) -> None:
    found = json.loads(khepri(root, "--dry-run", "--json", "--to", "2").stdout)
    subprocess.run(["git", "apply"], cwd=root, input=found["patch"], text=True, check=True)
    assert text(root) == "1\n"


def test_a_patch_that_git_would_cut_in_this_folder_says_where_to_apply_it(root: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    (root / "below").mkdir()
    done = khepri(root, "--cwd", str(root / "below"), "--dry-run")
    assert f"git -C {root.resolve()} apply" in done.stderr
    subprocess.run(["git", "-C", str(root), "apply"], cwd=root / "below", input=done.stdout, text=True, check=True)
    assert text(root) == "2\n"
    assert "git -C" not in khepri(root, "--dry-run").stderr
