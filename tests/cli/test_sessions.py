"""``khepri sessions remove``: what belongs to a conversation alone goes with it, in this process and on real files."""

from pathlib import Path

import pytest

from khepri import paths
from khepri.agent.recording import Recording
from khepri.agent.task import Question
from khepri.cli import sessions
from khepri.engine.disk import DiskTier
from khepri.errors import UsageError

PREAMBLE = tuple(range(100, 200))
SHARED = (*PREAMBLE, *range(50))
OWN = (*SHARED, *range(200, 300))


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    root = tmp_path / "repository"
    root.mkdir()
    return root


def tier() -> DiskTier:
    return DiskTier(paths.prefixes_dir(), "context", 10**9)


def told(repository: Path, name: str, *prompts: tuple[int, ...]) -> Recording:
    """Return the recording of a conversation whose prompt grew so, each of its states being on the disk."""
    recording = Recording(paths.sessions_dir(repository) / f"{name}.jsonl", repository, "tiny")
    for ids in prompts:
        recording.question(Question("Where?"))
        recording.tokens(ids, len(PREAMBLE))
        tier().write(ids[:-1], b"state", is_tail=True)
    return recording


def test_a_conversation_that_is_removed_leaves_nothing_but_what_others_share(repository: Path) -> None:
    tier().write(PREAMBLE, b"state")
    one = told(repository, "one", SHARED)
    told(repository, "two", SHARED).close()
    one.question(Question("And?"))
    one.tokens(OWN, len(PREAMBLE))
    DiskTier(paths.prefixes_dir(), "another model", 10**9).write(OWN[:-1], b"state", is_tail=True)
    one.close()
    sessions.remove(repository, "one")
    left = [file.read_bytes() for file in paths.prefixes_dir().glob("*.kv")]
    assert not any(OWN[-2].to_bytes(4, "little") in data for data in left)
    assert (tier().holds(PREAMBLE), tier().holds(SHARED[:-1])) == (True, True)
    sessions.remove(repository, "two")
    assert (tier().holds(PREAMBLE), tier().holds(SHARED[:-1])) == (True, False)
    assert not list(paths.sessions_dir(repository).iterdir())


def test_turns_are_counted_in_words_that_fit(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(repository, "one", OWN).close()
    told(repository, "two", OWN, OWN).close()
    sessions.list_all(repository, False)
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert "  1 turn  " in lines["one"]
    assert "  2 turns  " in lines["two"]


def test_a_conversation_that_is_open_elsewhere_is_not_removed_as_it_would_be_written_again(repository: Path) -> None:
    open_elsewhere = told(repository, "one", OWN)
    with pytest.raises(UsageError, match="open in another Khepri"):
        sessions.remove(repository, "one")
    assert tier().holds(OWN[:-1])
    open_elsewhere.close()
    sessions.remove(repository, "one")
    assert not tier().holds(OWN[:-1])


def test_an_answer_that_goes_on_elsewhere_is_exported_as_unfinished(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recording = Recording(paths.sessions_dir(repository) / "one.jsonl", repository, "tiny")
    recording.question(Question("Where?"))
    sessions.export_one(repository, "one", as_json=False)
    assert "**Unfinished: " in capsys.readouterr().out
    recording.close()
    sessions.export_one(repository, "one", as_json=False)
    assert "**Khepri ended before the answer did.**" in capsys.readouterr().out


@pytest.mark.parametrize("as_json", [False, True])
def test_what_is_exported_does_nothing_to_a_terminal_wherever_it_goes(
    repository: Path, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    recording = Recording(paths.sessions_dir(repository) / "one.jsonl", repository, "tiny")
    recording.question(Question("Where?\x1b]0;another title\x07\x9b2J"))
    recording.close()
    sessions.export_one(repository, "one", as_json)
    sessions.list_all(repository, as_json)
    said = capsys.readouterr().out
    assert not set("\x1b\x07\x9b") & set(said)
    assert "Where?" in said
