"""What a user receives: the wheel, the source archive, and the locked set-up."""

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement

import khepri

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LOCKS = sorted((ROOT / "requirements").glob("*.lock"))
PINNED = re.compile(r"^(?P<name>[a-z0-9.-]+)==(?P<version>\S+)(?: ; (?P<marker>.+?))? \\$", re.MULTILINE)


@dataclass(frozen=True)
class Built:
    """The two archives of one build."""

    wheel: Path
    sdist: Path


def tracked_files(*folders: str) -> set[str]:
    """Return the files below ``folders`` that are in git or about to be: all that are not ignored."""
    command = ("git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *folders)
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    return {name for name in names if name and (ROOT / name).is_file()}


def build(source: Path, output: Path, *options: str) -> None:
    """Run the standard build front end without a network."""
    command = (sys.executable, "-m", "build", "--no-isolation", *options, "--outdir", str(output), str(source))
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout, with the litter that editors and Python leave in one."""
    copy = tmp_path_factory.mktemp("source")
    for name in tracked_files("."):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    for litter in (
        "khepri/__pycache__/errors.cpython-311.pyc",
        "tools/__pycache__/read.pyc",
        "build/lib/khepri/old.py",
    ):
        (copy / litter).parent.mkdir(parents=True, exist_ok=True)
        (copy / litter).write_bytes(b"litter")
    return copy


@pytest.fixture(scope="module")
def built(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """The source archive of the copy, and the wheel that is built from the archive."""
    output = tmp_path_factory.mktemp("dist")
    build(source, output)
    return Built(wheel=next(output.glob("*.whl")), sdist=next(output.glob("*.tar.gz")))


def wheel_members(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return {name for name in archive.namelist() if not name.endswith("/")}


def expected_members() -> set[str]:
    """Return where each file of the checkout belongs in the wheel."""
    texts = {f"khepri/_assets/{name}" for name in tracked_files("prompts", "tools")}
    return texts | tracked_files("khepri")


def test_the_wheel_holds_the_package_the_prompts_and_the_tools_and_nothing_else(built: Built) -> None:
    members = {name for name in wheel_members(built.wheel) if ".dist-info/" not in name}
    assert members == expected_members()


def test_a_wheel_from_the_checkout_is_the_same_as_one_from_the_source_archive(
    source: Path, built: Built, tmp_path: Path
) -> None:
    build(source, tmp_path, "--wheel")
    assert wheel_members(next(tmp_path.glob("*.whl"))) == wheel_members(built.wheel)


def test_the_source_archive_holds_what_a_build_needs(built: Built) -> None:
    with tarfile.open(built.sdist) as archive:
        names = {PurePosixPath(name).relative_to(f"khepri-{khepri.__version__}") for name in archive.getnames()}
    wanted = tracked_files("khepri", "prompts", "tools") | {"README.md", "LICENSE", "NOTICE", "pyproject.toml"}
    # The build adds its metadata and the ignore file that it obeys.
    assert {str(name) for name in names} - wanted <= {"PKG-INFO", ".gitignore"}
    assert wanted <= {str(name) for name in names}


def test_the_command_and_the_licence_are_in_the_wheel(built: Built) -> None:
    info = f"khepri-{khepri.__version__}.dist-info"
    with zipfile.ZipFile(built.wheel) as archive:
        assert "khepri = khepri.__main__:main" in archive.read(f"{info}/entry_points.txt").decode()
        metadata = archive.read(f"{info}/METADATA").decode()
        assert archive.read(f"{info}/licenses/LICENSE") == (ROOT / "LICENSE").read_bytes()
        assert archive.read(f"{info}/licenses/NOTICE") == (ROOT / "NOTICE").read_bytes()
    assert "License-Expression: Apache-2.0" in metadata


def test_the_version_is_written_in_one_place(built: Built) -> None:
    assert "version" not in PROJECT["project"]
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert built.wheel.name.startswith(f"khepri-{khepri.__version__}-")


def test_an_installed_wheel_reads_the_texts_that_it_carries(built: Built, tmp_path: Path) -> None:
    site = tmp_path / "site"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--no-index", "--no-deps")
    subprocess.run((*pip, "--target", str(site), str(built.wheel)), check=True, capture_output=True)
    program = "import khepri.assets as a; print(a.__file__); print(*sorted(p.name for p in a.tools_dir().iterdir()))"
    environment = {"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    command = (sys.executable, "-c", program)
    done = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)
    where, tools = done.stdout.splitlines()
    assert Path(where).is_relative_to(site)
    assert set(tools.split()) == {PurePosixPath(name).name for name in tracked_files("tools")}


def pins(lock: Path) -> dict[str, set[str]]:
    """Return the versions that a lock pins for each project; more than one where markers divide them."""
    versions: dict[str, set[str]] = {}
    for match in PINNED.finditer(lock.read_text(encoding="utf-8")):
        versions.setdefault(match["name"], set()).add(match["version"])
    return versions


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.name)
def test_a_lock_pins_every_line_by_hash_and_names_no_host(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert not re.search(r"://|--(extra-)?index-url|--find-links|--trusted-host", text)
    entries = re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]
    assert entries
    assert all(PINNED.match(entry) and "--hash=sha256:" in entry for entry in entries)


@pytest.mark.parametrize(
    ("lock", "declared"),
    [
        ("runtime", [name for name in PROJECT["project"]["dependencies"] if not name.startswith("llama-cpp-python")]),
        ("dev", [*PROJECT["dependency-groups"]["dev"], *PROJECT["build-system"]["requires"]]),
        ("llama", [name for name in PROJECT["project"]["dependencies"] if name.startswith("llama-cpp-python")]),
    ],
)
def test_a_lock_satisfies_what_the_project_declares(lock: str, declared: list[str]) -> None:
    locked = pins(ROOT / "requirements" / f"{lock}.lock")
    for requirement in map(Requirement, declared):
        assert requirement.name in locked, f"{requirement.name} is not locked; run: make lock"
        assert all(requirement.specifier.contains(version) for version in locked[requirement.name])


def test_the_development_lock_agrees_with_the_runtime_lock() -> None:
    runtime, dev = pins(ROOT / "requirements/runtime.lock"), pins(ROOT / "requirements/dev.lock")
    assert {name: dev.get(name) for name in runtime} == runtime


def test_what_the_native_wheel_needs_at_run_time_is_locked() -> None:
    # It is installed without its dependencies, so these have to come with the runtime lock.
    assert {"diskcache", "jinja2", "numpy", "typing-extensions"} <= pins(ROOT / "requirements/runtime.lock").keys()
