"""How the app is started from the command line, as far as that needs no terminal."""

import os
import subprocess
import sys
from pathlib import Path

# In a process of its own: it gives up the network, and freezes what the collector of garbage knows.
PROGRAM = """
import gc, pathlib, sys
from khepri import config
from khepri.cli import interactive
from khepri.repo.root import Repository
folder = pathlib.Path(sys.argv[1])
start = interactive._start(Repository.open(folder), config.load(folder, {}, {}), None, choose=False)
gc.disable()
start.drawn()
print(gc.isenabled(), gc.get_freeze_count() > len(sys.modules))
start.conversation.close()
"""


def test_garbage_is_collected_again_once_the_first_frame_is_drawn(tmp_path: Path) -> None:
    environ = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    command = [sys.executable, "-c", PROGRAM, os.fspath(tmp_path)]
    done = subprocess.run(command, env=environ, capture_output=True, encoding="utf-8", check=True, timeout=300)
    assert done.stdout.split() == ["True", "True"]
