"""Wheels are compiled once, kept whole, and hold one package; what goes wrong is said, and leaves nothing behind."""

import base64
import hashlib
import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from requirements import kept_wheels

ROOT = Path(__file__).resolve().parent.parent
NAME = "ik_llama_cpp_python-1-py3-none-any.whl"
INFO = "ik_llama_cpp_python-1.dist-info"
OWN = ("ik_llama_cpp/__init__.py", "ik_llama_cpp/lib/libllama.so", "ik_llama_cpp_python.libs/libgomp.so.1")
FOREIGN = ("bin/llama-quantize", "include/llama.h", "lib/libllama.so", "lib64/libggml.so")

# The build with everything but its tools, which a script stands for.
PROGRAM = """
import sys, venv
from pathlib import Path

def create(folder, with_pip):
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "python").write_text(script)
    (folder / "bin" / "python").chmod(0o755)

script, venv.create = sys.argv.pop(1), create
from requirements import native_wheel
sys.exit(native_wheel.main())
"""
COMPILES = """#!/bin/sh
[ "$3" = install ] && exit 0
echo built >> "$BUILDS"
sleep {seconds}
while [ "$1" != --wheel-dir ]; do shift; done
mkdir -p "$2" && cp "$WHEEL" "$2"
"""
FAILS = '#!/bin/sh\n[ "$3" = install ] && exit 0\necho no such instruction\nexit 1\n'
HANGS = '#!/bin/sh\n[ "$3" = install ] && exit 0\nmktemp -d\necho $$ > "$BUILDS"\nsleep 60\n'


