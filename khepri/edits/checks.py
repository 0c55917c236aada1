"""Runs the commands that tell whether a change is good: without network, and writing into the repository only.

The network lock is inherited from Khepri itself. Writes are confined by Landlock where the kernel has it; where it has
not, the outcome says so. Which commands are run, and who allowed it, is decided elsewhere.
"""

import json
import os
import re
import sys
import tempfile
import threading
import time
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from khepri.egress import confine
from khepri.repo.process import run_bounded
from khepri.repo.root import Repository
from khepri.repo.shell import command_shell
from khepri.repo.text import printable

_MOST_BYTES: Final = 200_000
_MOST_CHARS: Final = 20_000
_NPM_STUB: Final = re.compile(r"no test specified")


@dataclass(frozen=True)
class CheckOutcome:
    """How a check ended."""

    command: str
    passed: bool
    summary: str
    """``passed``, ``exit status 1``, ``stopped after 300 s``, ``stopped`` or ``could not be started``."""
    output: str
    """The end of what it printed, harmless to show."""
    duration_ms: float
    confinement: str
    """What kept its writes within the repository; empty if nothing did."""


def run_check(
    repository: Repository, command: str, timeout_s: float, cancelled: threading.Event | None = None
) -> CheckOutcome:
    """Run a command of the user's in the root of the repository, by a shell, and wait for it.

    Args:
        repository: Where it runs, and the only place besides a temporary folder of its own where it may write.
        command: As the user would type it.
        timeout_s: It and its children are killed after that.
        cancelled: They are killed at once when another thread sets it.
    """
    started_s = time.perf_counter()
    confinement = confine.is_available()
    shell = [command_shell(), "-c", command]
    with tempfile.TemporaryDirectory(prefix="khepri-check-") as scratch:
        # The caches of the tools would lie in the home folder, which cannot be written.
        caches = {
            "TMPDIR": scratch,
            "XDG_CACHE_HOME": scratch,
            "npm_config_cache": scratch,
            "PYTHONPYCACHEPREFIX": scratch,
        }
        environment = ["env", *(f"{name}={value}" for name, value in caches.items())]
        confined = [sys.executable, "-P", "-m", "khepri.egress.confine", str(repository.root), scratch, "--"]
        words = [*confined, *environment, *shell] if confinement else [*environment, *shell]
        try:
            done = run_bounded(
                words,
                cwd=repository.root,
                timeout_s=timeout_s,
                most_bytes=_MOST_BYTES,
                keeps_end=True,
                merge_errors=True,
                cancelled=cancelled,
                is_guarded=True,
            )
        except (OSError, ValueError) as error:
            return CheckOutcome(command, False, f"could not be started: {error}", "", 0.0, confinement)
    text = printable(done.output.decode("utf-8", "replace"))
    left_out = done.dropped_bytes + max(0, len(text) - _MOST_CHARS)
    cut = f"[cut: about {left_out:,} characters before this]\n" if left_out else ""
    if done.was_cancelled:
        summary = "stopped"
    elif done.timed_out:
        summary = f"stopped after {timeout_s:.0f} s"
    else:
        summary = "passed" if done.status == 0 else f"exit status {done.status}"
    return CheckOutcome(
        command,
        done.status == 0 and not done.timed_out and not done.was_cancelled,
        summary,
        cut + text[-_MOST_CHARS:],
        (time.perf_counter() - started_s) * 1000,
        confinement,
    )


def detect_checks(repository: Repository) -> tuple[str, ...]:
    """Return the commands by which a repository looks like being checked; none of them has been confirmed.

    Raises:
        ToolError: The files cannot be listed.
    """
    files = set(repository.files())
    found: list[str] = []
    project = _toml(repository.root / "pyproject.toml") if "pyproject.toml" in files else {}
    tool = project.get("tool")
    tools = tool if isinstance(tool, dict) else {}
    if "pytest" in tools or {"pytest.ini", "conftest.py", "tests/conftest.py"} & files or _has_python_tests(files):
        found.append("python -m pytest -q")
    if "ruff" in tools or {"ruff.toml", ".ruff.toml"} & files:
        found.append("ruff check")
    if "package.json" in files and _npm_test(repository.root / "package.json"):
        found.append("npm test")
    if "Cargo.toml" in files:
        found.append("cargo test --offline")
    if "go.mod" in files:
        found.append("go test ./...")
    if (
        not found
        and "Makefile" in files
        and re.search(r"^(?:test|check)\s*:", _text(repository.root / "Makefile"), re.M)
    ):
        found.append(
            "make test" if re.search(r"^test\s*:", _text(repository.root / "Makefile"), re.M) else "make check"
        )
    return tuple(found)


def end_of(output: str, most_chars: int) -> str:
    """Return the end of a check's output, which says what failed, in whole lines if there are any."""
    if len(output) <= most_chars:
        return output.strip()
    end = output[-most_chars:].rstrip()
    return f"[…]\n{(end.partition(chr(10))[2] or end).strip()}"


def _has_python_tests(files: set[str]) -> bool:
    return any(re.search(r"(?:^|/)test_\w+\.py$", path) for path in files)


def _npm_test(path: Path) -> bool:
    try:
        scripts = json.loads(_text(path) or "{}").get("scripts", {})
    except (ValueError, AttributeError):
        return False
    command = scripts.get("test") if isinstance(scripts, dict) else None
    return isinstance(command, str) and not _NPM_STUB.search(command)


def _toml(path: Path) -> dict[str, object]:
    try:
        return tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError:
        return {}


def _text(path: Path) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(os.stat(path).st_size and 200_000)
    except OSError:
        return ""
