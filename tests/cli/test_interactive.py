"""How the app is started from the command line, as far as that needs no terminal."""

import gc
import sys
from pathlib import Path

import pytest

from khepri import config
from khepri.cli import interactive
from khepri.repo.root import Repository


def test_garbage_is_collected_again_once_the_first_frame_is_drawn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    start = interactive._start(Repository.open(tmp_path), config.load(tmp_path, {}, {}), None, choose=False)
    gc.disable()
    try:
        start.drawn()
        assert gc.isenabled()
        assert gc.get_freeze_count() > len(sys.modules)
    finally:
        gc.unfreeze()
        gc.enable()
        start.conversation.close()
