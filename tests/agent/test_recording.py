"""The session file: nothing that was written is lost, whatever happens to its end, and it says what was said."""

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from khepri.agent.events import AnswerDelta, Compacted, Finished, Notice, Timing, ToolFinished, Usage
from khepri.agent.export import ExportFormat, export
from khepri.agent.history import History, NotSummarised, prompts_of, replay
from khepri.agent.journal import Journal, read_records
from khepri.agent.recording import Recording, find_session, list_sessions, new_path
from khepri.agent.task import Attachment, Question
from khepri.errors import CancelledError, DecodeError, UsageError

STEP = ToolFinished(1, "read", {"path": "a.py"}, "a.py:1-2", 10, 1.5, False, "1: é\x1b[31m")
FINISHED = Finished(
    "It is here.", (STEP,), Usage(10, 5, 3), Timing(1.0, 2.0, 3.0, 4.0, 0.5, 6.0, 7.0), "tiny", "answered"
)


def recording(tmp_path: Path, name: str = "20260102-030405-abcd") -> Recording:
    return Recording(tmp_path / "sessions" / f"{name}.jsonl", tmp_path, "tiny")


def say(told: Recording, text: str, ids: tuple[int, ...]) -> None:
    told.question(Question(text))
    told.witness(STEP)
    told.witness(AnswerDelta("It is ", 1, 30.0))
    told.witness(AnswerDelta("here.", 2, 30.0))
    told.tokens(ids, 1)
    told.witness(FINISHED)


def test_what_was_said_is_there_after_it_was_opened_again(tmp_path: Path) -> None:
    told = recording(tmp_path)
    told.question(Question("Where?", (Attachment("stdin", "x"),), ("a.py",)))
    told.witness(Notice("careful", is_warning=True))
    told.close()
    say(told, "And what?", (1, 2, 3))
    live = told.history
    told.close()
    again = recording(tmp_path).history
    assert again == live
    assert again.turns[0].question == Question("Where?", (Attachment("stdin", "x"),), ("a.py",))
    assert again.turns[0].notices == [Notice("careful", is_warning=True)]
    assert again.turns[1].answer == "It is here."
    assert again.turns[1].steps == [STEP]
    assert again.turns[1].finished == FINISHED
    assert again.prompt == (1, 2, 3)
    again.check_integrity()


def test_all_that_the_prompt_ever_was_is_known_when_the_session_is_removed(tmp_path: Path) -> None:
    told = recording(tmp_path)
    for ids in ((1, 2), (1, 2, 3, 4)):
        say(told, "More?", ids)
    told.append("rewind", turns=1)
    say(told, "Other?", (1, 2, 5))
    told.witness(Compacted("all of it", 2, 100, 10))
    say(told, "And?", (1, 9))
    told.append("model", model="another")
    say(told, "And?", (8, 8))
    assert prompts_of(read_records(told.path)) == [(1, 2), (1, 2, 3, 4), (1, 2, 5), (1, 9), (8, 8)]


def test_the_file_is_for_the_user_alone_and_appears_with_the_first_question(tmp_path: Path) -> None:
    told = recording(tmp_path)
    assert not told.path.exists()
    told.question(Question("Where?"))
    assert stat.S_IMODE(told.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(told.path.parent.stat().st_mode) == 0o700


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 400))
def test_a_torn_end_loses_only_what_was_torn(tmp_path_factory: pytest.TempPathFactory, kept: int) -> None:
    tmp_path = tmp_path_factory.mktemp("torn")
    told = recording(tmp_path)
    say(told, "One?", (1, 2))
    whole = told.path.stat().st_size
    say(told, "Two?", (1, 2, 3, 4))
    told.close()
    os.truncate(told.path, min(whole + kept, told.path.stat().st_size))
    again = recording(tmp_path)
    again.history.check_integrity()
    assert again.history.turns[0].finished == FINISHED
    assert again.history.prompt in ((1, 2), (1, 2, 3, 4))
    say(again, "Three?", (1, 2, 9))
    again.close()
    journal = Journal(told.path, lambda: 0.0, lambda record: None)
    journal.check_integrity()
    journal.close()
    last = recording(tmp_path).history
    assert last.turns[-1].question.text == "Three?"
    assert last.prompt == (1, 2, 9)
    assert len(last.turns) in (2, 3)


def test_an_answer_that_grows_is_on_disk_before_it_ends(tmp_path: Path) -> None:
    now_s = [0.0]
    records: list[object] = []
    journal = Journal(tmp_path / "s.jsonl", lambda: now_s[0], records.append)
    journal.event(AnswerDelta("one ", 1, 1.0))
    assert records == []
    now_s[0] = 2.0
    journal.event(AnswerDelta("two ", 2, 1.0))
    assert records == [{"kind": "answer", "text": "one two "}]
    journal.close()


