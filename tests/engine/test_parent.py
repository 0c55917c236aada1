import signal
import subprocess
import sys
import time

import pytest

_CHILD = """
import time
from khepri.engine.parent import die_with_parent
die_with_parent()
print(flush=True)
time.sleep(60)
"""
_PARENT = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
child.wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child")
def test_a_child_ends_with_a_parent_that_was_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", _PARENT, _CHILD], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.communicate()
    deadline = time.monotonic() + 30
    while _is_alive(child):
        assert time.monotonic() < deadline, "the child has outlived its parent"
        time.sleep(0.01)


def _is_alive(pid: int) -> bool:
    """Tell if a process runs; one that is dead and not yet collected does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as status:
            return status.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
