"""``khepri ask`` as users and scripts meet it: a process, its two streams and its exit code."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from khepri.agent.events import Finished, Timing, Usage
from khepri.cli import ask, exits
from khepri.cli.render import Renderer
from tests.support.command import PROGRAM, Command

RESULT = {"answer", "steps", "usage", "timing", "model", "stop_reason", "notices"}
STEP = {"tool", "arguments", "tokens", "milliseconds", "summary", "is_error"}
USAGE = {"prompt_tokens", "cached_tokens", "completion_tokens"}
TIMING = {"ttft_ms", "decode_tokens_per_s", "p50_ms", "p99_ms", "acceptance_rate", "total_ms", "load_ms"}
QUESTION = "Where is retry?"


def test_an_answer_goes_to_stdout_and_nothing_else_does(khepri: Command) -> None:
    done = khepri.ask(QUESTION)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("In `src/retry.py`,")
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stderr.splitlines()[-1:] == ["khepri: the answer was cut at max_tokens; raise it with --max-tokens"]
    assert "reading" not in done.stderr


def test_json_is_one_object_with_the_documented_keys(khepri: Command) -> None:
    done = khepri.ask("--json", QUESTION)
    result = json.loads(done.stdout)
    assert done.stdout.count("\n") == 1
    assert set(result) == RESULT
    assert set(result["usage"]) == USAGE
    assert set(result["timing"]) == TIMING
    assert all(set(step) == STEP for step in result["steps"])
    assert result["steps"][0]["arguments"]["path"] == "src/retry.py"
    assert result["model"] == khepri.model.stem


def test_stream_json_is_one_event_a_line_and_ends_with_the_result(khepri: Command) -> None:
    done = khepri.ask("--stream-json", QUESTION)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(event["event"] for event in events)
    assert events[-1].pop("event") == "finished"
    assert set(events[-1]) == RESULT
    said = "".join(event["text"] for event in events[:-1] if event["event"] == "answer_delta")
    assert said.strip() == events[-1]["answer"]


def test_a_seed_repeats_an_answer_above_temperature_zero(khepri: Command) -> None:
    arguments = ("--no-tools", "--temperature", "2", "--seed")
    one, same, other = (khepri.ask(*arguments, seed, QUESTION).stdout for seed in ("1", "1", "2"))
    assert one == same != other


# --- what is asked, and where it comes from


def test_a_question_can_come_from_stdin(khepri: Command) -> None:
    assert khepri.ask(stdin=QUESTION.encode()).stdout == khepri.ask("-", stdin=f"{QUESTION}\n".encode()).stdout


def test_text_on_stdin_is_the_material_of_a_question(khepri: Command) -> None:
    done = khepri.ask("--json", "Review this.", stdin=b"+ return limit\n" * 20)
    alone = khepri.ask("--json", "--no-tools", "Review this.")
    more = json.loads(done.stdout)["usage"]["prompt_tokens"] - json.loads(alone.stdout)["usage"]["prompt_tokens"]
    assert done.returncode == 0
    assert more > 200


@pytest.mark.parametrize("arguments", [(), ("",), ("  ",), ("-",)])
def test_no_question_is_wrong_usage(khepri: Command, arguments: tuple[str, ...]) -> None:
    done = khepri.ask(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no question" in done.stderr


def test_a_closed_stdin_is_no_question_and_no_hindrance(khepri: Command) -> None:
    command = [*PROGRAM, "ask", "--model", str(khepri.model), "--max-tokens", "3"]
    for question, code in (([], 2), ([QUESTION], 0)):
        shell = ["sh", "-c", 'exec "$@" <&-', "sh", *command, *question]
        done = subprocess.run(shell, cwd=khepri.cwd, env=khepri.environment(), capture_output=True, timeout=300)
        assert done.returncode == code, done.stderr
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(("text", "encoding"), [("café", "latin-1"), ("größer?\r\n", "utf-16")])
def test_text_of_other_encodings_on_stdin_is_read(khepri: Command, text: str, encoding: str) -> None:
    done, plain = (khepri.ask("--json", "Review this.", stdin=text.encode(name)) for name in (encoding, "utf-8"))
    assert done.returncode == 0, done.stderr
    first, second = (json.loads(each.stdout)["usage"]["prompt_tokens"] for each in (done, plain))
    assert first == second


def test_binary_data_on_stdin_is_refused(khepri: Command) -> None:
    done = khepri.ask("Review this.", stdin=bytes(range(256)) * 50)
    assert done.returncode == 2
    assert "standard input is not text" in done.stderr


def test_more_on_stdin_than_any_context_holds_is_refused_without_reading_it_all(khepri: Command) -> None:
    command = [*PROGRAM, "ask", "--model", str(khepri.model), "Review this."]
    shell = ["sh", "-c", 'yes "a line" | "$@"', "sh", *command]
    done = subprocess.run(shell, cwd=khepri.cwd, env=khepri.environment(), capture_output=True, timeout=300)
    assert done.returncode == 2
    assert b"standard input has more than 2 MB" in done.stderr


def test_a_question_in_bytes_that_are_no_text_is_asked(khepri: Command) -> None:
    done = khepri.ask("--json", b"caf\xe9 \x01 \x1b[2J?")
    assert done.returncode == 0
    assert json.loads(done.stdout)["stop_reason"] in ("answered", "max_tokens")


def test_a_question_longer_than_the_context_is_refused_with_counts(khepri: Command) -> None:
    done = khepri.ask("--json", "long " * 5000)
    error = json.loads(done.stdout)
    assert done.returncode == error["exit_code"] == 5
    assert error["error"]["type"] == "ContextFullError"
    assert "the context holds 8192" in done.stderr


# --- files


def test_files_of_any_name_can_be_shown(khepri: Command, repository: Path) -> None:
    names = ["with space.py", 'it\'s "quoted".py', "日本語 🐞.py", "-dash.py", "[bold]markup.py", "a\nb.py"]
    for name in names:
        (repository / name).write_text("x = 1\n", encoding="utf-8")
    done = khepri.ask("--json", "--no-tools", *(f"--file={name}" for name in names), "Explain.")
    assert done.returncode == 0, done.stderr
    alone = khepri.ask("--json", "--no-tools", "Explain.")
    more = json.loads(done.stdout)["usage"]["prompt_tokens"] - json.loads(alone.stdout)["usage"]["prompt_tokens"]
    assert more > len("x = 1") * len(names)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"line\n" * 10_000_000, "50 MB is more than any context holds"),
        (bytes(range(256)) * 50, "binary"),
        (None, "No such file"),
    ],
    ids=["50 MB", "binary", "missing"],
)
def test_a_file_that_cannot_be_shown_is_named(
    khepri: Command, repository: Path, content: bytes | None, words: str
) -> None:
    if content is not None:
        (repository / "it.log").write_bytes(content)
    done = khepri.ask("--file", "it.log", "Explain.")
    assert done.returncode == 2
    assert "--file it.log" in done.stderr
    assert words in done.stderr


def test_a_folder_cannot_be_shown(khepri: Command) -> None:
    done = khepri.ask("--file", "src", "Explain.")
    assert done.returncode == 2
    assert "--file src" in done.stderr


def test_a_hostile_repository_is_answered_about(khepri: Command, repository: Path, git: Callable[..., str]) -> None:
    (repository / "huge.log").write_bytes(b"retry retry retry\n" * 2_800_000)
    (repository / "binary.bin").write_bytes(bytes(range(256)) * 100)
    (repository / "nul.py").write_bytes(b"def retry():\x00\n    pass\n")
    (repository / "latin.py").write_bytes("# retry: größer\ndef übrig(): pass\n".encode("latin-1"))
    (repository / "wide.py").write_bytes("def retry_wide(): pass\n".encode("utf-16"))
    (repository / 'it\'s a "retry" 🐞.py').write_text("def retry_bug(): pass\n", encoding="utf-8")
    (repository / "out.py").symlink_to("/etc/passwd")
    (repository / "loop").symlink_to("loop")
    os.mkfifo(repository / "pipe.py")
    (repository / "long.js").write_text("var retry=" + "1+" * 500_000 + "1;", encoding="utf-8")
    (repository / os.fsdecode(b"caf\xe9.py")).write_text("def retry(): pass\n", encoding="utf-8")
    git(repository, "init")
    done = khepri.ask("--json", "--max-tokens", "8", QUESTION)
    assert done.returncode in (0, 6), done.stderr
    assert "root:" not in done.stdout


@pytest.mark.parametrize("kind", ["empty folder", "empty repository"])
def test_where_nothing_is_something_is_said(
    khepri: Command, tmp_path: Path, git: Callable[..., str], kind: str
) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    if kind == "empty repository":
        git(empty, "init")
    done = khepri.ask("--cwd", str(empty), "What is here?")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "no file here" in done.stderr


@pytest.mark.parametrize("where", ["nowhere", "src/retry.py", "/proc"])
def test_a_folder_that_cannot_be_worked_in_is_wrong_usage(khepri: Command, where: str) -> None:
    done = khepri.ask("--cwd", where, QUESTION)
    assert done.returncode == 2
    assert where in done.stderr


# --- models


def test_without_a_model_the_way_to_one_is_named(khepri: Command) -> None:
    done = khepri.run("ask", "--json", QUESTION)
    assert done.returncode == json.loads(done.stdout)["exit_code"] == 3
    assert "khepri models pull" in done.stderr


def test_a_model_of_an_unknown_name_is_named(khepri: Command) -> None:
    done = khepri.run("ask", "--model", "nothing", QUESTION)
    assert done.returncode == 3
    assert "nothing" in done.stderr


@pytest.mark.parametrize("damage", ["text", "cut in the weights", "cut in the header", "empty"])
def test_a_damaged_model_is_refused(khepri: Command, tmp_path: Path, damage: str) -> None:
    broken, data = tmp_path / "broken.gguf", khepri.model.read_bytes()
    cuts = {"text": b"Once upon a time. " * 99, "cut in the weights": data[:-200_000], "cut in the header": data[:300]}
    broken.write_bytes(cuts.get(damage, b""))
    done = khepri.run("ask", "--model", str(broken), QUESTION)
    assert (done.returncode, done.stdout) == (4, "")
    assert "broken.gguf" in done.stderr


# --- flags and settings


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--temperature", "-1"), "flag --temperature: temperature is -1.0, and must be a number from 0 to 10"),
        (("--temperature", "nan"), "must be a number from 0 to 10"),
        (("--max-tokens", "0"), "flag --max-tokens: max_tokens is 0, and must be an integer from 1"),
        (("--steps", "0"), "must be an integer from 1 to 100"),
        (("--seed", "-1"), "flag --seed"),
        (("--max-tokens", "many"), "--max-tokens"),
        (("--json", "--stream-json"), "choose one of --json and --stream-json"),
        (("--no-such-flag",), "--no-such-flag"),
    ],
)
def test_a_bad_flag_says_what_is_accepted(khepri: Command, flags: tuple[str, ...], words: str) -> None:
    done = khepri.run("ask", *flags, QUESTION)
    assert done.returncode == 2
    assert words in " ".join(done.stderr.split())


def test_settings_of_the_environment_hold_and_flags_win(khepri: Command) -> None:
    done = khepri.run("ask", "--json", QUESTION, KHEPRI_MODEL=str(khepri.model), KHEPRI_MAX_TOKENS="5")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["stop_reason"] == "max_tokens"
    done = khepri.ask("--json", QUESTION, KHEPRI_TEMPERATURE="hot")
    assert json.loads(done.stdout)["exit_code"] == done.returncode == 2
    assert "KHEPRI_TEMPERATURE" in done.stderr
    done = khepri.ask(QUESTION, KHEPRI_TEMPERATUR="1")
    assert done.returncode == 2
    assert "did you mean KHEPRI_TEMPERATURE?" in done.stderr


@pytest.mark.parametrize("home", ["/proc", "a file"])
def test_a_home_that_cannot_be_written_costs_the_cache_alone(khepri: Command, tmp_path: Path, home: str) -> None:
    place = tmp_path / "file"
    place.write_text("", encoding="utf-8")
    folder = str(place) if home == "a file" else home
    where = {f"XDG_{kind}_HOME": f"{folder}/{kind}" for kind in ("CACHE", "CONFIG", "DATA")}
    done = Command(khepri.home, khepri.cwd, khepri.model, {"HOME": folder, **where}).ask(QUESTION)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("In `src/retry.py`,")


def test_the_same_question_has_the_same_answer_whatever_the_terminal(khepri: Command) -> None:
    plain = khepri.ask(QUESTION)
    bare = khepri.ask(QUESTION, COLUMNS="20", NO_COLOR="1", TERM="dumb")
    assert (bare.stdout, bare.stderr) == (plain.stdout, plain.stderr)


@pytest.mark.real_model
@pytest.mark.timeout(600)
def test_the_default_model_names_the_right_file_of_this_repository(khepri: Command, default_model: Path) -> None:
    checkout = Path(__file__).parents[2]
    arguments = ["ask", "--model", str(default_model), "--json", "--cwd", str(checkout)]
    done = subprocess.run(
        [*PROGRAM, *arguments, "Which function decides the exit code of an error, and in which file is it?"],
        env=khepri.environment(KHEPRI_THREADS="0", KHEPRI_EXTRA_BUFFERS="auto"),
        capture_output=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert "khepri/cli/exits.py" in json.loads(done.stdout)["answer"]


@pytest.mark.parametrize("output", [ask.Output.JSON, ask.Output.STREAM_JSON])
def test_what_fails_once_the_result_is_out_adds_no_second_object(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], output: ask.Output
) -> None:
    def answer(question: str | None, files: object, flags: object, cwd: Path, renderer: Renderer, **_: bool) -> int:
        renderer.handle(Finished("Yes.", (), Usage(9, 0, 2), Timing(1, 1, 1, 1, None, 1, 1), "tiny", "answered"))
        raise exits.SignalledExit(signal.SIGTERM)

    monkeypatch.setattr(ask, "_answer", answer)
    with exits.told_as_json(["ask", f"--{output}"]):
        assert ask.run("Why?", (), {}, Path(), output, use_tools=True) == exits.TERMINATED
    assert json.loads(capsys.readouterr().out)["answer"] == "Yes."
