"""The first load may kill its child in any way; Khepri lives, says why, and remembers only what lasts."""

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from khepri.engine.backend import BackendName
from khepri.engine.backends.ik_llama_api import find_library
from khepri.engine.probe import ChildResult, library_build, probe, run_child
from khepri.errors import CancelledError, ModelLoadError, OutOfMemoryError

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads the size of a process from /proc")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A file whose content does not matter: the children below do not open it."""
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    return path


@pytest.fixture
def cache_file(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "probe.json"


class Children:
    """Starts real processes that end as they are told: one program for the fast setting, one for the safe one."""

    def __init__(self, fast: str, safe: str = "") -> None:
        self._programs = {True: fast, False: safe}
        self.asked: list[bool] = []

    def __call__(self, model: Path, extra_buffers: bool) -> ChildResult:
        self.asked.append(extra_buffers)
        preamble = "import os, resource, signal, sys; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))\n"
        program = preamble + self._programs[extra_buffers]
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
        return ChildResult(done.returncode, done.stderr.strip())


def die(name: str) -> str:
    return f"os.kill(os.getpid(), signal.{name})"


def test_a_sound_machine_gets_the_fast_setting_from_one_child(model: Path, cache_file: Path) -> None:
    children = Children("")
    verdict = probe(model, cache_file, children)
    assert verdict.extra_buffers
    assert not verdict.was_cached
    assert children.asked == [True]


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGILL", "SIGBUS", "SIGFPE"])
def test_a_library_that_crashes_gets_the_safe_setting_and_the_crash_is_named(
    model: Path, cache_file: Path, name: str
) -> None:
    children = Children(die(name))
    verdict = probe(model, cache_file, children)
    assert not verdict.extra_buffers
    assert name in verdict.reason
    assert children.asked == [True, False]


@pytest.mark.parametrize("name", ["SIGSEGV", "SIGILL"])
def test_a_verdict_is_found_again_and_no_child_started(model: Path, cache_file: Path, name: str) -> None:
    first = probe(model, cache_file, Children(die(name)))
    children = Children(die("SIGKILL"), die("SIGKILL"))
    second = probe(model, cache_file, children)
    assert (second.extra_buffers, second.reason) == (first.extra_buffers, first.reason)
    assert second.was_cached
    assert children.asked == []


def test_a_library_that_dies_with_every_setting_is_refused_and_not_remembered(model: Path, cache_file: Path) -> None:
    with pytest.raises(ModelLoadError, match="every setting") as raised:
        probe(model, cache_file, Children(die("SIGSEGV"), die("SIGILL")))
    assert "SIGSEGV; SIGILL" in raised.value.message
    assert "rebuild" in raised.value.hint
    assert not cache_file.exists()


@pytest.mark.parametrize(
    "fast", [die("SIGKILL"), die("SIGTERM"), die("SIGABRT"), "sys.exit('no answer within 300 s')", "raise MemoryError"]
)
def test_what_may_pass_tomorrow_is_worked_around_today_and_tried_again(
    model: Path, cache_file: Path, fast: str
) -> None:
    assert not probe(model, cache_file, Children(fast)).extra_buffers
    assert not cache_file.exists()
    assert probe(model, cache_file, Children("")).extra_buffers


@pytest.mark.parametrize("programs", [(die("SIGINT"),), (die("SIGSEGV"), die("SIGINT"))])
def test_an_interrupt_from_the_keyboard_is_no_verdict(model: Path, cache_file: Path, programs: tuple[str, ...]) -> None:
    with pytest.raises(CancelledError):
        probe(model, cache_file, Children(*(f"signal.signal(signal.SIGINT, signal.SIG_DFL); {p}" for p in programs)))
    assert not cache_file.exists()


def test_python_itself_ends_by_the_signal_when_it_is_interrupted(model: Path, cache_file: Path) -> None:
    with pytest.raises(CancelledError):
        probe(model, cache_file, Children(die("SIGINT") + "; import time; time.sleep(60)"))


def test_a_child_that_is_killed_with_either_setting_lacks_memory(model: Path, cache_file: Path) -> None:
    with pytest.raises(OutOfMemoryError, match="memory ran out"):
        probe(model, cache_file, Children(die("SIGKILL"), die("SIGKILL")))


@pytest.mark.parametrize(("status", "kind"), [(3, ModelLoadError), (4, OutOfMemoryError)])
@pytest.mark.parametrize("crash_first", [False, True])
def test_a_refusal_is_passed_on_in_the_librarys_words(
    model: Path, cache_file: Path, status: int, kind: type[Exception], crash_first: bool
) -> None:
    refusal = f"print('its own words', file=sys.stderr); sys.exit({status})"
    children = Children(die("SIGSEGV"), refusal) if crash_first else Children(refusal)
    with pytest.raises(kind, match="its own words"):
        probe(model, cache_file, children)
    assert not cache_file.exists()


def test_another_file_of_the_same_name_is_probed_anew(model: Path, cache_file: Path) -> None:
    probe(model, cache_file, Children(""))
    model.write_bytes(b"GGUF, longer")
    children = Children("")
    probe(model, cache_file, children)
    assert children.asked == [True]
    assert len(json.loads(cache_file.read_text())) == 2


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"a": 1}',
        b'{"a": {"extra_buffers": true}}',
        b"\xff\xfe",
        b"[" * 100_000,
        b"\0" * 99,
    ],
    ids=range(9),
)
def test_a_damaged_cache_costs_a_probe_and_is_mended(model: Path, cache_file: Path, content: bytes) -> None:
    cache_file.parent.mkdir()
    cache_file.write_bytes(content)
    assert not probe(model, cache_file, Children("")).was_cached
    assert probe(model, cache_file, Children(die("SIGKILL"))).was_cached


