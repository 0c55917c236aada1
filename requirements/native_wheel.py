"""Compiles a native library once for this machine, keeps the wheel, and prints where it lies.

Run by ``make`` with the standard library alone, before anything is installed. The source archive and every build tool
are checked against the hashes in the library's lock and ``native.lock``. The wheel is kept in the user's cache, by
``kept_wheels.py``, under a key of everything that shapes the machine code, so that a second checkout compiles nothing;
pip's own cache cannot do this, because it ignores the compiler flags. ``KHEPRI_WHEELS`` names another folder.
"""

import argparse
import errno
import hashlib
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from requirements import kept_wheels
from requirements.kept_wheels import KeepError

_HERE = Path(__file__).resolve().parent
_SHAPING_VARIABLES = ("CC", "CXX", "CFLAGS", "CXXFLAGS", "LDFLAGS", "CMAKE_ARGS")
_NO_AMX = ("-mno-amx-tile", "-mno-amx-int8", "-mno-amx-bf16")
_CPU_FIELDS = ("model name", "flags", "Features", "CPU implementer", "CPU part", "CPU variant")


@dataclass(frozen=True)
class Library:
    """What can be compiled here."""

    distribution: str
    """Name of the distribution."""
    package: str
    """Name of the package in it."""
    lock: str
    """File with the hash of its source archive."""
    name: str
    """What it is called in messages."""
    patience: str
    """How long it takes on two cores."""
    options: tuple[str, ...]
    """What CMake is told about this library alone."""
    project: str = ""
    """Name of its CMake project, if its source archive needs mending."""
    mending: str = ""
    """File that CMake includes in that project, which puts right what the archive lacks."""

    @property
    def pinned(self) -> str:
        """What is compiled: the lock, and what is mended in it."""
        names = (self.lock, self.mending) if self.mending else (self.lock,)
        return "\n".join((_HERE / name).read_text(encoding="utf-8") for name in names)


LIBRARIES: Mapping[str, Library] = {
    "llama": Library(
        "llama-cpp-python", "llama_cpp", "llama.lock", "llama.cpp", "4 to 5 minutes on 2 cores", ("-DLLAVA_BUILD=OFF",)
    ),
    "ik": Library(
        "ik-llama-cpp-python",
        "ik_llama_cpp",
        "fast.lock",
        "ik_llama.cpp",
        "about 9 minutes on 2 cores",
        # Attention over keys and values of 4 bits, which Khepri never asks for, is most of what there is to compile.
        ("-DGGML_IQK_FA_ALL_QUANTS=OFF",),
        project="ik_llama_cpp_python",
        mending="ik_source.cmake",
    ),
}


class BuildError(Exception):
    """The wheel cannot be built; the message says what to do."""


def find_compiler(environment: Mapping[str, str], variable: str, candidates: tuple[str, ...]) -> str:
    """Return the command of a compiler: the one in ``variable``, else the first candidate that is installed.

    Raises:
        BuildError: There is none, or what names it cannot be read.
    """
    named = environment.get(variable, "").strip()
    for command in (named,) if named else candidates:
        if shutil.which(_words(command, variable)[0], path=environment.get("PATH")):
            return command
    raise BuildError(
        f"no {'C++' if variable == 'CXX' else 'C'} compiler found (looked for {named or ', '.join(candidates)}). "
        "The library is compiled for this processor, which needs one:\n"
        "  Debian, Ubuntu:  sudo apt install build-essential\n"
        "  Fedora:          sudo dnf install gcc gcc-c++\n"
        "  macOS:           xcode-select --install"
    )


def _words(text: str, variable: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise BuildError(
            f"{variable} cannot be read ({error}): {text}\nwrite it as for a shell, or unset it"
        ) from error


def accepts(compiler: str, flags: tuple[str, ...], language: str) -> bool:
    """Return True if a compiler takes all the flags for ``language`` (``c`` or ``c++``) without an error."""
    command = [*shlex.split(compiler), *flags, "-x", language, "-c", os.devnull, "-o", os.devnull]
    return subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL).returncode == 0


