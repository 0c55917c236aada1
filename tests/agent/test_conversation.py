"""Conversations on a real engine with a tiny model: resumed, forked, taken back, summarised, exported."""

import json
import resource
import shutil
import subprocess
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from khepri import paths
from khepri.agent.commands import COMMANDS, Outcome, Wish, find_command, is_command, run_command
from khepri.agent.compact import NO_SUMMARY
from khepri.agent.conversation import Conversation
from khepri.agent.events import (
    ChangesApplied,
    CheckFinished,
    Compacted,
    Compacting,
    Event,
    Finished,
    Notice,
    PlanMade,
    ReviewRequested,
    StepFinished,
    Thinking,
    Timing,
    ToolFinished,
    Usage,
)
from khepri.agent.export import ExportFormat, export
from khepri.agent.loop import AgentLoop
from khepri.agent.protocol import ToolCall
from khepri.agent.recording import Recording, new_path
from khepri.agent.session import Session
from khepri.agent.task import Attachment, Question
from khepri.config import Config
from khepri.edits.apply import apply
from khepri.edits.change import ChangeSet, FileChange
from khepri.edits.checkpoints import Checkpoints
from khepri.edits.review import Decision
from khepri.engine.job import Job
from khepri.engine.request import Request
from khepri.engine.worker import EngineWorker
from khepri.errors import CancelledError, ContextFullError, KhepriError, NoModelError, ToolError, UsageError
from khepri.models import stores
from khepri.repo.root import Repository
from khepri.repo.text import printable
from tests.support.tiny_model import write_tiny_model

MakeConversation = Callable[..., Conversation]
REQUEST = "Write down for yourself"
"""What the model is asked for when the conversation is summarised."""

pytestmark = pytest.mark.usefixtures("own_folders")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    (root / "retry.py").write_text("def retry(limit):\n    return limit - 1\n", encoding="utf-8")
    return root


