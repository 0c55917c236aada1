"""How the command ends when somebody stops it, stops reading it, or has closed its streams."""

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from khepri.cli import exits
from tests.support.command import PROGRAM, Command

LONG = ("--no-tools", "--temperature", "1", "--seed", "3")
IN_THE_PREFILL = ("--file", "long.txt", "--no-tools")
QUESTION = "Where is retry?"


def read_until(process: "subprocess.Popen[bytes]", wanted: bytes, most_s: float = 30) -> bytes:
    """Return what has come on stdout once it holds ``wanted``."""
    assert process.stdout is not None
    said, deadline = b"", time.monotonic() + most_s
    while wanted not in said:
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"only {said!r} came"
        piece = os.read(process.stdout.fileno(), 65536)
        assert piece, f"it ended after {said!r}"
        said += piece
    return said


def end(process: "subprocess.Popen[bytes]", said: bytes = b"") -> tuple[int, bytes, str]:
    """Wait for the end and return the exit code, all of stdout and stderr."""
    out, err = process.communicate(timeout=300)
    assert b"Traceback" not in err
    return process.returncode, said + out, err.decode()


@pytest.fixture
def long_file(khepri: Command) -> Path:
    file = khepri.cwd / "long.txt"
    file.write_text("many words of no meaning\n" * 250, encoding="utf-8")
    return file


def test_an_interrupt_during_the_answer_keeps_what_was_said(talkative: Command) -> None:
    process = talkative.start(*LONG, "--stream-json", QUESTION)
    said = read_until(process, b'"answer_delta"')
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    code, said, errors = end(process, said)
    assert time.monotonic() - sent < 5
    assert code == exits.INTERRUPTED
    assert errors.splitlines()[-1] == "khepri: interrupted"
    events = [json.loads(line) for line in said.splitlines()]
    assert events[-1]["stop_reason"] == "interrupted"
    pieces = "".join(event["text"] for event in events if event["event"] == "answer_delta")
    assert pieces.strip() == events[-1]["answer"] != ""


def test_an_interrupt_during_the_prefill_ends_it(talkative: Command, long_file: Path) -> None:
    process = talkative.start(*IN_THE_PREFILL, "--stream-json", QUESTION, KHEPRI_BATCH_TOKENS="1")
    said = read_until(process, b'"prefill_progress"')
    process.send_signal(signal.SIGINT)
    code, said, _ = end(process, said)
    assert code == exits.INTERRUPTED
    assert json.loads(said.splitlines()[-1])["stop_reason"] == "interrupted"


@pytest.mark.parametrize("wait_s", [0.0, 0.4, 0.8, 1.4])
def test_an_interrupt_at_any_moment_leaves_one_object(khepri: Command, long_file: Path, wait_s: float) -> None:
    process = khepri.start(*IN_THE_PREFILL, "--json", "--max-tokens", "2000", QUESTION)
    wait_for_handlers(process.pid)
    time.sleep(wait_s)
    process.send_signal(signal.SIGINT)
    code, said, errors = end(process)
    # A quick machine may be done by then; a signal that meets the interpreter on its way out ends it as it is.
    was_done = bool(wait_s) and code in (0, -signal.SIGINT)
    assert code == exits.INTERRUPTED or was_done
    if said or wait_s > 1:
        result = json.loads(said)
        assert result.get("stop_reason") == "interrupted" or result.get("exit_code") == code or was_done
    assert errors.count("\n") <= 2


@pytest.mark.parametrize("command", ["ask --json", "ask", "doctor", "config", "models", "models pull"])
def test_an_interrupt_while_modules_are_loaded_waits_until_the_command_can_end_in_order(
    khepri: Command, command: str
) -> None:
    process = khepri.start_command(*command.split(), *([QUESTION] if "ask" in command else []))
    wait_for_signal_in(process.pid, "SigBlk", signal.SIGINT)
    process.send_signal(signal.SIGINT)
    code, said, errors = end(process)
    assert code == exits.INTERRUPTED
    assert errors.strip() == "khepri: interrupted"
    assert json.loads(said)["exit_code"] == code if "--json" in command else said == b""