def cmake_args(environment: Mapping[str, str], machine: str, library: Library = LIBRARIES["llama"]) -> str:
    """Return the CMAKE_ARGS of a library's build; the caller's own come last and win.

    The library's default compiles for the very processor of this machine. AMX is turned off where the compiler knows
    it, since some virtual machines report it and then fault on its first instruction.

    Raises:
        BuildError: There is no C or no C++ compiler, or a variable cannot be read.
    """
    cc = find_compiler(environment, "CC", ("cc", "gcc", "clang"))
    cxx = find_compiler(environment, "CXX", ("c++", "g++", "clang++"))
    arguments = list(library.options)
    if machine in ("x86_64", "AMD64") and accepts(cc, _NO_AMX, "c") and accepts(cxx, _NO_AMX, "c++"):
        flags = " ".join(_NO_AMX)
        arguments += [f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_CXX_FLAGS={flags}"]
    own = environment.get("CMAKE_ARGS", "")
    _words(own, "CMAKE_ARGS")
    return shlex.join(arguments) + (f" {own}" if own else "")


def processor(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """Return a text that differs between processors for which a native build differs."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        sysctl = shutil.which("sysctl")
        command = [sysctl, "-n", "machdep.cpu.brand_string"] if sysctl else []
        brand = subprocess.run(command, capture_output=True, text=True).stdout.strip() if command else ""
        return brand or platform.processor()
    return "\n".join(sorted({line for line in lines if line.startswith(_CPU_FIELDS)}))


def wheel_folder(environment: Mapping[str, str], pinned: str, arguments: str, cpu: str) -> Path:
    """Return the folder of the wheel for one pinned source, one set of flags, one processor and one compiler."""
    cxx = find_compiler(environment, "CXX", ("c++", "g++", "clang++"))
    compiler = subprocess.run([*shlex.split(cxx), "--version"], capture_output=True, text=True).stdout
    parts = (pinned, arguments, cpu, compiler, platform.system(), platform.machine(), " ".join(platform.libc_ver()))
    shaping = (f"{name}={environment.get(name, '')}" for name in _SHAPING_VARIABLES)
    key = hashlib.sha256("\0".join((*parts, *shaping)).encode()).hexdigest()[:16]
    return kept_wheels.wheels_root(environment) / key


def progress(lines: Iterator[str], started: float, name: str = "llama.cpp") -> None:
    """Show how far a build is, on one line of a terminal or in steps of a tenth elsewhere."""
    live, shown = sys.stderr.isatty(), -1
    for line in lines:
        step = re.match(r"\s*\[(\d+)/(\d+)\]", line)
        # CMake's trials of the compiler count their one or two files in the same way.
        if step and int(step[2]) > 9:
            done, total = int(step[1]), int(step[2])
            minutes, seconds = divmod(int(time.monotonic() - started), 60)
            text = f"  compiling {name}: {done} of {total} files, {minutes}:{seconds:02}"
            tenth = 10 * done // total
            if live:
                print(f"\r{text}", end="", file=sys.stderr, flush=True)
            elif tenth > shown:
                print(text, file=sys.stderr, flush=True)
            shown = tenth
    if live and shown >= 0:
        print(file=sys.stderr)


def provide(folder: Path, arguments: str, environment: Mapping[str, str], library: Library) -> Path:
    """Return the wheel that ``folder`` keeps, after compiling it if none that is whole is there.

    Raises:
        BuildError: A download, a hash or the compiler failed; the log is kept in ``folder``.
        KeepError: The wheel could not be kept; nothing was compiled.
        OSError: A disk is full or cannot be written, after all.
    """
    kept = kept_wheels.find(folder, library.distribution)
    if kept is not None and not kept_wheels.flaw(kept) and kept_wheels.is_tidy(kept, library.package):
        return kept
    log = folder / "build.log"
    with kept_wheels.locked(folder):
        # Another process may have compiled it in the meantime.
        kept = kept_wheels.find(folder, library.distribution)
        flaw = kept_wheels.flaw(kept) if kept is not None else ""
        if kept is not None and not flaw:
            wheel = kept_wheels.keep(kept, folder, library.package)
        else:
            if flaw:
                print(f"{kept} is damaged ({flaw}): it is made anew", file=sys.stderr)
            kept_wheels.require_room(folder)
            print(f"compiling {library.name} for this processor: {library.patience}, once", file=sys.stderr)
            try:
                with tempfile.TemporaryDirectory(prefix="khepri-build-", ignore_cleanup_errors=True) as scratch:
                    built = build(Path(scratch), log, arguments, environment, library)
                    wheel = kept_wheels.keep(built, folder, library.package)
            except (KeyboardInterrupt, SystemExit):
                log.unlink(missing_ok=True)
                raise
        log.unlink(missing_ok=True)
    return wheel


def build(scratch: Path, log: Path, arguments: str, environment: Mapping[str, str], library: Library) -> Path:
    """Compile the wheel of a library within ``scratch`` and return it. Takes minutes, uses all cores.

    Raises:
        BuildError: A download, a hash or the compiler failed; ``log`` says why.
        OSError: A disk is full or cannot be written.
    """
    if library.mending:
        include = f"-DCMAKE_PROJECT_{library.project}_INCLUDE={_HERE / library.mending}"
        arguments = f"{shlex.quote(include)} {arguments}"
    tools, output, temporary = scratch / "tools", scratch / "out", scratch / "tmp"
    try:
        venv.create(tools, with_pip=True)
    except subprocess.CalledProcessError as error:
        said = (error.output or b"").decode("utf-8", "replace").strip().splitlines()
        raise BuildError(
            f"the tools of the build cannot be installed in {scratch}: {said[-1] if said else error}. If the disk is "
            "full, make room or name another folder: TMPDIR=/path; on Debian and Ubuntu: sudo apt install python3-venv"
        ) from error
    temporary.mkdir()
    variables = {
        **environment,
        "CMAKE_ARGS": arguments,
        "PATH": f"{tools / 'bin'}{os.pathsep}{environment.get('PATH', os.defpath)}",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PYTHONUNBUFFERED": "1",
        # What a build that is ended leaves behind goes with the rest.
        "TMPDIR": str(temporary),
    }
    pip = (str(tools / "bin" / "python"), "-m", "pip")
    checked = ("--require-hashes", "-r")
    source = ("--no-deps", "--no-build-isolation", "--no-cache-dir", "--no-binary", library.distribution)
    with log.open("w", encoding="utf-8") as record:
        for command in (
            (*pip, "install", *checked, str(_HERE / "native.lock")),
            (*pip, "wheel", "--verbose", *source, "--wheel-dir", str(output), *checked, str(_HERE / library.lock)),
        ):
            with _running(command, variables) as process:
                assert process.stdout is not None
                progress((line for line in process.stdout if record.write(line)), time.monotonic(), library.name)
            if process.returncode != 0:
                record.flush()
                tail = log.read_text(encoding="utf-8", errors="replace").splitlines()[-30:]
                raise BuildError(
                    "\n".join((*tail, "", f"{library.distribution} could not be built; the whole log is {log}"))
                )
    wheel = kept_wheels.find(output, library.distribution)
    if wheel is None:
        raise BuildError(f"the build ended without a wheel; the log is {log}")
    return wheel


@contextmanager
def _running(command: Sequence[str], variables: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Yield a started command; if what is done with it fails or is interrupted, end it and all that it started."""
    with subprocess.Popen(
        command,
        env=variables,
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
    ) as process:
        try:
            yield process
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise


def _explain(error: OSError) -> str:
    """Return what stood in the way of a build, and what to do about it."""
    where = f" ({error.filename})" if error.filename else ""
    what = f"{error.strerror or error}{where}: no wheel was kept"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"{what}. Make room, or name other folders: KHEPRI_WHEELS=/path for wheels, TMPDIR=/path for the build"
    return (
        f"{what}. Folders that can be written are named so: KHEPRI_WHEELS=/path for wheels, TMPDIR=/path for the build"
    )


def _end(number: int, _: object) -> NoReturn:
    """End the build as an interrupt from the keyboard does, with everything that it has started and written."""
    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise SystemExit(128 + number)


def main() -> int:
    """Print the path of the wheel on standard output, after building it if it is not there yet."""
    parser = argparse.ArgumentParser(description="Build a native library for this machine, once.")
    parser.add_argument("--where", action="store_true", help="print the folder that keeps the wheel; build nothing")
    parser.add_argument("--library", choices=LIBRARIES, default="llama", help="which one [default: llama]")
    options = parser.parse_args()
    library = LIBRARIES[options.library]
    try:
        arguments = cmake_args(os.environ, platform.machine(), library)
        folder = wheel_folder(os.environ, library.pinned, arguments, processor())
        if options.where:
            print(folder)
            return 0
        for number in (signal.SIGTERM, signal.SIGHUP):
            # What `nohup` has started goes on.
            if signal.getsignal(number) is not signal.SIG_IGN:
                signal.signal(number, _end)
        print(provide(folder, arguments, os.environ, library))
    except (BuildError, KeepError) as error:
        print(error, file=sys.stderr)
        return 1
    except OSError as error:
        print(_explain(error), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted: no wheel was kept, the next run starts the build again", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
