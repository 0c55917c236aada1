import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from khepri.engine.disk import DiskStatistics, DiskTier, DiskUsage, clear, forget_conversation, read_statistics, usage

TOKENS = tuple(range(500))
STATE = os.urandom(5000)


def tier(folder: Path, context: str = "one model", most_bytes: int = 10**9) -> DiskTier:
    return DiskTier(folder, context, most_bytes)


def test_what_is_written_is_found_by_the_next_process_and_is_the_same(tmp_path: Path) -> None:
    tier(tmp_path).write(TOKENS, STATE)
    later = tier(tmp_path)
    entry, length = later.find((*TOKENS[:300], 9, 9))
    assert entry is not None
    assert (entry.tokens, length) == (TOKENS, 300)
    assert later.read(entry) == STATE
    assert later.holds(TOKENS)
    assert not later.holds(TOKENS[:300])


def test_of_two_that_share_as_much_the_shorter_is_restored(tmp_path: Path) -> None:
    written = tier(tmp_path)
    for tokens in (TOKENS, TOKENS[:100], TOKENS[:90]):
        written.write(tokens, STATE)
    entry, length = tier(tmp_path).find((*TOKENS[:100], 7))
    assert entry is not None
    assert (len(entry.tokens), length) == (100, 100)


def test_files_are_for_the_user_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "prefixes"
    tier(folder).write(TOKENS, STATE)
    [file] = folder.glob("*.kv")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize("other", ["another model", "one model | context 4096", "one model | q8_0", ""])
def test_models_and_settings_that_share_a_folder_never_see_each_others_states(tmp_path: Path, other: str) -> None:
    tier(tmp_path).write(TOKENS, STATE)
    assert tier(tmp_path, other).find(TOKENS) == (None, 0)
    tier(tmp_path, other).write(TOKENS, b"other")
    entry, _ = tier(tmp_path).find(TOKENS)
    assert entry is not None
    assert tier(tmp_path).read(entry) == STATE


def test_a_file_under_the_name_of_another_context_or_path_is_deleted(tmp_path: Path) -> None:
    tier(tmp_path).write(TOKENS, STATE)
    [file] = tmp_path.glob("*.kv")
    tier(tmp_path, "other").write(TOKENS[:9], b"x")
    [other] = set(tmp_path.glob("*.kv")) - {file}
    data = file.read_bytes()
    other.write_bytes(data)
    (tmp_path / file.name.replace(file.stem[-8:], "0" * 8)).write_bytes(data)
    assert tier(tmp_path, "other").find(TOKENS) == (None, 0)
    assert tier(tmp_path).find(TOKENS)[1] == len(TOKENS)
    assert list(tmp_path.glob("*.kv")) == [file]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 100,
        b"khepri-kv-1\n{}\n",
        b"khepri-kv-2\n",
        b"khepri-kv-2\n{}\n",
        b"khepri-kv-2\n[1]\nx",
        b"khepri-kv-2\n" + b"[" * 4000 + b"\n",
    ],
    ids=["empty", "zeros", "another version", "no header", "empty header", "no object", "nested without end"],
)
def test_what_is_no_state_is_deleted(tmp_path: Path, content: bytes) -> None:
    tier(tmp_path).write(TOKENS, STATE)
    [file] = tmp_path.glob("*.kv")
    file.write_bytes(content)
    assert tier(tmp_path).find(TOKENS) == (None, 0)
    assert not file.exists()


@pytest.mark.parametrize("tokens", [10**15, 10**25, -1, 0])
def test_a_header_that_lies_about_its_sizes_is_no_state(tmp_path: Path, tokens: int) -> None:
    tier(tmp_path).write(TOKENS, STATE)
    [file] = tmp_path.glob("*.kv")
    magic, head, rest = file.read_bytes().split(b"\n", 2)
    lie = {**json.loads(head), "tokens": tokens, "state_bytes": len(rest) - 4 * tokens}
    file.write_bytes(b"\n".join((magic, json.dumps(lie).encode(), rest)))
    assert tier(tmp_path).find(TOKENS) == (None, 0)
    assert not file.exists()