def wait_for_handlers(pid: int) -> None:
    """Wait until Python has put its handler of SIGTERM in place: the command has begun."""
    wait_for_signal_in(pid, "SigCgt", signal.SIGTERM)


def wait_for_signal_in(pid: int, field: str, wanted: signal.Signals) -> None:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
        mask = int(next(line.split()[1] for line in status.splitlines() if line.startswith(field)), 16)
        if mask & 1 << (wanted - 1):
            return
        time.sleep(0.002)
    raise AssertionError("the command did not begin")


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGTERM, exits.TERMINATED), (signal.SIGHUP, exits.HUNG_UP)])
def test_a_termination_ends_in_good_order(talkative: Command, number: signal.Signals, expected: int) -> None:
    process = talkative.start(*LONG, "--stream-json", QUESTION)
    said = read_until(process, b'"answer_delta"')
    process.send_signal(number)
    code, said, errors = end(process, said)
    assert (code, errors) == (expected, "")
    last = [json.loads(line) for line in said.splitlines()][-1]
    assert (last["event"], last["error"]["message"]) == ("error", f"ended by {number.name}")


def test_after_a_kill_at_any_moment_the_next_run_works(khepri: Command) -> None:
    draw, before = random.Random(11), listing(khepri.cwd)
    for _ in range(4):
        process = khepri.start(QUESTION, KHEPRI_MAX_TOKENS="8")
        time.sleep(draw.uniform(0.1, 1.3))
        process.kill()
        process.communicate(timeout=300)
    assert listing(khepri.cwd) == before
    done = khepri.ask(QUESTION)
    assert done.returncode == 0, done.stderr
    fresh = Command(khepri.home.parent / "fresh", khepri.cwd, khepri.model)
    assert done.stdout == fresh.ask(QUESTION).stdout