def test_a_turn_that_the_process_did_not_survive_is_told_again(tmp_path: Path) -> None:
    told = recording(tmp_path)
    say(told, "One?", (1, 2))
    told.question(Question("Two?"))
    told.close()
    history = recording(tmp_path).history
    assert [turn.question.text for turn in history.untold] == ["Two?"]
    assert history.turns[1].finished is None


def test_turns_are_taken_back_with_their_tokens(tmp_path: Path) -> None:
    told = recording(tmp_path)
    for number in range(1, 4):
        say(told, f"{number}?", tuple(range(number * 2)))
    told.append("rewind", turns=1)
    assert [turn.question.text for turn in told.history.turns] == ["1?"]
    assert told.history.prompt == (0, 1)
    say(told, "Other?", (0, 1, 7))
    told.close()
    assert recording(tmp_path).history == told.history


def test_a_summary_stands_for_the_turns_before_and_goes_when_they_are_taken_back_to(tmp_path: Path) -> None:
    told = recording(tmp_path)
    say(told, "One?", (1, 2))
    told.question(Question("Two?"))
    told.witness(Compacted("We spoke of one.", 1, 900, 40))
    assert [turn.question.text for turn in told.history.untold] == ["Two?"]
    told.tokens((8, 9), 1)
    told.witness(FINISHED)
    history = told.history
    assert (history.summary.text, history.prompt, history.untold) == ("We spoke of one.", (8, 9), [])
    told.append("rewind", turns=1)
    assert (history.summary.text, history.prompt) == ("", (1, 2))


def summarised_thrice(tmp_path: Path) -> Recording:
    """Return a session with a summary that made room, one that was stopped, and one that was asked for."""
    told = recording(tmp_path)
    say(told, "One?", (1, 2))
    told.question(Question("Two?"))
    told.witness(Compacted("MADE ROOM", 1, 900, 40))
    told.witness(STEP)
    told.witness(AnswerDelta("It is here.", 2, 30.0))
    told.tokens((8, 9), 1)
    told.witness(FINISHED)
    told.append("compact")
    told.witness(CancelledError("interrupted"))
    told.append("compact")
    told.witness(Compacted("ASKED FOR", 2, 900, 40))
    return told


def test_a_document_has_a_summary_where_it_was_written_and_blames_no_answer_for_one_that_was_stopped(
    tmp_path: Path,
) -> None:
    summarised_thrice(tmp_path).close()
    history = recording(tmp_path).history
    document = export(history, ExportFormat.MARKDOWN)
    (*_, second) = document.split("## ")
    told = ("Two?", "MADE ROOM", "- `read", "It is here.", "tokens/s", "not summarised:** interrupted", "ASKED FOR")
    places = [second.index(words) for words in told]
    assert places == sorted(places)
    assert "Failed" not in document
    last = json.loads(export(history, ExportFormat.JSON))["turns"][-1]
    assert (last["failure"], last["ending"], last["summary"]) == ("", "", "ASKED FOR")


def test_a_summary_that_was_stopped_is_no_failure_of_a_turn_that_khepri_ended_within(tmp_path: Path) -> None:
    told = recording(tmp_path)
    told.question(Question("One?"))
    told.append("compact")
    told.witness(CancelledError("interrupted"))
    (turn,) = told.history.turns
    assert (turn.failure, turn.ending) == ("", "Khepri ended before the answer did")
    assert turn.afterwards == [NotSummarised("interrupted")]


def test_a_summary_that_was_stopped_blames_no_answer_in_sessions_from_before(tmp_path: Path) -> None:
    told = recording(tmp_path)
    say(told, "One?", (1, 2))
    told.witness(CancelledError("interrupted"))
    assert told.history.turns[0].failure == ""


def test_a_failure_is_part_of_the_session(tmp_path: Path) -> None:
    told = recording(tmp_path)
    told.question(Question("One?"))
    told.witness(DecodeError("it broke", "try again"))
    assert told.history.turns[0].failure == "it broke\ntry again"


def test_another_model_has_no_tokens_and_is_told_everything_again(tmp_path: Path) -> None:
    told = recording(tmp_path)
    say(told, "One?", (1, 2))
    told.append("model", model="other")
    assert (told.history.model, told.history.prompt, len(told.history.untold)) == ("other", (), 1)


