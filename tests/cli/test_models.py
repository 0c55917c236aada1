import errno
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from khepri.cli import models as command
from khepri.errors import CancelledError, ModelFileError, NoModelError, UsageError
from khepri.models.catalogue import CATALOGUE
from tests.models.server import Server, entry_for, publish_on_hub, serving
from tests.models.tiny import write_gguf


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("OLLAMA_MODELS", "HF_HOME", "HF_HUB_CACHE", "LLAMA_CACHE", "XDG_CACHE_HOME", "HTTP_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("NO_PROXY", "*")
    return tmp_path


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as running:
        yield running


def own(home: Path) -> Path:
    return home / "data" / "khepri" / "models"


def names(capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    command.list_models(as_json=True)
    return [model["name"] for model in json.loads(capsys.readouterr().out)["models"]]


def test_the_table_shows_what_is_here_and_what_could_be(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_gguf(own(home) / "mine.gguf", file_type=15)
    write_gguf(home / ".lmstudio" / "models" / "a" / "b" / "theirs.gguf")
    command.list_models(as_json=False)
    out, err = capsys.readouterr()
    rows = out.splitlines()
    assert any("mine" in row and "Q4_K_M" in row and "khepri" in row for row in rows)
    assert any("theirs" in row and "lmstudio" in row for row in rows)
    for entry in CATALOGUE:
        assert any(entry.name in row and f"khepri models pull {entry.aliases[0]}" in row for row in rows)
    assert err == ""


def test_an_empty_machine_is_told_how_to_begin(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.list_models(as_json=False)
    assert capsys.readouterr().err == "no models yet; fetch the default with: khepri models pull\n"


def test_the_json_is_complete_and_alone_on_stdout(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_gguf(own(home) / "mine.gguf")
    (own(home) / "broken.gguf").write_text("no model")
    command.list_models(as_json=True)
    out, err = capsys.readouterr()
    listing = json.loads(out)
    assert listing["models"] == [
        {
            "name": "mine",
            "path": str(path),
            "size_bytes": path.stat().st_size,
            "quantization": "F16",
            "architecture": "llama",
            "source": "khepri",
            "is_default": False,
        }
    ]
    assert [item["name"] for item in listing["damaged"]] == ["broken"]
    assert [item["sha256"] for item in listing["available"]] == [entry.sha256 for entry in CATALOGUE]
    assert "khepri models remove broken" in err


def test_a_hostile_file_name_cannot_drive_the_terminal(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_gguf(own(home) / "evil\x1b[2J[bold]x[nope].gguf")
    command.list_models(as_json=False)
    out = capsys.readouterr().out
    assert "\x1b" not in out
    assert "[bold]x[nope]" in out


def test_the_table_survives_twenty_columns(home: Path) -> None:
    write_gguf(own(home) / "mine.gguf")
    program = "from khepri.cli import models; models.list_models(as_json=False)"
    screen = on_a_terminal([sys.executable, "-c", program], columns=20)
    assert "mine" in screen
    assert "khepri models pull" in " ".join(re.sub(r"\x1b\[\d*m", "", screen).split())
    assert "Traceback" not in screen


def on_a_terminal(arguments: list[str], columns: int, **environ: str) -> str:
    """Run a program on a pseudo-terminal and return all it shows."""
    master, slave = pty.openpty()
    running = subprocess.Popen(
        arguments, stdin=slave, stdout=slave, stderr=slave, env=os.environ | {"COLUMNS": str(columns)} | environ
    )
    os.close(slave)
    shown = b""
    try:
        while chunk := os.read(master, 65536):
            shown += chunk
    except OSError as error:
        # How Linux says that the other end was closed.
        if error.errno != errno.EIO:
            raise
    running.wait(timeout=300)
    os.close(master)
    return shown.decode()


def test_a_file_is_added_without_moving_it(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write_gguf(home / "downloads" / "model-x.gguf")
    command.add(file, None)
    assert "added model-x" in capsys.readouterr().err
    assert (own(home) / "model-x.gguf").read_bytes() == file.read_bytes()
    command.add(write_gguf(home / "other.gguf", seed=1), "renamed")
    assert names(capsys) == ["model-x", "renamed"]
    assert [path.name for path in (own(home) / ".partial").iterdir()] == ["adding.lock"]


def test_what_becomes_of_the_file_that_was_added_does_not_matter(home: Path) -> None:
    file = write_gguf(home / "model-x.gguf")
    data = file.read_bytes()
    command.add(file, None)
    with file.open("r+b") as opened:
        opened.write(b"overwritten in place")
    assert (own(home) / "model-x.gguf").read_bytes() == data


def test_adding_refuses_what_is_no_model_and_leaves_nothing(home: Path) -> None:
    text = home / "text.gguf"
    text.write_text("hello")
    with pytest.raises(ModelFileError, match="a text file"):
        command.add(text, None)
    with pytest.raises(ModelFileError, match="cannot read"):
        command.add(home / "none.gguf", None)
    with pytest.raises(ModelFileError, match="holds no language model"):
        command.add(write_gguf(home / "clip.gguf", architecture="clip", tokenizer=False), None)
    with pytest.raises(UsageError, match="one part of a model"):
        command.add(write_gguf(home / "big-00001-of-00002.gguf"), None)
    assert not own(home).exists()


def test_adding_refuses_a_name_that_is_taken_reserved_or_unusable(home: Path) -> None:
    file = write_gguf(home / "a.gguf")
    command.add(file, None)
    with pytest.raises(UsageError, match="a model named a already"):
        command.add(write_gguf(home / "elsewhere" / "a.gguf", seed=1), None)
    with pytest.raises(UsageError, match="already, as a"):
        command.add(own(home) / "a.gguf", "b")
    for name in ("../up", "a/b", "", ".hidden", "-x", "ä", "x" * 300):
        with pytest.raises(UsageError):
            command.add(write_gguf(home / "c.gguf", seed=2), name or " ")
    for name in ("default", CATALOGUE[0].name, f"{CATALOGUE[1].name}.gguf"):
        with pytest.raises(UsageError, match="belongs to a model of the catalogue"):
            command.add(write_gguf(home / "c.gguf", seed=2), name)


def test_a_model_is_removed_after_a_yes(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_gguf(own(home) / "mine.gguf")
    command.remove("mine", yes=True)
    assert "deleted" in capsys.readouterr().err
    assert names(capsys) == []
    with pytest.raises(NoModelError, match="no model named mine"):
        command.remove("mine", yes=True)


def test_nobody_to_ask_means_no(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_gguf(own(home) / "mine.gguf")
    with Path(os.devnull).open(encoding="ascii") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        with pytest.raises(UsageError) as caught:
            command.remove("mine", yes=False)
    assert caught.value.hint == "add --yes"
    assert path.exists()


@pytest.mark.parametrize(("answer", "is_kept"), [("y\n", False), ("n\n", True), ("\n", True), ("", True)])
def test_the_user_is_asked_on_a_terminal(
    home: Path, answer: str, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_gguf(own(home) / "mine.gguf")
    master, slave = pty.openpty()
    os.write(master, answer.encode() or b"\x04")
    with os.fdopen(slave, encoding="utf-8") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        if is_kept:
            with pytest.raises(CancelledError):
                command.remove("mine", yes=False)
        else:
            command.remove("mine", yes=False)
    os.close(master)
    assert path.exists() is is_kept


def test_models_of_other_programs_are_never_removed(home: Path) -> None:
    path = write_gguf(home / ".lmstudio" / "models" / "a" / "b" / "theirs.gguf")
    with pytest.raises(UsageError, match="not Khepri's") as caught:
        command.remove("theirs", yes=True)
    assert "LM Studio" in caught.value.hint
    assert path.exists()


def test_all_parts_damaged_files_and_unfinished_pulls_can_be_removed(home: Path) -> None:
    for number in (1, 2):
        write_gguf(own(home) / f"big-0000{number}-of-00002.gguf", tokenizer=number == 1)
    (own(home) / "broken.gguf").write_text("no model")
    unfinished = own(home) / ".partial" / CATALOGUE[2].name
    unfinished.mkdir(parents=True)
    (unfinished / "index.part").write_bytes(b"half")
    for name in ("big", "broken", "tiny"):
        command.remove(name, yes=True)
    assert list(own(home).glob("*.gguf")) == []
    assert not unfinished.exists()


def test_an_unknown_name_or_source_cannot_be_pulled(home: Path) -> None:
    with pytest.raises(NoModelError) as caught:
        command.pull("coder-1.5", None)
    assert "did you mean coder-1.5b?" in caught.value.hint
    with pytest.raises(UsageError, match="no source ftp"):
        command.pull("tiny", "ftp")


PULL = """
import signal, sys
from khepri.cli import models as command
from khepri.errors import KhepriError
from tests.models.server import entry_for
from pathlib import Path
command.require = lambda name: entry_for(Path(sys.argv[1]).read_bytes())
try:
    command.pull("tt", None)
except KhepriError as error:
    sys.stderr.write(f"{type(error).__name__}: {error.message} | {error.hint}\\n")
    sys.exit(130)
"""


def pull_arguments(data: Path) -> list[str]:
    return [sys.executable, "-c", PULL, str(data)]


def test_a_pull_reports_in_lines_when_nobody_watches_and_then_knows_the_model(home: Path, server: Server) -> None:
    data = write_gguf(home / "data.gguf", values=600_000)
    publish_on_hub(server, data.read_bytes())
    environ = os.environ | {"HF_ENDPOINT": server.url}
    done = subprocess.run(pull_arguments(data), env=environ, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert 5 < len(lines) < 20
    assert "1.2 MB of 1.2 MB" in lines[-2]
    assert lines[-1].startswith("tiny-test-model is ready (from the hub, SHA-256 verified): ")
    again = subprocess.run(pull_arguments(data), env=environ, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0
    assert again.stderr.startswith("tiny-test-model is here already: ")


def test_a_pull_draws_a_bar_on_a_terminal(home: Path, server: Server) -> None:
    data = write_gguf(home / "data.gguf", values=600_000)
    publish_on_hub(server, data.read_bytes()).pause_s = 0.05
    screen = on_a_terminal(pull_arguments(data), 100, HF_ENDPOINT=server.url, TERM="xterm")
    assert "the publisher's file" in screen
    assert "MB" in screen
    assert "is ready" in screen


def test_an_interrupted_pull_says_that_it_will_continue(home: Path, server: Server) -> None:
    data = write_gguf(home / "data.gguf", values=600_000)
    route = publish_on_hub(server, data.read_bytes())
    route.pause_s = 0.1
    environ = os.environ | {"HF_ENDPOINT": server.url}
    running = subprocess.Popen(pull_arguments(data), env=environ, stderr=subprocess.PIPE, text=True)
    part = own(home) / ".partial" / "tiny-test-model" / "hub.part"
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    running.send_signal(signal.SIGINT)
    _, told = running.communicate(timeout=300)
    assert running.returncode == 130
    assert "CancelledError: interrupted; what has arrived of tiny-test-model is kept | the same command" in told
    assert "Traceback" not in told
    route.pause_s = 0
    subprocess.run(pull_arguments(data), env=environ, check=True, capture_output=True, timeout=300)
    assert (own(home) / "tiny-test-model.gguf").read_bytes() == data.read_bytes()
    assert entry_for(data.read_bytes()).size_bytes == data.stat().st_size