@pytest.fixture
def prompts(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The prompt of every job that was given to an engine, in order."""
    seen: list[tuple[int, ...]] = []
    submit = EngineWorker.submit

    def noting(worker: EngineWorker, request: Request) -> Job:
        seen.append(request.prompt)
        return submit(worker, request)

    monkeypatch.setattr(EngineWorker, "submit", noting)
    return seen


@pytest.fixture
def make(root: Path, endless_model: Path) -> MakeConversation:
    def make(session: str | None = None, *, use_tools: bool = False, **changes: object) -> Conversation:
        values = {"max_tokens": 16, "threads": 1, "extra_buffers": "off", "map_tokens": 60, **changes}
        config = Config(**values)  # type: ignore[arg-type]
        repository = Repository.open(root)

        def open_session(name: str) -> Session:
            return Session(repository, config, stores.find(name or str(endless_model)), use_tools=use_tools)

        conversation = Conversation(repository, config, open_session, session)
        conversation.open()
        return conversation

    return make


def ask(conversation: Conversation, text: str) -> list[Event]:
    return list(conversation.submit(Question(text)).events())


def test_a_resumed_conversation_goes_on_with_the_very_tokens_from_before(
    make: MakeConversation, prompts: list[tuple[int, ...]]
) -> None:
    first = make()
    ask(first, "Where is retry?")
    told = first.history.prompt
    first.close()
    again = make(first.history.session_id)
    ask(again, "And then?")
    again.close()
    assert prompts[-1][: len(told)] == told
    assert len(told) > len(prompts[0])


def test_where_nothing_can_be_saved_the_talk_goes_on_and_says_so(make: MakeConversation, tmp_path: Path) -> None:
    (tmp_path / "STATE").write_text("a file where the folder should be")
    conversation = make()
    for text in ("One?", "Two?"):
        assert isinstance(ask(conversation, text)[-1], Finished)
    assert "cannot be saved" in conversation.problem
    assert [turn.question.text for turn in conversation.history.turns] == ["One?", "Two?"]
    conversation.close()


def test_a_session_that_another_khepri_took_meanwhile_is_a_failure_and_no_silence(make: MakeConversation) -> None:
    conversation = make()
    other = Recording(conversation._recording.path, Path(), "a model")
    other.question(Question("Mine?"))
    with pytest.raises(UsageError, match="open in another"):
        ask(conversation, "Or mine?")
    other.close()
    conversation.close()


@pytest.mark.parametrize("strange", [-5, 999_999_999])
def test_ids_that_are_none_of_the_models_are_told_as_text(
    make: MakeConversation, prompts: list[tuple[int, ...]], strange: int
) -> None:
    first = make()
    ask(first, "Where is retry?")
    first._recording.tokens((*first.history.prompt, strange), first.history.stable_tokens)
    first.close()
    again = make(first.history.session_id)
    session = again.session
    assert session is not None
    ask(again, "And then?")
    text = b"".join(session._engine.vocabulary.piece(token) for token in prompts[-1]).decode()
    again.close()
    assert text.index("Where is retry?") < text.index("And then?")


def test_a_turn_that_was_cut_off_is_told_as_text(make: MakeConversation, prompts: list[tuple[int, ...]]) -> None:
    first = make()
    ask(first, "Where is retry?")
    told = first.history.prompt
    first._recording.question(Question("Was I heard?"))
    first._recording.append("answer", text="You were")
    first.close()
    again = make(first.history.session_id)
    session = again.session
    assert session is not None
    ask(again, "And then?")
    vocabulary = session._engine.vocabulary
    text = b"".join(vocabulary.piece(token) for token in prompts[-1][len(told) :]).decode()
    again.close()
    assert text.index("Was I heard?") < text.index("You were") < text.index("And then?")


def test_what_a_command_printed_goes_with_the_next_question_and_again_when_that_is_taken_back(
    make: MakeConversation,
) -> None:
    conversation = make()
    conversation.run_shell("echo printed")
    conversation.add("retry.py")
    ask(conversation, "One?")
    ask(conversation, "Two?")
    first, second = (turn.question for turn in conversation.history.turns)
    assert [each.name for each in first.attachments] == ["output of echo printed"]
    assert first.mentions == ("retry.py",)
    assert not second.attachments
    conversation.rewind(2)
    ask(conversation, "Other?")
    (other,) = (turn.question for turn in conversation.history.turns)
    assert other.attachments == first.attachments


def test_what_a_command_printed_is_cut_so_that_the_question_fits_and_that_is_said(make: MakeConversation) -> None:
    conversation = make(context_tokens=2048)
    for word in ("one", "two"):
        conversation.run_shell(f"echo {word}; seq 5000; echo end of {word}")
    events = ask(conversation, "Why?")
    note = conversation.take_note()
    (turn,) = conversation.history.turns
    conversation.close()
    assert isinstance(events[-1], Finished)
    assert "only the beginning and the end of the output of echo one" in note
    for word, printed in zip(("one", "two"), turn.question.attachments, strict=True):
        assert printed.text.startswith(("[cut: about", word))
        assert printed.text.rstrip().endswith(f"end of {word}")
        assert "characters left out here]" in printed.text
        assert len(printed.text) < 600


@pytest.mark.parametrize("command", ["/new", "/resume", "/fork"])
def test_what_a_command_printed_belongs_to_its_conversation(make: MakeConversation, command: str) -> None:
    conversation = make()
    ask(conversation, "One?")
    if command == "/resume":
        command = f"/resume {conversation.history.session_id}"
        conversation.begin_anew()
    conversation.run_shell("echo printed")
    run(conversation, command)
    ask(conversation, "Two?")
    question = conversation.history.turns[-1].question
    conversation.close()
    assert len(question.attachments) == (command == "/fork")


def test_a_conversation_goes_on_with_its_own_model_if_that_is_still_there(
    root: Path, endless_model: Path, tmp_path: Path
) -> None:
    own = shutil.copyfile(endless_model, tmp_path / "own.gguf")
    other = shutil.copyfile(endless_model, tmp_path / "other.gguf")
    models = {"": endless_model, "own": own, "other": other}
    repository = Repository.open(root)

    def open_conversation(model: str, session: str | None) -> Conversation:
        config = Config(model=model, max_tokens=16, threads=1, extra_buffers="off", map_tokens=0)  # type: ignore[arg-type]

        def open_session(name: str) -> Session:
            if not (path := models.get(name)):
                raise NoModelError(f"there is no model {name}", "take another")
            return Session(repository, config, stores.find(str(path)), use_tools=False)

        conversation = Conversation(repository, config, open_session, session)
        conversation.open()
        return conversation

    first = open_conversation("own", None)
    ask(first, "One?")
    first.close()
    for asked_for, is_there, expected, is_said in (
        ("", True, "own", False),
        ("other", True, "other", True),
        ("", False, endless_model.stem, True),
    ):
        if not is_there:
            del models["own"], models["other"]
        again = open_conversation(asked_for, first.history.session_id)
        assert again.session is not None
        assert again.session.model.name == expected
        assert ("goes on with it" in again.take_note()) == is_said
        assert not again.take_note()
        again.close()


def test_a_fork_and_a_rewind_leave_what_was_said_elsewhere(make: MakeConversation) -> None:
    conversation = make()
    ask(conversation, "One?")
    original = conversation.history
    conversation.fork()
    assert conversation.history.session_id != original.session_id
    before = conversation.history.prompt
    ask(conversation, "Two?")
    assert conversation.rewind(1).question.text == "Two?"
    assert conversation.history.prompt == before
    ask(conversation, "Other?")
    assert [turn.question.text for turn in conversation.history.turns] == ["One?", "Other?"]
    assert [turn.question.text for turn in original.turns] == ["One?"]
    with pytest.raises(UsageError):
        conversation.rewind(3)
    conversation.close()
    assert len(make().sessions()) == 2


def test_taking_back_what_came_before_a_change_of_model_brings_none_of_the_old_models_ids_back(
    make: MakeConversation, prompts: list[tuple[int, ...]], tmp_path: Path
) -> None:
    conversation = make()
    ask(conversation, "One?")
    told = conversation.history.prompt
    ask(conversation, "Two?")
    conversation.unload(str(write_tiny_model(tmp_path / "other.gguf", seed=99)))
    conversation.open()
    ask(conversation, "Three?")
    conversation.rewind(2)
    conversation.history.check_integrity()
    session = conversation.session
    assert session is not None
    ask(conversation, "Four?")
    text = b"".join(session._engine.vocabulary.piece(token) for token in prompts[-1]).decode()
    conversation.close()
    assert prompts[-1][: len(told)] != told
    assert text.count("One?") == text.count("Four?") == 1
    assert "Two?" not in text


def test_a_full_context_is_summarised_once_and_visibly_and_the_file_keeps_everything(make: MakeConversation) -> None:
    conversation = make(context_tokens=2048, observation_tokens=64, max_tokens=64)
    happened: list[Event] = []
    for number in range(12):
        happened += ask(conversation, f"{number}: " + "what of this and that? " * 8)
        if any(isinstance(event, Compacted) for event in happened):
            break
    compacted = next(event for event in happened if isinstance(event, Compacted))
    assert any(isinstance(event, Compacting) for event in happened)
    assert f"{number - 1}: what of this" in compacted.summary
    assert NO_SUMMARY not in compacted.summary
    assert compacted.after_tokens < compacted.before_tokens
    history = conversation.history
    assert len(history.turns) == number + 1
    assert history.prompt
    history.check_integrity()
    events = ask(conversation, "Still there?")
    assert isinstance(events[-1], Finished)
    conversation.close()
    assert make(history.session_id).history == history


def test_what_no_summary_can_make_room_for_is_refused_with_counts(make: MakeConversation) -> None:
    conversation = make(context_tokens=1024, observation_tokens=64)
    ask(conversation, "One?")
    with pytest.raises(ContextFullError):
        ask(conversation, "x" * 3000)
    assert "tokens" in conversation.history.turns[-1].failure
    assert isinstance(ask(conversation, "Two?")[-1], Finished)
    conversation.close()


@pytest.mark.parametrize(("context_tokens", "mentions"), [(1024, ()), (8192, ("retry.py",))])
def test_a_question_that_fits_into_no_context_costs_the_conversation_nothing(
    make: MakeConversation, prompts: list[tuple[int, ...]], context_tokens: int, mentions: tuple[str, ...]
) -> None:
    conversation = make(context_tokens=context_tokens, observation_tokens=64, use_tools=bool(mentions))
    ask(conversation, "One?")
    told = conversation.history.prompt
    prompts.clear()
    for _ in range(2):
        with pytest.raises(ContextFullError):
            list(conversation.submit(Question("x" * 9000, mentions=mentions)).events())
    assert prompts == []
    assert not conversation.history.summary.text
    ask(conversation, "Two?")
    conversation.close()
    assert prompts[0][: len(told)] == told


def test_a_question_that_no_summary_leaves_room_for_is_refused_before_there_is_one(make: MakeConversation) -> None:
    conversation = make(context_tokens=1024, observation_tokens=64, use_tools=False)
    ask(conversation, "One? " + "y" * 180)
    refusals, happened = set[str](), list[Event]()
    for chars in range(900, 0, -20):
        try:
            for event in conversation.submit(Question("x" * chars)).events():
                happened.append(event)
            break
        except ContextFullError as error:
            refusals.add(error.message.partition(" with ")[2].partition(" and leaves")[0])
            assert not any(isinstance(event, Compacting) for event in happened)
            assert not conversation.history.summary.text
    assert refusals == {"its preamble", "its preamble and the least summary of the conversation"}
    assert any(isinstance(event, Compacted) for event in happened)
    assert isinstance(happened[-1], Finished)
    conversation.close()


def test_a_conversation_is_summarised_when_the_user_asks_and_goes_on_from_it(
    make: MakeConversation, prompts: list[tuple[int, ...]]
) -> None:
    conversation = make()
    nothing = run(conversation, "/compact").task
    assert nothing is not None
    with pytest.raises(UsageError):
        list(nothing.events())
    ask(conversation, "Where is retry?")
    started = run(conversation, "/compact")
    assert started.task is not None
    events = list(started.task.events())
    told, finished = [type(event) for event in events], events[-1]
    assert Thinking in told[told.index(Compacting) : told.index(Compacted)]  # it is seen how far the summary is
    assert isinstance(finished, Finished)
    assert finished.stop_reason == "compacted"
    answered = conversation.history.turns[-1].finished
    assert answered is not None  # the figures of the turn stay those of its answer
    assert answered.stop_reason != "compacted"
    ask(conversation, "And then?")
    session = conversation.session
    assert session is not None
    vocabulary = session._engine.vocabulary
    text = b"".join(vocabulary.piece(token) for token in prompts[-1]).decode()
    conversation.close()
    assert text.count("Where is retry?") == 1
    assert "Summary of our conversation" in text


@pytest.mark.parametrize("left_tokens", [0, 100])
def test_a_context_that_is_full_to_the_end_is_summarised_nevertheless(
    make: MakeConversation, prompts: list[tuple[int, ...]], left_tokens: int
) -> None:
    conversation = make(context_tokens=2048)
    ask(conversation, "Where is retry?")
    session = conversation.session
    assert session is not None
    told = session._context._prompt
    assert told is not None
    told.reply([session._engine.vocabulary.tokenize("x")[0]] * (2048 - left_tokens - len(told)))
    started = run(conversation, "/compact")
    assert started.task is not None
    summary = next(event.summary for event in started.task.events() if isinstance(event, Compacted))
    text = b"".join(session._engine.vocabulary.piece(token) for token in prompts[-1]).decode("utf-8", "replace")
    answer = conversation.history.turns[0].answer
    conversation.close()
    assert NO_SUMMARY not in summary
    assert prompts[-1][:1024] == told.ids[:1024]  # what is still in the cache
    assert f"Your last answer was:\n{answer[:20]}" in text
    assert text.count(REQUEST) == 1


LONG = 24
"""So many turns are too much for a context of 2048 tokens, and not for two."""


def record_talk(root: Path, *said: tuple[str, str], model: str = "another") -> str:
    """Write a session that another model held and return its id."""
    told = Recording(new_path(paths.sessions_dir(root)), root, model)
    for question, answer in said:
        told.question(Question(question))
        told.witness(Finished(answer, (), Usage(1, 1, 1), Timing(1, 1, 1, 1, None, 1, 1), model, "answered"))
    told.close()
    return told.path.stem


def texts_of(conversation: Conversation, prompts: list[tuple[int, ...]]) -> list[str]:
    """Return what each prompt says."""
    assert conversation.session is not None
    piece = conversation.session._engine.vocabulary.piece
    return [b"".join(map(piece, prompt)).decode("utf-8", "replace") for prompt in prompts]


def long_talk() -> list[tuple[str, str]]:
    return [(f"Question {number}: {'what of it? ' * 4}", f"Answer {number}: {'that. ' * 8}") for number in range(LONG)]


def test_a_talk_that_another_model_takes_over_is_summarised_in_parts_that_fit(
    make: MakeConversation, root: Path, prompts: list[tuple[int, ...]]
) -> None:
    conversation = make(record_talk(root, *long_talk()), context_tokens=2048, observation_tokens=64)
    events = ask(conversation, "And now?")
    texts = texts_of(conversation, prompts)
    summary = next(event.summary for event in events if isinstance(event, Compacted))
    conversation.history.check_integrity()
    conversation.close()
    assert isinstance(events[-1], Finished)
    assert max(map(len, prompts)) <= 2048
    assert NO_SUMMARY not in summary
    *parts, last = texts
    assert len(parts) > 1
    assert all(REQUEST in part for part in parts)
    assert all("Summary of our conversation" in part for part in parts[1:])
    for _, answer in long_talk():
        assert sum(answer in part for part in parts) == 1
    assert "And now?" in last
    assert summary.strip() in last


def test_a_summary_that_is_asked_for_right_after_another_model_was_chosen_is_one_of_what_was_said(
    make: MakeConversation, root: Path, prompts: list[tuple[int, ...]]
) -> None:
    conversation = make(record_talk(root, ("Where is retry?", "In retry.py."), ("And wait?", "In wait.py.")))
    events = compact(conversation)
    (asked,) = texts_of(conversation, prompts)
    with pytest.raises(UsageError, match="summarised already"):
        compact(conversation)
    conversation.close()
    assert sum(isinstance(event, Compacted) for event in events) == 1
    assert asked.index("Where is retry?") < asked.index("In wait.py.") < asked.index(REQUEST)


def compact(conversation: Conversation) -> list[Event]:
    task = run(conversation, "/compact").task
    assert task is not None
    return list(task.events())


def test_a_turn_that_is_longer_than_the_context_is_told_in_halves(
    make: MakeConversation, root: Path, prompts: list[tuple[int, ...]]
) -> None:
    lines = [f"line {number}" for number in range(400)]
    talk = ("Short?", "\n".join(lines)), ("\n".join(lines), "Short.")
    conversation = make(record_talk(root, *talk), context_tokens=2048, observation_tokens=64)
    events = ask(conversation, "And now?")
    parts = texts_of(conversation, prompts)[:-1]
    conversation.close()
    assert isinstance(events[-1], Finished)
    assert all(sum(part.count(f"{line}\n") + part.count(f"{line}<") for part in parts) >= 2 for line in lines)
    assert max(map(len, prompts)) <= 2048


def test_a_summary_in_parts_is_stopped_and_changes_nothing(
    root: Path, make: MakeConversation, prompts: list[tuple[int, ...]]
) -> None:
    conversation = make(record_talk(root, *long_talk()), context_tokens=2048, observation_tokens=64)
    before = conversation.path.read_bytes()
    started = run(conversation, "/compact").task
    assert started is not None
    events = started.events()
    while len(prompts) < 2:
        next(events)
    started.cancel()
    with pytest.raises(CancelledError):
        list(events)
    assert not conversation.history.summary.text
    assert len(conversation.history.untold) == LONG
    assert b'"compacted"' not in conversation.path.read_bytes()[len(before) :]
    conversation.close()


def test_a_context_that_has_become_smaller_is_told_anew(make: MakeConversation, prompts: list[tuple[int, ...]]) -> None:
    first = make(context_tokens=4096, max_tokens=64)
    for number in range(8):
        ask(first, f"{number}: {'what of this and that? ' * 8}")
    assert len(first.history.prompt) > 2048
    first.close()
    again = make(first.history.session_id, context_tokens=2048, observation_tokens=64)
    prompts.clear()
    events = ask(again, "And now?")
    texts = texts_of(again, prompts)
    again.close()
    assert isinstance(events[-1], Finished)
    assert all(any(f"{number}: what of" in text for text in texts) for number in range(8))
    assert max(map(len, prompts)) <= 2048


def test_what_was_summarised_before_another_model_came_is_told_by_its_summary_alone(
    make: MakeConversation, prompts: list[tuple[int, ...]], tmp_path: Path
) -> None:
    conversation = make()
    ask(conversation, "One?")
    compact(conversation)
    ask(conversation, "Two?")
    conversation.unload(str(write_tiny_model(tmp_path / "other.gguf", seed=99)))
    conversation.open()
    ask(conversation, "Three?")
    (text,) = texts_of(conversation, prompts[-1:])
    history = conversation.history
    conversation.rewind(1)
    ask(conversation, "Four?")
    (other,) = texts_of(conversation, prompts[-1:])
    conversation.close()
    for said, last in ((text, "Three?"), (other, "Four?")):
        assert said.count("One?") == 1  # in the summary's list of questions
        assert said.index("Summary of our conversation") < said.index("Two?") < said.index(last)
    history.check_integrity()


def test_turns_that_were_summarised_with_a_question_are_told_again_when_it_is_taken_back(
    make: MakeConversation, root: Path, prompts: list[tuple[int, ...]]
) -> None:
    conversation = make(record_talk(root, *long_talk()), context_tokens=2048, observation_tokens=64)
    ask(conversation, "And now?")
    assert not conversation.history.untold[:-1]
    conversation.rewind(1)
    conversation.history.check_integrity()
    assert len(conversation.history.untold) == LONG
    conversation.close()


def run(conversation: Conversation, line: str) -> Outcome:
    return run_command(conversation, line)


def test_a_change_is_written_down_and_is_no_part_of_the_talk(
    make: MakeConversation, prompts: list[tuple[int, ...]]
) -> None:
    first = make(context_tokens=4096)
    ask(first, "Where is retry?")
    told = first.history.prompt
    first.close()
    again = make(first.history.session_id, context_tokens=4096)
    outcome = run(again, "/refactor retry should add one")
    assert outcome.task is not None
    with suppress(KhepriError):
        for event in outcome.task.events():
            if isinstance(event, ReviewRequested):
                event.review.answer(Decision.reject())
    turn = again.history.turns[-1]
    assert turn.is_change
    assert turn.asked == "/refactor retry should add one"
    assert turn.finished is not None or turn.failure
    assert again.history.prompt == told
    again.history.check_integrity()
    ask(again, "And then?")
    assert prompts[-1][: len(told)] == told
    assert "retry should add one" in export(again.history, ExportFormat.MARKDOWN)
    again.close()
    assert make(again.history.session_id).history == again.history


def test_what_a_change_did_is_told_from_the_file_alone(root: Path) -> None:
    told = Recording(root / "one.jsonl", root, "tiny")
    told.change("rename it")
    told.witness(PlanMade(("rename a to b",)))
    told.witness(StepFinished(1, 1, "renamed a", is_refused=False))
    told.witness(ChangesApplied(1, ChangeSet("rename it", (FileChange("a.py", b"a\n", b"b\n"),))))
    told.witness(CheckFinished("pytest -q", False, "exit status 1", "1 failed", 12.0, ""))
    told.close()
    (turn,) = Recording(root / "one.jsonl", root, "tiny").history.turns
    assert [notice.text for notice in turn.notices] == ["1. rename a to b", "1 of 1: renamed a"]
    assert [(work.title, work.is_error) for work in turn.work] == [("wrote 1 file", False), ("check pytest -q", True)]
    assert "-a\n+b\n" in turn.work[0].text
    assert turn.work[1].text == "1 failed"


def test_files_are_added_once_and_dropped(make: MakeConversation, root: Path) -> None:
    (root / "src").mkdir()
    for name in ("one.py", "two words.py", "notes.txt"):
        (root / "src" / name).write_text("x = 1\n", encoding="utf-8")
    conversation = make()
    run(conversation, "/add retry.py")
    run(conversation, "/drop retry.py")
    assert not conversation.history.added
    run(conversation, "/add 'src/*.py' retry.py")
    assert list(conversation.history.added) == ["src/one.py", "src/two words.py", "retry.py"]
    for refused in ("/add src", "/add *.rs"):
        with pytest.raises(UsageError):
            run(conversation, refused)
    run(conversation, "/drop")
    assert not conversation.history.added
    with pytest.raises((UsageError, ToolError)):
        run(conversation, "/drop retry.py")
    with pytest.raises((UsageError, ToolError)):
        run(conversation, "/add ../outside.py")
    conversation.close()


def test_a_diff_shows_what_git_knows_and_without_git_what_khepri_has_changed(
    make: MakeConversation, root: Path
) -> None:
    conversation = make()
    assert "changed nothing" in run(conversation, "/diff").text
    changes = ChangeSet("change it", (FileChange("retry.py", (root / "retry.py").read_bytes(), b"def again(): ...\n"),))
    apply(conversation.repository, changes, Checkpoints(root, paths.checkpoints_dir()), 0.0)
    assert "+def again(): ..." in run(conversation, "/diff").text
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "retry.py"], cwd=root, check=True)
    (root / "new").mkdir()
    (root / "new" / "file.py").write_text("x = 1\n", encoding="utf-8")
    conversation.close()
    in_git = make()
    assert "+def again(): ..." in run(in_git, "/diff").text
    assert "Not in git yet: `new/`" in run(in_git, "/diff").text
    assert "new/" not in run(in_git, "/diff retry.py").text
    with pytest.raises(UsageError, match=r"there is no nowhere\.py"):
        run(in_git, "/diff nowhere.py")
    in_git.close()


EVIL = "a\x1b[2J\x1b]52;c;aGk=\x07\x9b31m\u202e\u2066\u2028\x7f\rb"


@pytest.mark.parametrize("wanted", ExportFormat)
def test_a_document_holds_nothing_that_steers_a_terminal(root: Path, wanted: ExportFormat) -> None:
    told = Recording(root / "one.jsonl", root, EVIL)
    told.append("added", path=EVIL)
    told.question(Question(EVIL, (Attachment(EVIL, EVIL),)))
    told.witness(ToolFinished(1, "read", {"path": EVIL}, EVIL, 3, 1.0, False, EVIL))
    told.witness(Notice(EVIL))
    told.witness(Finished(EVIL, (), Usage(1, 1, 1), Timing(1, 1, 1, 1, None, 1, 1), EVIL, "answered"))
    told.change(EVIL)
    told.witness(CheckFinished(EVIL, False, EVIL, EVIL, 1.0, ""))
    told.close()
    document = export(told.history, wanted)
    assert {char for char in document if unicodedata.category(char) in ("Cc", "Cf", "Zl", "Zp")} == {"\n"}
    if wanted is ExportFormat.JSON:
        assert json.loads(document)["turns"][0]["answer"] == EVIL


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Finished("", (), Usage(1, 1, 1), Timing(1, 1, 1, 1, None, 1, 1), "tiny", "interrupted"), "Stopped."),
        (Finished("", (), Usage(1, 1, 1), Timing(1, 1, 1, 1, None, 1, 1), "tiny", "max_tokens"), "cut at max_tokens"),
        (CancelledError("interrupted"), "**Failed:** interrupted"),
        (Notice("and then nothing came"), "Khepri ended before the answer did"),
    ],
    ids=["stopped", "cut", "stopped before its first word", "killed"],
)
def test_a_document_says_how_a_turn_ended(root: Path, event: Event | BaseException, words: str) -> None:
    told = Recording(root / "one.jsonl", root, "tiny")
    told.question(Question("why"))
    told.witness(event)
    told.close()
    assert words in export(told.history, ExportFormat.MARKDOWN)
    (turn,) = json.loads(export(told.history, ExportFormat.JSON))["turns"]
    assert turn["ending"] or turn["failure"]


def test_no_file_is_looked_at_for_what_was_said_before(
    root: Path, endless_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[int] = []
    run_loop = AgentLoop.run

    def noting(
        loop: AgentLoop, looks: Sequence[ToolCall], model: str, started_s: float, load_ms: float, *, untold: str
    ) -> Finished:
        looked.append(len(looks))
        return run_loop(loop, looks, model, started_s, load_ms, untold=untold)

    monkeypatch.setattr(AgentLoop, "run", noting)
    config = Config(max_tokens=8, steps=1, threads=1, extra_buffers="off")  # type: ignore[arg-type]
    repository = Repository.open(root)
    conversation = Conversation(
        repository, config, lambda name: Session(repository, config, stores.find(str(endless_model)))
    )
    conversation.open()
    for question in ("What did I ask of retry?", "What did I ask of retry?", "Where is retry?"):
        with suppress(KhepriError):
            ask(conversation, question)
    conversation.close()
    assert looked == [1, 0, 1], "there was nothing to recall yet, then there was, then the code was meant"


def test_a_document_says_that_an_answer_still_goes_on(make: MakeConversation, root: Path) -> None:
    conversation = make(max_tokens=2000)
    task = conversation.submit(Question("Where is retry?"))
    next(task.events())
    run(conversation, "/export told.md")
    task.cancel()
    with suppress(CancelledError):
        list(task.events())
    run(conversation, "/export later.md")
    told, later = ((root / f"{name}.md").read_text(encoding="utf-8") for name in ("told", "later"))
    assert "**Unfinished: " in told
    assert "ended before" not in told
    assert "Unfinished" not in later
    conversation.close()


def test_an_export_for_which_the_disk_has_no_room_leaves_no_half_of_it(make: MakeConversation, root: Path) -> None:
    conversation = make()
    ask(conversation, "Where is retry?")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(UsageError, match=r"told.md cannot be written: File too large; nothing was exported"):
            run(conversation, "/export told.md")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (root / "told.md").exists()


def test_a_session_is_exported_as_markdown_and_json_and_never_over_a_file(make: MakeConversation, root: Path) -> None:
    conversation = make()
    with pytest.raises((UsageError, ToolError)):
        run(conversation, "/export")
    ask(conversation, "Where is `retry`?")
    before = conversation.repository.files()
    run(conversation, "/export out.md")
    run(conversation, "/export json out.json")
    run(conversation, "/export json told")
    with pytest.raises(UsageError, match="no name for a document"):
        run(conversation, "/export out.py")
    with pytest.raises((UsageError, ToolError)):
        run(conversation, "/export out.md")
    first, second = (run(conversation, "/export").text for _ in range(2))
    assert first != second
    exports = list(root.glob("khepri-*.md"))
    assert len(exports) == 2
    assert {path.stat().st_mode & 0o777 for path in (*exports, root / "out.md", root / "out.json")} == {0o600}
    conversation.repository.refresh()
    assert conversation.repository.files() == before
    text = (root / "out.md").read_text(encoding="utf-8")
    assert "Where is `retry`?" in text
    assert printable(conversation.history.turns[0].answer) in text
    exported = json.loads((root / "out.json").read_text(encoding="utf-8"))
    assert exported["turns"][0]["question"]["text"] == "Where is `retry`?"
    conversation.close()


def test_commands_are_told_from_paths_and_may_be_shortened(make: MakeConversation) -> None:
    assert is_command("/help")
    assert is_command("/export json x")
    assert not is_command("/usr/bin/env is a path")
    assert not is_command("what of /help?")
    assert not is_command("  ")
    conversation = make()
    assert run_command(conversation, "/q") == Outcome(wish=Wish.QUIT)
    for line in ("/nothing", "/re"):
        with pytest.raises(UsageError):
            run_command(conversation, line)
    with pytest.raises(UsageError, match="has to wait"):
        find_command("/new", is_busy=True)
    conversation.close()


def test_what_follows_a_command_is_its_argument_or_is_refused() -> None:
    assert find_command("/refactor\n\nrename a to b\nand c to d", is_busy=False)[1] == "rename a to b\nand c to d"
    for name, command in COMMANDS.items():
        if command.argument:
            assert find_command(f"/{name}  one two ", is_busy=False) == (command, "one two")
        else:
            with pytest.raises(UsageError, match="takes nothing after it"):
                find_command(f"/{name} one", is_busy=False)
        assert find_command(f" /{name} ", is_busy=False) == (command, "")


def test_every_command_of_the_table_can_be_run(make: MakeConversation) -> None:
    conversation = make()
    ask(conversation, "One?")
    for name in COMMANDS:
        if name in ("refactor", "undo"):  # they want a task, something to take back
            with pytest.raises((UsageError, ToolError)) as refusal:
                run_command(conversation, f"/{name}")
            assert refusal.value.hint
            continue
        outcome = run_command(conversation, f"/{name}")
        assert outcome.text or outcome.wish or outcome.task
        if outcome.task is not None:
            list(outcome.task.events())
        if name in ("new", "clear", "rewind"):
            ask(conversation, "One?")
    conversation.close()