def test_a_session_is_written_by_one_process_at_a_time(tmp_path: Path) -> None:
    told = recording(tmp_path)
    say(told, "One?", (1,))
    with pytest.raises(UsageError, match="open in another"):
        recording(tmp_path)
    told.close()
    recording(tmp_path).close()


def test_a_copy_goes_its_own_way(tmp_path: Path) -> None:
    told = recording(tmp_path)
    say(told, "One?", (1,))
    copy = told.fork(new_path(told.path.parent))
    say(copy, "Two?", (1, 2))
    assert len(told.history.turns) == 1
    assert len(copy.history.turns) == 2


def test_sessions_are_listed_latest_first_and_found_by_the_beginning_of_their_id(tmp_path: Path) -> None:
    folder = tmp_path / "sessions"
    for day in ("20260101-000000-aaaa", "20260102-000000-bbbb"):
        told = recording(tmp_path, day)
        say(told, f"What of {day}?", (1,))
        told.close()
    os.utime(folder / "20260101-000000-aaaa.jsonl", (1, 1))
    (folder / "20260103-000000-cccc.jsonl").write_text('{"kind": "session"', encoding="utf-8")
    infos = list_sessions(folder)
    assert [info.session_id for info in infos] == ["20260102-000000-bbbb", "20260101-000000-aaaa"]
    assert infos[0].title == "What of 20260102-000000-bbbb?"
    assert find_session(folder, "20260102").stem == "20260102-000000-bbbb"
    for name in ("2026", "nothing"):
        with pytest.raises(UsageError):
            find_session(folder, name)


def test_records_that_make_no_sense_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    lines = [
        {"kind": "step"},
        {"kind": "tokens", "start": 5, "ids": [1], "stable": 0},
        {"kind": "finished"},
        {"kind": "later"},
        [1],
    ]
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\nnot json\n\xff\n", encoding="utf-8")
    assert replay("s", read_records(path)) == History("s")


def test_figures_and_texts_of_another_type_are_passed_over(tmp_path: Path) -> None:
    told = recording(tmp_path)
    say(told, "One?", (1,))
    told.close()
    before = replay("s", read_records(told.path))
    [finished] = [record for record in read_records(told.path) if record["kind"] == "finished"]
    strange = [
        {**finished, "usage": {**finished["usage"], "prompt_tokens": "many"}},  # type: ignore[dict-item]
        {**finished, "timing": {**finished["timing"], "total_ms": {}}},  # type: ignore[dict-item]
        {**finished, "drafts": [{"drafter": 7, "drafted": 1, "accepted": 1}]},
        {"kind": "question", "text": "Two?", "attachments": [{"name": 5, "text": 7}]},
    ]
    with told.path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in strange)
    assert replay("s", read_records(told.path)) == before


def test_a_session_of_a_later_khepri_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text(json.dumps({"kind": "session", "format": 99}) + "\n", encoding="utf-8")
    with pytest.raises(UsageError, match="later Khepri"):
        read_records(path)


def test_a_session_that_cannot_be_saved_is_told_and_the_talk_goes_on(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_text("a file where the folder should be")
    told = recording(tmp_path)
    say(told, "One?", (1,))
    told.witness(DecodeError("the pass failed"))
    assert "cannot be saved: Not a directory" in told.problem or "cannot be saved: File exists" in told.problem
    assert told.history.turns[0].answer == "It is here."
    told.close()


def test_what_keeps_a_session_from_being_opened_is_no_second_failure(tmp_path: Path) -> None:
    late, first = recording(tmp_path), recording(tmp_path)
    say(first, "One?", (1,))
    with pytest.raises(UsageError, match="open in another") as refused:
        late.question(Question("Two?"))
    late.witness(refused.value)
    first.close()


@pytest.mark.parametrize("damage", ["a torn line", ""])
def test_a_disk_that_fails_under_a_session_is_told_once_it_is_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    told = recording(tmp_path)
    say(told, "One?", (1,))
    told.close()
    with told.path.open("a") as file:
        file.write(damage)

    def fail(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write" if damage else "fsync", fail)
    again = recording(tmp_path)
    say(again, "Two?", (1, 2))
    assert f"{again.path} cannot be written (No space left on device); the conversation goes on" in again.problem
    assert again.history.turns[1].answer == "It is here."


def test_a_full_disk_is_told_and_the_talk_goes_on(tmp_path: Path) -> None:
    told = recording(tmp_path)
    say(told, "One?", (1,))
    assert told._journal is not None
    os.close(told._journal._file)
    told._journal._file = os.open("/dev/full", os.O_WRONLY)
    say(told, "Two?", (1, 2))
    assert "not saved any more" in told.problem
    assert told.history.turns[1].answer == "It is here."
