"""Checks run without network and write into the repository only; what a repository is checked with is found."""

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from khepri.edits.checks import detect_checks, end_of, run_check
from khepri.egress import confine, landlock, seccomp
from khepri.egress.libc import KernelCalls
from khepri.repo.root import Repository

CONFINED = pytest.mark.skipif(not confine.is_available(), reason="this kernel has no Landlock")


def seccomp_is_there() -> bool:
    machine = seccomp.architecture() if sys.platform.startswith("linux") else None
    return machine is not None and seccomp.is_available(KernelCalls(), machine)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    root = tmp_path / "repository"
    root.mkdir()
    return Repository.open(root)


@pytest.mark.parametrize(
    ("command", "passed", "summary"),
    [
        ("echo fine", True, "passed"),
        ("echo no; exit 3", False, "exit status 3"),
        ("no-such-program", False, "exit status 127"),
        ("sleep 20", False, "stopped after 1 s"),
        ("test -d .", True, "passed"),
    ],
)
def test_a_check_passes_or_fails(repository: Repository, command: str, passed: bool, summary: str) -> None:
    outcome = run_check(repository, command, 1.0 if "stopped" in summary else 60.0)
    assert (outcome.passed, outcome.summary) == (passed, summary)


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_a_check_is_run_by_the_shell_that_its_rules_are_read_for(repository: Repository) -> None:
    assert run_check(repository, "[[ a < b && ! -e b ]] && (( 1 < 2 ))", 60.0).passed


def test_what_it_prints_is_harmless_and_cut(repository: Repository) -> None:
    outcome = run_check(repository, r"printf '\033[31mred\033[0m\n'; seq 100000", 30.0)
    assert "\x1b" not in outcome.output
    assert outcome.output.endswith("99999\n100000\n")
    assert len(outcome.output) < 25_000
    huge = run_check(repository, "seq 1500000", 60.0).output  # 10 MB
    assert huge.startswith("[cut: about 10,")
    assert huge.endswith("1499999\n1500000\n")
    assert end_of("a\n" * 50 + "b\n", 11) == "[…]\na\na\na\na\nb"
    assert end_of("a" * 50 + "b\n", 5) == "[…]\naaab"


@CONFINED
@pytest.mark.parametrize(
    "command",
    [
        "echo x > ../outside",
        "mkdir ../outside",
        "rm ../kept",
        "mv ../kept ../outside",
        "ln -s x ../outside",
        "echo x >> ../kept",
        "sh -c 'cd .. && echo x > outside'",
        "cp ../kept ~/outside",
    ],
)
def test_it_writes_nothing_outside(repository: Repository, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outside = repository.root.parent
    monkeypatch.setenv("HOME", str(outside))
    (outside / "kept").write_text("kept\n", encoding="utf-8")
    before = sorted(os.listdir(outside))
    outcome = run_check(repository, command, 10.0)
    assert not outcome.passed
    assert outcome.confinement.startswith("landlock")
    assert sorted(os.listdir(outside)) == before
    assert (outside / "kept").read_text(encoding="utf-8") == "kept\n"


def has_scopes() -> bool:
    return bool(confine.is_available()) and landlock.abi(KernelCalls()) >= 6


@pytest.mark.skipif(not has_scopes(), reason="this kernel's Landlock has no scopes")
def test_it_reaches_no_program_outside_by_a_socket_without_a_path_or_a_signal(repository: Repository) -> None:
    program = repository.root / "reach.py"
    with socket.socket(socket.AF_UNIX) as outside:
        outside.bind(b"\0khepri-test-%d" % os.getpid())
        outside.listen()
        program.write_text(
            "import os, signal, socket\n"
            f"for reach in (lambda: socket.socket(socket.AF_UNIX).connect({outside.getsockname()!r}),\n"
            f"              lambda: os.kill({os.getpid()}, 0)):\n"
            "    try:\n        reach()\n        print('reached')\n"
            "    except PermissionError:\n        print('denied')\n"
            "with socket.socket(socket.AF_UNIX) as own:\n"
            f"    own.bind(b'\\0khepri-own-{os.getpid()}')\n    own.listen()\n"
            "    socket.socket(socket.AF_UNIX).connect(own.getsockname())\n"
            "child = os.fork() or os.execvp('sleep', ['sleep', '60'])\n"
            "os.kill(child, signal.SIGTERM)\nprint(os.waitpid(child, 0)[1])\n",
            encoding="utf-8",
        )
        outcome = run_check(repository, f"{sys.executable} reach.py", 30.0)
    assert outcome.output == "denied\ndenied\n15\n"


@CONFINED
def test_it_writes_into_the_repository_and_a_folder_of_its_own(repository: Repository) -> None:
    command = "mkdir a && echo x > a/b && mv a/b c && rm c && touch $TMPDIR/y && echo z > /dev/null"
    assert run_check(repository, command, 10.0).passed
    assert (repository.root / "a").is_dir()


@CONFINED
def test_a_module_of_the_repository_is_not_taken_for_khepris(repository: Repository) -> None:
    for name in ("ctypes.py", "khepri.py", "os.py"):
        (repository.root / name).write_text("raise SystemExit('caught')\n", encoding="utf-8")
    assert run_check(repository, "echo fine", 10.0).output == "fine\n"


@pytest.mark.skipif(not seccomp_is_there(), reason="only a filter of system calls can take Landlock away")
def test_where_the_kernel_has_no_landlock_the_check_runs_and_the_outcome_says_so(repository: Repository) -> None:
    program = [sys.executable, "-m", "tests.edits.without_landlock", str(repository.root)]
    done = subprocess.run(program, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"passed": True, "confinement": "", "output": "fine\n"}
    assert (repository.root.parent / "outside").exists()


@pytest.mark.parametrize(
    ("files", "commands"),
    [
        ({"pyproject.toml": "[tool.pytest.ini_options]\n[tool.ruff]\n"}, ("python -m pytest -q", "ruff check")),
        ({"tests/test_a.py": ""}, ("python -m pytest -q",)),
        ({"package.json": json.dumps({"scripts": {"test": "jest"}})}, ("npm test",)),
        ({"package.json": json.dumps({"scripts": {"test": 'echo "Error: no test specified"'}})}, ()),
        ({"package.json": "{"}, ()),
        ({"Cargo.toml": ""}, ("cargo test --offline",)),
        ({"go.mod": ""}, ("go test ./...",)),
        ({"Makefile": "all:\n\ntest: all\n\ttrue\n"}, ("make test",)),
        ({"Makefile": "check:\n\ttrue\n"}, ("make check",)),
        ({"README.md": "make test"}, ()),
        ({"pyproject.toml": "not toml ["}, ()),
    ],
)
def test_what_a_repository_is_checked_with_is_found(
    repository: Repository, files: dict[str, str], commands: tuple[str, ...]
) -> None:
    for name, text in files.items():
        (repository.root / name).parent.mkdir(exist_ok=True)
        (repository.root / name).write_text(text, encoding="utf-8")
    repository.refresh()
    assert detect_checks(repository) == commands
