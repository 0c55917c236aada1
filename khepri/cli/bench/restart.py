"""A process that begins where another ended: run as ``python -m khepri.cli.bench.restart``, it restores a preamble.

It is told what to do by its parent, pickled on standard input, and answers with one line of JSON.
"""

import json
import pickle
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from khepri.engine.buffer import TokenBuffer
from khepri.engine.generate import generate
from khepri.engine.launch import EngineFiles, EngineSettings, open_engine
from khepri.engine.request import DraftMode, Request
from khepri.errors import ModelError


@dataclass(frozen=True)
class Task:
    """What the process does."""

    model: Path
    """The model file."""
    settings: EngineSettings
    """How its engine is set up."""
    files: EngineFiles
    """Where its files are."""
    prompt: tuple[int, ...]
    """What is asked."""
    stable_tokens: int
    """So many tokens of it are on the disk."""
    answer_tokens: int
    """How much is answered."""


@dataclass(frozen=True)
class Restart:
    """What came of it."""

    restored_tokens: int
    """Tokens that came from the disk."""
    restore_ms: float
    """Time of the restore: finding the file, reading and checking it, and putting it into the cache."""
    first_token_ms: float
    """Time to the first token of the answer, the restore included."""
    tokens: tuple[int, ...]
    """The answer."""


def run_restarted(task: Task) -> Restart:
    """Do a task in a process of its own.

    Raises:
        ModelError: The process failed.
    """
    # -P keeps the working folder, which may be a stranger's repository, off the import path.
    command = [sys.executable, "-P", "-m", "khepri.cli.bench.restart"]
    done = subprocess.run(command, input=pickle.dumps(task), stdout=subprocess.PIPE, check=False)
    try:
        answer = json.loads(done.stdout)
    except ValueError as error:
        raise ModelError(f"the restarted process failed (exit status {done.returncode})") from error
    return Restart(**{**answer, "tokens": tuple(answer["tokens"])})


def _run(task: Task) -> Restart:
    with open_engine(task.model, task.settings, task.files) as engine:
        started_s = time.perf_counter()
        restored = engine.cache.match(task.prompt, task.stable_tokens)
        restore_ms = (time.perf_counter() - started_s) * 1000
        engine.cache.release()
        request = Request(task.prompt, task.answer_tokens, draft=DraftMode.OFF, stable_tokens=task.stable_tokens)
        generation = generate(engine, request, lambda: None, TokenBuffer())
    return Restart(restored, restore_ms, restore_ms + generation.ttft_ms, generation.tokens)


if __name__ == "__main__":
    print(json.dumps(asdict(_run(pickle.loads(sys.stdin.buffer.read())))))
