"""Real packages with their own tests: their source distributions, an environment for each, and what its tests say.

Nothing here knows what a refactoring is.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
from dataclasses import dataclass
from pathlib import Path

_PACKAGES = Path(__file__).with_name("packages.toml")
_TESTS_SECONDS = 300
_BROKEN = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Package:
    """One package as its source distribution has it."""

    name: str
    version: str
    needs: tuple[str, ...] = ()
    """What its tests import besides it and what it requires."""
    without: tuple[str, ...] = ()
    """Files of tests that say nothing of a change, as they measure time."""


@dataclass(frozen=True)
class Verdict:
    """What a package's tests say of a state of it."""

    passes: bool
    broken: tuple[str, ...]
    """The tests that fail, by their ids."""
    output: str


def load_packages(names: list[str]) -> list[Package]:
    """Return the packages of ``packages.toml``, or those of these names.

    Raises:
        SystemExit: One of them is not there.
    """
    tables = tomllib.loads(_PACKAGES.read_text(encoding="utf-8"))["package"]
    known = {
        table["name"]: Package(
            table["name"], table["version"], tuple(table.get("needs", ())), tuple(table.get("without", ()))
        )
        for table in tables
    }
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"no such package here: {', '.join(unknown)}; there are {', '.join(known)}")
    return [known[name] for name in names or known]


class Workbench:
    """A package's source and the environment that its tests run in, below one folder; both are made once and kept."""

    def __init__(self, package: Package, folder: Path) -> None:
        """Say where the package lies; ``prepare`` puts it there."""
        self.package = package
        self.source = folder / f"{package.name}-{package.version}"
        self._python = folder / f"{package.name}-env" / "bin" / "python"

    def prepare(self) -> None:
        """Download the source and install what its tests need, unless both are there.

        Raises:
            CalledProcessError: The package index does not answer, or has no such version.
        """
        wanted = f"{self.package.name}=={self.package.version}"
        if not self._python.exists():
            venv.create(self._python.parents[1], with_pip=True)
            self._pip("install", "pytest", wanted, *self.package.needs)
        if not self.source.exists():
            archives = self.source.with_name(f"{self.source.name}-sdist")
            self._pip("download", "--no-deps", "--no-binary", self.package.name, "--dest", str(archives), wanted)
            unpacked = archives / "unpacked"
            with tarfile.open(next(archives.glob("*.tar.gz"))) as archive:
                archive.extractall(unpacked, filter="data")
            shutil.move(next(unpacked.iterdir()), self.source)

    def _pip(self, *words: str) -> None:
        subprocess.run([str(self._python), "-m", "pip", "--quiet", *words], check=True)

    def judge(self, root: Path, without: tuple[str, ...] = (), *, all_of_them: bool = False) -> Verdict:
        """Run the tests of a copy, up to the first that fails or ``all_of_them``, ``without`` those named."""
        python = self._python if self._python.exists() else Path(sys.executable)
        leave_out = [word for name in without for word in ("--deselect", name)]
        leave_out += [word for name in self.package.without for word in ("--ignore", name)]
        program = [str(python), "-m", "pytest", "-q", "--no-header", "--tb=short", "-rfE", "-p", "no:cacheprovider"]
        if not all_of_them:
            program.append("-x")
        environment = {name: os.environ[name] for name in ("HOME", "LANG", "PATH", "TMPDIR") if name in os.environ}
        environment["PYTHONPATH"] = os.pathsep.join([str(root / "src"), str(root)])
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
        try:
            done = subprocess.run(
                [*program, *_tests(root), *leave_out],
                cwd=root,
                env=environment,
                capture_output=True,
                text=True,
                timeout=_TESTS_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Verdict(False, (), f"the tests took over {_TESTS_SECONDS} s")
        output = done.stdout + done.stderr
        return Verdict(done.returncode == 0, tuple(_BROKEN.findall(output)), output)


def _tests(root: Path) -> list[str]:
    folders = [root / "tests", root / "test", *sorted(root.glob("*/tests"))]
    found = [path for path in folders if path.is_dir()][:1] or sorted(root.glob("test_*.py"))
    return [path.relative_to(root).as_posix() for path in found]