def listing(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def shell(khepri: Command, script: str, *arguments: str, **more: str) -> "subprocess.CompletedProcess[bytes]":
    """Run ``script``, in which ``"$@"`` is the command."""
    line = ["bash", "-c", script, "bash", *PROGRAM, *arguments]
    done = subprocess.run(line, cwd=khepri.cwd, env=khepri.environment(**more), capture_output=True, timeout=300)
    assert b"Traceback" not in done.stderr
    return done


def model_flags(khepri: Command, *more: str) -> Sequence[str]:
    return ("ask", "--model", str(khepri.model), "--max-tokens", "100", *more, QUESTION)


@pytest.mark.parametrize("output", ["--json", "--stream-json", "--seed=1"])
def test_a_reader_that_leaves_early_is_no_error_of_ours(khepri: Command, output: str) -> None:
    done = shell(khepri, '"$@" </dev/null | true; echo "${PIPESTATUS[0]}"', *model_flags(khepri, output))
    assert done.stdout == b"141\n"
    assert done.stderr == b""


@pytest.mark.parametrize("arguments", ["models", "models --json", "config", "doctor", "--help", "--version"])
def test_every_command_ends_alike_when_its_reader_leaves_early(khepri: Command, arguments: str) -> None:
    done = shell(khepri, '"$@" 2>/dev/null | true; echo "${PIPESTATUS[0]}"', *arguments.split())
    assert done.stdout == b"141\n"


@pytest.mark.parametrize("output", ["--json", "--stream-json", "--seed=1"])
def test_a_full_disk_is_named(khepri: Command, output: str) -> None:
    done = shell(khepri, '"$@" </dev/null >/dev/full', *model_flags(khepri, output))
    assert done.returncode == exits.INTERNAL
    assert done.stderr == b"khepri: the output could not be written: No space left on device\n"


@pytest.mark.parametrize("nowhere", ['"$@" 2>/dev/full', '"$@" 2> >(true); code=$?; wait; exit $code'])
@pytest.mark.parametrize(
    ("arguments", "code"), [(("ask", "--max-tokens=8", QUESTION), 0), (("ask", "--model=x", "?"), 3), (("frob",), 2)]
)
def test_words_that_cannot_be_written_are_lost_and_change_nothing_else(
    khepri: Command, arguments: Sequence[str], code: int, nowhere: str
) -> None:
    done = shell(khepri, f"exec </dev/null; {nowhere}", *arguments, KHEPRI_MODEL=str(khepri.model))
    assert done.returncode == code
    assert bool(done.stdout) == (code == 0)


def test_closed_streams_are_no_hindrance_and_are_not_mixed_up(khepri: Command) -> None:
    assert shell(khepri, '"$@" <&- 2>&-', *model_flags(khepri)).returncode == 0
    done = shell(khepri, '"$@" 2>&-', *model_flags(khepri, "--json"))
    assert json.loads(done.stdout)["stop_reason"]


@pytest.mark.parametrize("arguments", [("ask", "--max-tokens=8", QUESTION), ("config",), ("models",), ("--help",)])
def test_a_result_that_could_not_be_written_is_a_failure(khepri: Command, arguments: Sequence[str]) -> None:
    done = shell(khepri, '"$@" >&- </dev/null', *arguments, KHEPRI_MODEL=str(khepri.model))
    assert done.returncode == exits.INTERNAL
    assert b"output" in done.stderr


def test_an_encoding_that_cannot_say_the_answer_loses_characters_and_nothing_else(khepri: Command) -> None:
    (khepri.cwd / "src" / "rétry.py").write_text("def retry_é(): pass\n", encoding="utf-8")
    done = shell(khepri, '"$@"', *model_flags(khepri, "--stream-json"), PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()


def test_help_and_version_need_nothing(khepri: Command) -> None:
    for arguments in (["--help"], ["ask", "--help"], ["--version"]):
        done = khepri.run(*arguments, HOME="/proc")
        assert (done.returncode, done.stderr) == (0, "")
    assert "Exit codes: 0 answered" in " ".join(khepri.run("ask", "--help").stdout.split())


def test_without_a_command_there_is_help_and_with_an_unknown_one_an_error(khepri: Command) -> None:
    done = khepri.run()
    assert "ask" in done.stdout + done.stderr
    done = khepri.run("frobnicate")
    assert done.returncode == exits.USAGE
    assert "frobnicate" in done.stderr


def test_a_defect_shows_its_traceback_to_those_who_ask_for_it(khepri: Command) -> None:
    program = (
        "import sys; from khepri.cli import ask; ask.run = lambda *a, **k: 1 // 0\n"
        "sys.argv[1:] = ['ask', 'why']; from khepri.cli import main, process; process.run(main.app, None)"
    )
    for debug, code in (("", exits.INTERNAL), ("1", 1)):
        environment = khepri.environment(**({"KHEPRI_DEBUG": debug} if debug else {}))
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, timeout=300)
        assert done.returncode == code
        assert (b"Traceback" in done.stderr) is bool(debug)
    assert b"ZeroDivisionError" in done.stderr


@pytest.mark.parametrize(
    "arguments", [("--resume", "models", "pull"), ("--model=x", "models", "pull"), ("models", "--json", "pull")]
)
def test_nothing_that_comes_before_these_two_words_opens_the_network(arguments: Sequence[str]) -> None:
    program = (
        "import sys; from khepri import egress; from khepri.cli import process\n"
        "process.run = lambda commands, tier: print(tier is None)\n"
        "from khepri.__main__ import main; main()"
    )
    for words, is_open in ((arguments, b"False"), (("models", "pull"), b"True")):
        done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, check=True, timeout=300)
        assert done.stdout.strip() == is_open
