import json
import stat

from khepri.cli import exits
from tests.support.command import Command


def test_the_cache_is_shown_and_cleared(khepri: Command) -> None:
    before = khepri.run("cache")
    assert before.returncode == 0
    assert "nothing was looked for yet" in before.stdout
    for _ in range(2):
        assert khepri.ask("What is this?").returncode == 0
    found = json.loads(khepri.run("cache", "--json").stdout)
    assert (found["entries"], found["lookups"], found["hits"]) == (1, 2, 1)
    assert found["bytes"] > 0
    assert found["restored_tokens"] > 100
    [file] = khepri.home.glob("cache/khepri/prefixes/*.kv")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "50% (1 of 2" in khepri.run("cache").stdout
    assert json.loads(khepri.run("cache", "clear", "--json").stdout)["entries"] == 1
    assert json.loads(khepri.run("cache", "--json").stdout)["entries"] == 0


def test_a_second_question_begins_with_the_preamble_of_the_first(khepri: Command) -> None:
    first, second = (json.loads(khepri.ask("--json", "--draft", "off", "What is this?").stdout) for _ in range(2))
    assert first["usage"]["cached_tokens"] == 0
    assert second["usage"]["cached_tokens"] > 100
    assert second["answer"] == first["answer"]


def test_without_room_on_the_disk_nothing_is_kept(khepri: Command) -> None:
    for _ in range(2):
        done = khepri.ask("--json", "What is this?", KHEPRI_CACHE_DISK_MB="0")
        assert json.loads(done.stdout)["usage"]["cached_tokens"] == 0
    assert not list(khepri.home.glob("cache/khepri/prefixes/*.kv"))


def test_a_file_in_the_place_of_the_folder_is_said_and_is_no_defect(khepri: Command) -> None:
    folder = khepri.home / "cache" / "khepri"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prefixes").write_text("")
    done = khepri.run("cache", "clear")
    assert done.returncode == exits.USAGE
    assert "prefixes" in done.stderr