def test_a_file_larger_than_the_memory_counts_as_missing(tmp_path: Path) -> None:
    tier(tmp_path).write(TOKENS, STATE)
    [file] = tmp_path.glob("*.kv")
    magic, head, rest = file.read_bytes().split(b"\n", 2)
    huge = 2**42
    with file.open("wb") as sparse:
        sparse.write(b"\n".join((magic, json.dumps({**json.loads(head), "state_bytes": huge}).encode(), rest)))
        try:
            os.truncate(file, sparse.tell() - len(STATE) + huge)
        except OSError:
            pytest.skip("the file system takes no such file")
    kept = tier(tmp_path, most_bytes=2**62)
    entry, _ = kept.find(TOKENS)
    assert entry is not None
    assert kept.read(entry) is None
    assert not file.exists()


@pytest.mark.parametrize("place", [0, 40, -len(STATE) - 1, -len(STATE), -len(STATE) // 2, -1])
def test_one_bit_that_is_wrong_makes_a_file_useless_wherever_it_is(tmp_path: Path, place: int) -> None:
    tier(tmp_path).write(TOKENS, STATE)
    [file] = tmp_path.glob("*.kv")
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    file.write_bytes(data)
    damaged = tier(tmp_path)
    entry, _ = damaged.find(TOKENS)
    assert entry is None or damaged.read(entry) is None
    assert not file.exists()


def test_a_file_that_vanished_counts_as_missing(tmp_path: Path) -> None:
    written = tier(tmp_path)
    written.write(TOKENS, STATE)
    entry, _ = written.find(TOKENS)
    assert entry is not None
    clear(tmp_path)
    assert written.read(entry) is None
    assert written.find(TOKENS) == (None, 0)


def test_a_link_and_a_pipe_are_not_followed(tmp_path: Path) -> None:
    folder, outside = tmp_path / "kv", tmp_path / "outside"
    tier(folder).write(TOKENS, STATE)
    [file] = folder.glob("*.kv")
    file.rename(outside)
    file.symlink_to(outside)
    assert tier(folder).find(TOKENS) == (None, 0)
    assert outside.exists()
    os.mkfifo(file)
    assert tier(folder).find(TOKENS) == (None, 0)


def test_a_longer_state_of_a_conversation_takes_the_place_of_those_that_other_processes_left(tmp_path: Path) -> None:
    tier(tmp_path).write(TOKENS[:50], STATE)
    for length in (100, 200):
        tier(tmp_path).write(TOKENS[:length], STATE, is_tail=True)
        tier(tmp_path).write((*TOKENS[:60], 7, *range(length)), STATE, is_tail=True)
    tier(tmp_path, "another model").write(TOKENS[:150], STATE, is_tail=True)
    tier(tmp_path).write(TOKENS[:300], STATE, is_tail=True)
    left = tier(tmp_path)
    assert [length for length in (50, 100, 200, 300) if left.holds(TOKENS[:length])] == [50, 300]
    assert [length for length in (100, 200) if left.holds((*TOKENS[:60], 7, *range(length)))] == [200]
    assert tier(tmp_path, "another model").holds(TOKENS[:150])


def test_a_longer_state_that_could_not_be_written_takes_nobodys_place(tmp_path: Path) -> None:
    tier(tmp_path).write(TOKENS[:100], STATE, is_tail=True)
    tier(tmp_path, most_bytes=7000).write(TOKENS, STATE * 2, is_tail=True)
    assert tier(tmp_path).holds(TOKENS[:100])


def test_the_rest_of_a_beginning_takes_the_place_of_its_parts(tmp_path: Path) -> None:
    kept = tier(tmp_path)
    for length in (100, 200, 300):
        kept.write(TOKENS[:length], STATE)
    assert usage(tmp_path).entries == 1
    kept.write(TOKENS, STATE, is_tail=True)
    assert usage(tmp_path).entries == 2, "a tail goes with its conversation, which others may not belong to"


def test_what_other_processes_write_and_clear_meanwhile_is_seen(tmp_path: Path) -> None:
    early = tier(tmp_path)
    assert early.find(TOKENS) == (None, 0)
    tier(tmp_path).write(TOKENS, STATE)
    assert early.find(TOKENS)[1] == len(TOKENS)
    clear(tmp_path)
    assert not early.holds(TOKENS)
    early.write(TOKENS, STATE)
    assert early.holds(TOKENS)


def test_a_conversation_that_is_removed_takes_its_own_states_with_it_and_no_others(tmp_path: Path) -> None:
    preamble, private, other = TOKENS[:50], TOKENS[:200], (*TOKENS[:120], 7, 8, 9)
    tier(tmp_path).write(preamble, STATE)
    for tokens in (other, private[:100], private):
        tier(tmp_path, "a model").write(tokens, STATE, is_tail=True)
    tier(tmp_path, "another model").write(private[:180], STATE, is_tail=True)
    (tmp_path / ".writing-abc").write_bytes(b"x" * 100)
    tier(tmp_path).write(private[:110], STATE, is_tail=True)
    deleted = forget_conversation(tmp_path, [private[:90], private], [other])
    assert deleted.entries == 3
    assert tier(tmp_path).holds(preamble)
    assert tier(tmp_path, "a model").holds(other)
    assert tier(tmp_path).holds(private[:110]), "the other conversation goes on from it as well"
    assert usage(tmp_path).entries == 3


def test_the_folder_stays_under_its_cap_and_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    capped = tier(tmp_path, most_bytes=20_000)
    for start in range(3):
        capped.write((start, *TOKENS[:200]), STATE)
        os.utime(max(tmp_path.glob("*.kv"), key=os.path.getmtime), (start, start))
    entry, _ = capped.find((0, *TOKENS))
    assert entry is not None
    assert capped.read(entry) == STATE
    capped.write((7, *TOKENS[:200]), STATE)
    assert usage(tmp_path).bytes <= 20_000
    assert [capped.find((start, *TOKENS))[1] > 0 for start in (0, 1, 2, 7)] == [True, False, True, True]


def test_what_is_larger_than_the_cap_is_not_written(tmp_path: Path) -> None:
    tier(tmp_path, most_bytes=4000).write(TOKENS, STATE)
    assert usage(tmp_path) == DiskUsage(0, 0)


@pytest.mark.parametrize("most_bytes", [0, 4000, 13_000])
def test_a_lower_cap_holds_from_the_next_start_on(tmp_path: Path, most_bytes: int) -> None:
    for start in range(3):
        tier(tmp_path).write((start, *TOKENS[:200]), STATE)
    tier(tmp_path, "another model", most_bytes)
    assert usage(tmp_path).entries == most_bytes // 6000


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    tier(tmp_path / "inner").write(TOKENS, STATE)
    tmp_path.chmod(0o700)
    assert usage(tmp_path / "inner") == DiskUsage(0, 0)


def test_a_folder_that_is_a_file_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("")
    tier(path).write(TOKENS, STATE)
    assert usage(path) == DiskUsage(0, 0)


def test_what_a_killed_process_left_half_written_goes_with_the_next_start_but_not_what_is_being_written(
    tmp_path: Path,
) -> None:
    old, new = tmp_path / ".writing-old", tmp_path / ".writing-new"
    for path in (old, new):
        path.write_bytes(b"x" * 100)
    os.utime(old, (time.time() - 3600,) * 2)
    tier(tmp_path)
    assert not old.exists()
    assert new.exists()


def test_what_a_killed_process_left_half_written_is_counted_and_cleared(tmp_path: Path) -> None:
    (tmp_path / ".writing-abc").write_bytes(b"x" * 100)
    tier(tmp_path).write(TOKENS, STATE)
    assert usage(tmp_path).entries == 2
    assert clear(tmp_path).entries == 2
    assert usage(tmp_path) == DiskUsage(0, 0)


def test_a_folder_that_is_cleared_while_something_is_written_costs_that_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = os.replace

    def cleared_before(source: str | Path, target: str | Path) -> None:
        clear(tmp_path)
        replace(source, target)

    written = tier(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", cleared_before)
        written.write(TOKENS, STATE)
    assert not written.holds(TOKENS)
    written.write(TOKENS, STATE)
    assert written.holds(TOKENS)


def test_a_write_that_the_disk_has_no_room_for_leaves_nothing(tmp_path: Path) -> None:
    program = (
        "import resource, signal, sys\n"
        "from pathlib import Path\n"
        "from khepri.engine.disk import DiskTier\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "tier = DiskTier(Path(sys.argv[1]), 'context', 10**9)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))\n"
        "tier.write(range(500), bytes(300_000))\n"
        "assert not tier.holds(range(500))\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=300)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_under_the_name_of_an_entry_is_left_alone(tmp_path: Path) -> None:
    tier(tmp_path).write(TOKENS, STATE)
    (tmp_path / "mine.kv").mkdir()
    assert clear(tmp_path).entries == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine.kv"]


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    stop = threading.Event()

    def write() -> None:
        written = tier(tmp_path)
        while not stop.is_set():
            written.write(TOKENS, STATE * 200)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        deadline = time.monotonic() + 0.5
        while time.monotonic() < deadline:
            reader = tier(tmp_path)
            entry, _ = reader.find(TOKENS)
            assert entry is None or reader.read(entry) == STATE * 200
    finally:
        stop.set()
        writer.join()


def test_lookups_are_added_up_over_processes(tmp_path: Path) -> None:
    for restored in (0, 400, 300):
        counted = tier(tmp_path)
        counted.count_lookup(restored)
        counted.write(TOKENS, STATE)
        counted.save_statistics()
        counted.save_statistics()
    statistics = read_statistics(tmp_path)
    assert (statistics.lookups, statistics.hits, statistics.restored_tokens) == (3, 2, 700)
    clear(tmp_path)
    assert read_statistics(tmp_path).lookups == 0


def test_figures_that_find_no_folder_any_more_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = tier(tmp_path / "folder")
    counted.count_lookup(1)

    def vanish(source: str, target: Path) -> None:
        shutil.rmtree(tmp_path / "folder")
        raise FileNotFoundError(target)

    monkeypatch.setattr(os, "replace", vanish)
    counted.save_statistics()
    assert not (tmp_path / "folder").exists()


def test_lookups_of_processes_that_end_together_are_all_counted(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    script = (
        "import sys, pathlib; from khepri.engine.disk import DiskTier\n"
        "for _ in range(40):\n"
        "    tier = DiskTier(pathlib.Path(sys.argv[1]), 'one model', 10**9)\n"
        "    tier.count_lookup(1)\n"
        "    tier.save_statistics()"
    )
    with ExitStack() as stack:
        commands = 3 * [[sys.executable, "-c", script, os.fspath(folder)]]
        processes = [stack.enter_context(subprocess.Popen(command)) for command in commands]
        assert [process.wait(300) for process in processes] == [0, 0, 0]
    assert read_statistics(folder) == DiskStatistics(120, 120, 120)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "written",
    [
        '{"lookups": 3, "hits": 9}',
        '{"lookups": true, "hits": true}',
        '{"lookups": 3, "hits": 1, "restored_tokens": -5}',
        '{"lookups": "3"}',
        "[]",
    ],
)
def test_figures_that_cannot_be_count_as_none(tmp_path: Path, written: str) -> None:
    (tmp_path / "statistics.json").write_text(written)
    assert read_statistics(tmp_path) == DiskStatistics()


@pytest.mark.parametrize("place", [0, 1, 31, len(TOKENS) - 33, len(TOKENS) - 1])
def test_a_state_counts_only_up_to_where_the_prompt_parts_from_it(tmp_path: Path, place: int) -> None:
    kept = tier(tmp_path)
    kept.write(TOKENS, STATE)
    entry, length = kept.find((*TOKENS[:place], 99_999, *TOKENS[place + 1 :]))
    assert length == place, "equal tokens behind another beginning mean nothing"
    assert (entry is None) is (place == 0)