def write_wheel(path: Path, changed: str = "", missing: str = "") -> Path:
    """Write a wheel as the build of the library leaves it, or with one member that is changed or missing."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(b"content").digest()).decode().rstrip("=")
    with zipfile.ZipFile(path, "w") as archive:
        for member in (*OWN, *FOREIGN):
            if member != missing:
                info = zipfile.ZipInfo(member)
                info.external_attr = 0o755 << 16
                archive.writestr(info, "another" if member == changed else "content")
        rows = [f"{member},sha256={digest},7\n" for member in (*OWN, *FOREIGN)]
        archive.writestr(f"{INFO}/RECORD", "".join([*rows, f"{INFO}/RECORD,,\n"]))
    return path


class Checkout:
    """Starts builds that share a cache and a folder for temporary files."""

    def __init__(self, folder: Path) -> None:
        self.cache, self.temporary, self.builds = folder / "cache", folder / "tmp", folder / "builds"
        self.temporary.mkdir()
        self.environment = {
            **os.environ,
            "KHEPRI_WHEELS": str(self.cache),
            "TMPDIR": str(self.temporary),
            "WHEEL": str(write_wheel(folder / NAME)),
            "BUILDS": str(self.builds),
        }

    def start(
        self, script: str = COMPILES.format(seconds=0), *arguments: str, **variables: str
    ) -> subprocess.Popen[str]:
        command = (sys.executable, "-c", PROGRAM, script, "--library", "ik", *arguments)
        environment = {**self.environment, **variables}
        pipe = subprocess.PIPE
        return subprocess.Popen(command, cwd=ROOT, env=environment, text=True, stdout=pipe, stderr=pipe)

    def run(
        self, script: str = COMPILES.format(seconds=0), *arguments: str, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        process = self.start(script, *arguments, **variables)
        output, errors = process.communicate(timeout=60)
        assert "Traceback" not in errors, errors
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def kept(self) -> Path:
        """Return where the wheel is kept."""
        return Path(self.run("", "--where").stdout.strip()) / NAME

    def built(self) -> int:
        """Return how many builds there were."""
        return len(self.builds.read_text().splitlines()) if self.builds.exists() else 0


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def test_a_kept_wheel_holds_its_package_and_nothing_that_another_one_could_write_over(checkout: Checkout) -> None:
    wheel = Path(checkout.run().stdout.strip())
    with zipfile.ZipFile(wheel) as archive:
        assert set(archive.namelist()) == {*OWN, f"{INFO}/RECORD"}
        assert {line.partition(",")[0] for line in archive.read(f"{INFO}/RECORD").decode().split()} == {
            *OWN,
            f"{INFO}/RECORD",
        }
        assert archive.getinfo(OWN[0]).external_attr == 0o755 << 16
    assert kept_wheels.flaw(wheel) == ""
    assert wheel.stat().st_mode & 0o777 == 0o644


def test_a_wheel_is_compiled_once_and_leaves_neither_log_nor_temporary_files(checkout: Checkout) -> None:
    first, second = checkout.run(), checkout.run()
    assert (first.returncode, second.returncode, checkout.built()) == (0, 0, 1)
    assert first.stdout == second.stdout
    assert [path.name for path in checkout.kept().parent.iterdir() if path.name != ".lock"] == [NAME]
    assert not list(checkout.temporary.iterdir())


def test_a_wheel_that_was_kept_with_all_that_the_build_installs_is_tidied_and_not_compiled(checkout: Checkout) -> None:
    kept = checkout.kept()
    kept.parent.mkdir(parents=True)
    write_wheel(kept)
    (kept.parent / "build.log").write_text("long")
    assert Path(checkout.run().stdout.strip()) == kept
    assert checkout.built() == 0
    assert kept_wheels.is_tidy(kept, "ik_llama_cpp")
    assert not (kept.parent / "build.log").exists()


@pytest.mark.parametrize("damage", ["random", "empty", "cut", "flipped", "changed", "missing", "no record"])
def test_a_kept_wheel_that_is_damaged_is_made_anew_and_that_is_said(checkout: Checkout, damage: str) -> None:
    kept = checkout.kept()
    kept.parent.mkdir(parents=True)
    whole = write_wheel(kept, OWN[1] if damage == "changed" else "", OWN[1] if damage == "missing" else "").read_bytes()
    match damage:
        case "random":
            kept.write_bytes(os.urandom(5000))
        case "empty":
            kept.write_bytes(b"")
        case "cut":
            kept.write_bytes(whole[: len(whole) // 2])
        case "flipped":
            kept.write_bytes(whole.replace(b"content", b"c0ntent", 1))
        case "no record":
            zipfile.ZipFile(kept, "w").close()
    done = checkout.run()
    assert (done.returncode, checkout.built()) == (0, 1)
    assert f"{kept} is damaged (" in done.stderr
    assert kept_wheels.flaw(kept) == ""


def test_of_two_builds_at_once_the_second_waits_and_takes_the_wheel_of_the_first(checkout: Checkout) -> None:
    both = [checkout.start(COMPILES.format(seconds=2)) for _ in range(2)]
    ends = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], ends
    assert ends[0][0] == ends[1][0]
    assert checkout.built() == 1
    assert sum("waiting for it" in errors for _, errors in ends) == 1


def test_what_a_killed_build_left_in_the_cache_goes_with_the_next_one(checkout: Checkout) -> None:
    left = checkout.kept().parent / f".{NAME}.x.partial"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    assert checkout.run().returncode == 0
    assert not left.exists()


def test_a_build_that_fails_keeps_its_log_and_names_it(checkout: Checkout) -> None:
    done = checkout.run(FAILS)
    log = checkout.kept().parent / "build.log"
    assert (done.returncode, done.stdout) == (1, "")
    assert f"the whole log is {log}" in done.stderr
    assert "no such instruction" in log.read_text()
    assert not list(checkout.temporary.iterdir())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_build_that_is_ended_takes_its_processes_and_temporary_files_along(
    checkout: Checkout, number: signal.Signals
) -> None:
    process = checkout.start(HANGS)
    until = time.monotonic() + 30
    while not (checkout.builds.exists() and checkout.builds.read_text().strip()) and time.monotonic() < until:
        time.sleep(0.05)
    child = int(checkout.builds.read_text())
    process.send_signal(number)
    process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert not list(checkout.temporary.iterdir())
    assert [path.name for path in checkout.kept().parent.iterdir()] == [".lock"]
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)


def test_a_folder_that_cannot_be_written_is_named_before_anything_is_compiled(checkout: Checkout) -> None:
    (checkout.temporary.parent / "file").write_text("")
    done = checkout.run(KHEPRI_WHEELS=str(checkout.temporary.parent / "file" / "wheels"))
    assert (done.returncode, done.stdout, checkout.built()) == (1, "", 0)
    assert "name a folder that can be written: KHEPRI_WHEELS=" in done.stderr


@pytest.mark.parametrize("variable", ["CC", "CXX", "CMAKE_ARGS"])
def test_a_variable_with_an_open_quote_is_named(checkout: Checkout, variable: str) -> None:
    done = checkout.run(**{variable: "cc 'x"})
    assert (done.returncode, checkout.built()) == (1, 0)
    assert f"{variable} cannot be read (No closing quotation)" in done.stderr


@pytest.mark.parametrize(
    ("patch", "said"),
    [
        ("import shutil; shutil.disk_usage = lambda p: __import__('types').SimpleNamespace(free=10**8)", "100 MB free"),
        (
            "import subprocess\ndef create(*a, **k): raise subprocess.CalledProcessError(1, 'x', b'No space left')\n",
            "No space left. If the disk is full",
        ),
        (
            "import errno, zipfile\ndef full(*a): raise OSError(errno.ENOSPC, 'No space left')\n"
            "zipfile.ZipFile.writestr = full",
            "No space left: no wheel was kept. Make room, or name other folders: KHEPRI_WHEELS=",
        ),
    ],
    ids=["before", "tools", "wheel"],
)
def test_a_full_disk_is_told_with_what_to_do_and_nothing_is_left_on_it(
    checkout: Checkout, monkeypatch: pytest.MonkeyPatch, patch: str, said: str
) -> None:
    head, tail = PROGRAM.split("script, venv", 1)
    monkeypatch.setitem(globals(), "PROGRAM", f"{head}\n{patch}\nscript, venv{tail}")
    done = checkout.run()
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert not list(checkout.temporary.iterdir())
    assert {path.name for path in checkout.kept().parent.iterdir()} <= {".lock", "build.log"}


def test_a_wheel_that_was_only_partly_copied_is_not_used(tmp_path: Path) -> None:
    (tmp_path / f".{NAME}.partial").write_bytes(b"half")
    assert kept_wheels.find(tmp_path, "ik-llama-cpp-python") is None