def test_a_cache_that_cannot_be_written_costs_a_probe_each_time_and_leaves_nothing(
    model: Path, cache_file: Path
) -> None:
    cache_file.mkdir(parents=True)
    for _ in range(2):
        assert not probe(model, cache_file, Children("")).was_cached
    assert os.listdir(cache_file.parent) == [cache_file.name]


def test_a_cache_folder_that_cannot_be_made_costs_a_probe(model: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert probe(model, tmp_path / "file" / "probe.json", Children("")).extra_buffers


def test_the_cache_is_for_its_owner_only(model: Path, cache_file: Path) -> None:
    probe(model, cache_file, Children(""))
    assert stat.S_IMODE(cache_file.stat().st_mode) == 0o600
    assert os.listdir(cache_file.parent) == [cache_file.name]


def test_the_real_library_gets_a_verdict_on_a_real_model(tiny_model: Path, cache_file: Path) -> None:
    first = probe(tiny_model, cache_file)
    assert first.reason
    second = probe(tiny_model, cache_file)
    assert second.was_cached
    assert second.extra_buffers is first.extra_buffers


def test_a_text_file_is_refused_with_its_name(tmp_path: Path, cache_file: Path) -> None:
    text = tmp_path / "notes é 🐞.gguf"
    text.write_text("just a text\n" * 100, encoding="utf-8")
    with pytest.raises(ModelLoadError, match=r"notes é 🐞\.gguf"):
        probe(text, cache_file)
    assert not cache_file.exists()


@pytest.mark.parametrize("share", [0.001, 0.2, 0.9])
def test_a_truncated_model_is_refused(tiny_model: Path, tmp_path: Path, cache_file: Path, share: float) -> None:
    data = tiny_model.read_bytes()
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(data[: int(len(data) * share)])
    with pytest.raises(ModelLoadError, match=r"cut\.gguf"):
        probe(cut, cache_file)


def test_a_file_name_that_is_no_text_is_loaded_all_the_same(tiny_model: Path, tmp_path: Path, cache_file: Path) -> None:
    strange = Path(os.fsdecode(os.fsencode(tmp_path) + b"/m\xff.gguf"))
    strange.write_bytes(tiny_model.read_bytes())
    assert probe(strange, cache_file).reason
    assert probe(strange, cache_file).was_cached


def test_a_probe_that_is_cancelled_kills_its_child_at_once(
    tiny_model: Path, cache_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Python runs this file before anything else, so that the child never comes to an end by itself.
    (tmp_path / "sitecustomize.py").write_text("import time; time.sleep(600)", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    others = set(psutil.Process().children())
    cancelled = threading.Event()
    threading.Timer(0.2, cancelled.set).start()
    with pytest.raises(CancelledError):
        probe(tiny_model, cache_file, cancelled=cancelled)
    assert set(psutil.Process().children()) <= others
    assert not cache_file.exists()


@pytest.mark.parametrize("start_up_s", [0.0, 0.4])
def test_a_keypress_reaches_the_child_at_any_moment_of_its_life(
    tiny_model: Path, cache_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_up_s: float
) -> None:
    program = f"import time\ntry: time.sleep({start_up_s})\nexcept KeyboardInterrupt: raise ImportError"
    (tmp_path / "sitecustomize.py").write_text(program, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    others = set(psutil.Process().children())
    is_over = threading.Event()

    def press() -> None:
        while not is_over.wait(0.01):
            for child in set(psutil.Process().children()) - others:
                with contextlib.suppress(psutil.NoSuchProcess):
                    child.send_signal(signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    try:
        with pytest.raises(CancelledError):
            probe(tiny_model, cache_file)
    finally:
        is_over.set()
        thread.join()
    assert not cache_file.exists()


def test_modules_in_the_working_folder_are_not_imported(
    tiny_model: Path, cache_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json.py", "numpy.py", "psutil.py", "llama_cpp.py", "khepri.py"):
        (tmp_path / name).write_text("open('caught', 'w').close()", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert probe(tiny_model, cache_file).reason
    assert not os.path.exists("caught")


LEAVE_ROOM = """
import resource, sys
from pathlib import Path
from khepri.engine import probe
from khepri.engine.backend import BackendName, LoadOptions
from khepri.engine.backends.llama_cpp import LlamaCppBackend
from khepri.errors import OutOfMemoryError

model = Path(sys.argv[1])
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + {room},) * 2)
"""


def run_with_room(room: int, program: str, model: Path) -> subprocess.CompletedProcess[str]:
    """Run ``program`` with so many bytes to spare once the library is loaded."""
    command = [sys.executable, "-c", LEAVE_ROOM.format(room=room) + program, str(model)]
    return subprocess.run(command, capture_output=True, text=True)


@linux_only
def test_a_model_that_does_not_fit_into_memory_is_a_lack_of_memory(
    tiny_model: Path, model: Path, cache_file: Path
) -> None:
    done = run_with_room(256 << 10, "sys.exit(probe._child(BackendName.LLAMA_CPP, model, True))", tiny_model)
    result = ChildResult(done.returncode, done.stderr.strip().splitlines()[-1])
    with pytest.raises(OutOfMemoryError, match="cannot load the model"):
        probe(model, cache_file, lambda _model, _extra_buffers: result)


@linux_only
def test_a_context_that_does_not_fit_into_memory_is_a_lack_of_memory(tiny_model: Path) -> None:
    program = """
try:
    LlamaCppBackend(LoadOptions(model, context_tokens=1 << 20, threads=1))
except OutOfMemoryError as error:
    sys.exit(error.message)
"""
    done = run_with_room(64 << 20, program, tiny_model)
    assert done.returncode == 1
    assert "cannot make a context of 1048576 tokens" in done.stderr


def test_an_assertion_of_the_library_is_quoted(model: Path, cache_file: Path) -> None:
    words = "ggml.c:1644: GGML_ASSERT(ctx->mem_buffer != NULL) failed"
    verdict = probe(model, cache_file, Children(f"print({words!r}, file=sys.stderr, flush=True); os.abort()"))
    assert f"SIGABRT: {words}" in verdict.reason


def test_a_library_that_ends_itself_over_a_model_blames_neither_the_processor_nor_a_setting(
    model: Path, cache_file: Path
) -> None:
    words = "build.cpp:5844: fatal error"
    children = Children(*[f"print({words!r}, file=sys.stderr, flush=True); os.abort()"] * 2)
    with pytest.raises(ModelLoadError, match=r"llama_cpp cannot run model\.gguf") as raised:
        probe(model, cache_file, children)
    assert words in raised.value.message
    assert "another model" in raised.value.hint


def test_a_debuggers_noise_after_an_assertion_is_not_quoted() -> None:
    noise = "[New LWP 7]\n57\t../sysdeps/wait4.c: No such file or directory.\n#1  0x7f in main () at x.c:7\n[detached]"
    program = f"import os, sys; print('/a/b/ggml.c:7: failed\\n' + {noise!r}, file=sys.stderr, flush=True); os.abort()"
    result = run_child([sys.executable, "-c", program], threading.Event())
    assert (result.returncode, result.message) == (-signal.SIGABRT, "ggml.c:7: failed")


def test_a_missing_library_is_named(model: Path, cache_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ModelLoadError, match="llama-cpp-python is not installed"):
        probe(model, cache_file)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that holds both libraries, as wheels install them, and nothing else."""
    folder = tmp_path / "site-packages"
    members = {
        "llama_cpp_python-1.dist-info": ("RECORD",),
        "llama_cpp/lib": ("libllama.so", "libggml-cpu.so.0.1", "libmtmd.dylib"),
        "ik_llama_cpp_python-1.dist-info": ("RECORD",),
        "ik_llama_cpp/lib": ("libllama.so", "libggml.so"),
        "ik_llama_cpp_python.libs": ("libggml-0b5e5db1.so", "libgomp-24e2ab19.so.1.0.0"),
        "lib": ("libllama.so", "libggml.so"),
    }
    for name, files in members.items():
        (folder / name).mkdir(parents=True)
        for file in files:
            (folder / name / file).write_text(f"{name}/{file}")
    for distribution in ("llama_cpp_python", "ik_llama_cpp_python"):
        package = distribution.removesuffix("_python")
        (folder / f"{distribution}-1.dist-info" / "METADATA").write_text(f"Name: {distribution}\nVersion: 1\n")
        record = f"{package}/lib/libllama.so,,\nlib/libllama.so,,\nlib/libggml.so,,\n"
        (folder / f"{distribution}-1.dist-info" / "RECORD").write_text(record)
    monkeypatch.setattr(sys, "path", [str(folder)])
    return folder


@pytest.mark.parametrize(
    ("backend", "file"),
    [
        (BackendName.LLAMA_CPP, "llama_cpp/lib/libllama.so"),
        (BackendName.LLAMA_CPP, "llama_cpp/lib/libggml-cpu.so.0.1"),
        (BackendName.LLAMA_CPP, "llama_cpp/lib/libmtmd.dylib"),
        (BackendName.IK_LLAMA, "ik_llama_cpp/lib/libllama.so"),
        (BackendName.IK_LLAMA, "ik_llama_cpp_python.libs/libggml-0b5e5db1.so"),
        (BackendName.IK_LLAMA, "ik_llama_cpp_python.libs/libgomp-24e2ab19.so.1.0.0"),
    ],
)
def test_any_native_file_that_changes_makes_another_build_of_its_library_alone(
    site: Path, backend: BackendName, file: str
) -> None:
    before = {each: library_build(each) for each in BackendName}
    (site / file).write_text("another")
    assert {each for each in BackendName if library_build(each) != before[each]} == {backend}
    os.remove(site / file)
    assert library_build(backend) != before[backend]


def test_what_lies_beside_the_packages_is_part_of_no_build(site: Path) -> None:
    before = {each: library_build(each) for each in BackendName}
    (site / "lib" / "libllama.so").write_text("another")
    os.remove(site / "lib" / "libggml.so")
    assert {each: library_build(each) for each in BackendName} == before


def test_a_library_that_is_missing_is_not_replaced_by_one_that_lies_beside_its_package(site: Path) -> None:
    assert find_library() == site / "ik_llama_cpp" / "lib" / "libllama.so"
    os.remove(site / "ik_llama_cpp" / "lib" / "libllama.so")
    assert find_library() is None
