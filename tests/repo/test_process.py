import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from khepri.repo.process import run_bounded


def python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def test_output_errors_and_status_come_back(tmp_path: Path) -> None:
    code = "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"
    done = run_bounded(python(code), cwd=tmp_path, timeout_s=20, most_bytes=100)
    assert (done.status, done.output, done.errors, done.timed_out) == (3, b"out\n", "err\n", False)
    merged = run_bounded(python(code), cwd=tmp_path, timeout_s=20, most_bytes=100, merge_errors=True)
    assert (sorted(merged.output.split()), merged.errors) == ([b"err", b"out"], "")


def test_output_beyond_the_limit_is_counted_and_dropped(tmp_path: Path) -> None:
    done = run_bounded(python("print('x' * 9_999_999)"), cwd=tmp_path, timeout_s=20, most_bytes=1000)
    assert (len(done.output), done.dropped_bytes, done.status) == (1000, 9_999_000, 0)


@pytest.mark.parametrize(("printed", "kept"), [(0, 0), (7, 7), (1000, 1000), (9_999_999, 1000)])
def test_the_end_of_the_output_is_kept_where_that_is_asked_for(tmp_path: Path, printed: int, kept: int) -> None:
    code = f"import sys; sys.stdout.write('x' * ({printed} - 3) + 'end' * bool({printed}))"
    done = run_bounded(python(code), cwd=tmp_path, timeout_s=20, most_bytes=1000, keeps_end=True)
    assert done.output == (b"x" * (kept - 3) + b"end" * bool(kept))
    assert done.dropped_bytes == printed - kept


def test_children_die_with_a_program_whose_time_is_over(tmp_path: Path) -> None:
    child = f"import time; time.sleep(2); open({str(tmp_path / 'alive')!r}, 'w')"
    code = f"import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', {child!r}]); time.sleep(60)"
    done = run_bounded(python(code), cwd=tmp_path, timeout_s=1, most_bytes=100)
    assert done.timed_out
    time.sleep(2.5)
    assert not (tmp_path / "alive").exists()


def test_a_program_is_ended_with_its_children_when_another_thread_asks_for_it(tmp_path: Path) -> None:
    cancelled = threading.Event()
    begun = tmp_path / "begun"

    def cancel() -> None:
        while not begun.exists():
            time.sleep(0.01)
        cancelled.set()

    threading.Thread(target=cancel, daemon=True).start()
    child = f"import time; open({str(begun)!r}, 'w'); time.sleep(600)"
    code = f"import subprocess, sys; print('said', flush=True); subprocess.run([sys.executable, '-c', {child!r}])"
    done = run_bounded(python(code), cwd=tmp_path, timeout_s=600, most_bytes=100, cancelled=cancelled)
    assert (done.was_cancelled, done.timed_out, done.output) == (True, False, b"said\n")


def test_a_program_that_closes_its_output_is_still_ended(tmp_path: Path) -> None:
    code = "import os, time; os.close(1); time.sleep(60)"
    done = run_bounded(python(code), cwd=tmp_path, timeout_s=1, most_bytes=100)
    assert (done.timed_out, done.status) == (True, -9)


def test_a_flood_of_errors_does_not_block(tmp_path: Path) -> None:
    code = "import sys; sys.stderr.write('e' * 1_000_000)"
    assert run_bounded(python(code), cwd=tmp_path, timeout_s=20, most_bytes=10).status == 0


def test_a_missing_program_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run_bounded(["./none"], cwd=tmp_path, timeout_s=1, most_bytes=1)


RUNNER = """
import sys
from pathlib import Path
from khepri.repo.process import run_bounded

line = "sleep 600 & echo $! $$ > pids.new; mv pids.new pids; sleep 600"
run_bounded(["sh", "-c", line], cwd=Path(sys.argv[1]), timeout_s=600, most_bytes=100, is_guarded=True)
"""


def test_a_guarded_program_ends_with_its_children_when_khepri_is_killed_outright(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", RUNNER, str(tmp_path)]) as khepri:
        while not (tmp_path / "pids").exists():
            time.sleep(0.01)
        pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
        assert all(map(psutil.pid_exists, pids))
        khepri.send_signal(signal.SIGKILL)
    deadline_s = time.monotonic() + 20
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
