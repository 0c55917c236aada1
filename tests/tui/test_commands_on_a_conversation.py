"""What the commands do that change which conversation goes on, and how: copies, summaries, documents, other models."""

import json
import shutil
import threading
from pathlib import Path

import pytest
from textual.widgets import OptionList

from khepri import paths
from khepri.agent.commands import COMMANDS
from khepri.agent.events import AnswerDelta, Compacted, Notice
from khepri.agent.recording import Recording, list_sessions, new_path
from khepri.agent.session import Session
from khepri.agent.task import Question
from khepri.edits.apply import apply
from khepri.edits.change import ChangeSet, FileChange
from khepri.edits.checkpoints import Checkpoints
from khepri.tui.app import KhepriApp
from khepri.tui.entries import AnswerEntry, MarkdownEntry, NoteEntry, StepEntry, SummaryEntry, UserEntry
from khepri.tui.screens.picker import Picker
from tests.support.lasting import LASTING
from tests.tui.conftest import MakeApp, is_ready, running, wait_until
from tests.tui.test_commands import said, said_lines
from tests.tui.test_conversation_on_screen import STEP, record


def questions(app: KhepriApp) -> list[str]:
    return [entry.text for entry in app.transcript.entries if isinstance(entry, UserEntry)]


async def test_a_copy_goes_on_and_the_original_stays_as_it_was(make_app: MakeApp, root: Path) -> None:
    original = record(root, 2)
    app = make_app(original)
    async with running(app) as pilot:
        await wait_until(pilot, lambda: is_ready(app))
        await pilot.press(*"/fork", "enter")
        await wait_until(pilot, lambda: "This is a copy now" in said(app))
        assert app.conversation.history.session_id != original
        assert questions(app) == ["Question 0?", "Question 1?"]
        app.ask("and then?")
        await wait_until(pilot, lambda: len(app.conversation.history.turns) == 3 and not app.turns.is_busy)
    turns = {info.session_id: info.turns for info in list_sessions(paths.sessions_dir(root))}
    assert turns == {original: 2, app.conversation.history.session_id: 3}


@pytest.mark.parametrize(
    ("argument", "name"), [("told.md", "told.md"), ("json told", "told"), ("told.json", "told.json")]
)
async def test_a_conversation_is_exported_and_writes_over_nothing(
    make_app: MakeApp, root: Path, argument: str, name: str
) -> None:
    app = make_app(record(root, 2))
    async with running(app) as pilot:
        app.run_command(f"/export {argument}")
        await wait_until(pilot, lambda: f"Exported to `{root / name}`" in said(app))
        text = (root / name).read_text(encoding="utf-8")
        assert "Question 1?" in text
        assert text.startswith("{") == ("json" in argument)
        if "json" in argument:
            json.loads(text)
        app.run_command(f"/export {argument}")
        await wait_until(pilot, lambda: f"{name} exists" in said(app))
        assert (root / name).read_text(encoding="utf-8") == text


async def test_a_conversation_is_summarised_in_sight_and_can_be_gone_on_with(make_app: MakeApp, root: Path) -> None:
    app = make_app(record(root, 3))
    async with running(app) as pilot:
        await wait_until(pilot, lambda: is_ready(app))
        await pilot.press(*"/compact", "enter")
        await wait_until(pilot, lambda: "tokens are a summary of" in said(app) and not app.turns.is_busy)
        (summary,) = (entry for entry in app.transcript.entries if isinstance(entry, SummaryEntry))
        assert "Question 0?" in summary.text
        assert "retry.py" in summary.text
        assert questions(app) == ["Question 0?", "Question 1?", "Question 2?", "/compact"]
        assert app.status.status.context_tokens == app.conversation.history.summary.tokens
        await wait_until(pilot, lambda: is_ready(app))
        app.ask("and then?")
        await wait_until(pilot, lambda: len(app.conversation.history.turns) == 4 and not app.turns.is_busy)
    later = make_app(app.conversation.history.session_id)
    async with running(later) as pilot:
        assert any(isinstance(entry, SummaryEntry) for entry in later.transcript.entries)


async def test_what_the_next_question_goes_on_from_is_counted_after_a_summary(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        app.ask("why")
        await wait_until(pilot, lambda: bool(app.conversation.history.turns) and not app.turns.is_busy)
        history = app.conversation.history
        preamble = history.stable_tokens
        app.run_command("/compact")
        await wait_until(pilot, lambda: bool(history.summary.text) and not app.turns.is_busy)
        await wait_until(pilot, lambda: app.status.status.context_tokens == preamble + history.summary.tokens)
    later = make_app(history.session_id)
    async with running(later) as pilot:
        await wait_until(pilot, lambda: later.status.status.context_tokens == preamble + history.summary.tokens)


async def test_a_summary_is_stopped_and_changes_nothing(make_app: MakeApp, root: Path, lasting_model: Path) -> None:
    app = make_app(record(root, 3), model=lasting_model, **LASTING)
    async with running(app) as pilot:
        await wait_until(pilot, lambda: is_ready(app))
        app.run_command("/compact")
        await wait_until(pilot, lambda: "summarising, " in app.status.status.activity)
        await pilot.press("escape")
        await wait_until(pilot, lambda: "! stopped" in said_lines(app))
        assert not any(isinstance(entry, SummaryEntry) for entry in app.transcript.entries)
        assert app.status.status.activity == ""
        assert app.conversation.history.turns[-1].failure == ""
    later = make_app(app.conversation.history.session_id)
    async with running(later) as pilot:
        assert [entry.text for entry in later.transcript.entries][
            -1
        ] == "the conversation was not summarised: interrupted"


async def test_a_summary_stands_where_it_was_written_after_the_session_was_resumed(
    make_app: MakeApp, root: Path
) -> None:
    told = Recording(new_path(paths.sessions_dir(root)), root, "tiny")
    told.question(Question("Why?"))
    told.witness(Compacted("We spoke.", 1, 900, 40))
    told.witness(Notice("careful"))
    told.witness(STEP)
    told.witness(AnswerDelta("So.", 1, 1.0))
    told.close()
    app = make_app(told.path.stem)
    async with running(app):
        kinds = [type(entry) for entry in app.transcript.entries]
        assert kinds[:5] == [UserEntry, SummaryEntry, NoteEntry, StepEntry, MarkdownEntry]


async def test_another_model_takes_over_and_answers(make_app: MakeApp, endless_model: Path, tmp_path: Path) -> None:
    other = Path(shutil.copyfile(endless_model, tmp_path / "other.gguf"))
    app = make_app()
    async with running(app) as pilot:
        await wait_until(pilot, lambda: is_ready(app))
        app.ask("what")
        await wait_until(pilot, lambda: bool(app.conversation.history.turns) and not app.turns.is_busy)
        assert app.status.status.context_tokens
        app.run_command(f"/model {other}")
        await wait_until(pilot, lambda: app.status.status.model == "other" and is_ready(app))
        await wait_until(pilot, lambda: not app.status.status.context_tokens)
        app.ask("why")
        await wait_until(pilot, lambda: len(app.conversation.history.turns) == 2 and not app.turns.is_busy)
        assert app.conversation.history.model == "other"


async def test_a_model_that_is_chosen_while_another_one_is_opened_is_loaded_once(
    make_app: MakeApp, endless_model: Path, tmp_path: Path
) -> None:
    app = make_app()
    open_session, opened, may_go_on = app.conversation._open_session, list[Session](), threading.Event()

    def open_slowly(name: str) -> Session:
        may_go_on.wait(60)
        opened.append(open_session(name))
        return opened[-1]

    app.conversation._open_session = open_slowly
    others = [shutil.copyfile(endless_model, tmp_path / f"{name}.gguf") for name in ("first", "second")]
    async with running(app) as pilot:
        for other in others:
            app.run_command(f"/model {other}")
            await wait_until(pilot, lambda other=other: app.status.status.model == other.stem)  # type: ignore[misc]
            await wait_until(pilot, lambda other=other: app.conversation.model == str(other))  # type: ignore[misc]
        may_go_on.set()
        await wait_until(pilot, lambda: is_ready(app))
        app.ask("why")
        await wait_until(pilot, lambda: bool(app.conversation.history.turns) and not app.turns.is_busy)
        assert app.conversation.history.model == "second"
        assert [session.model.name for session in opened].count("second") == 1
        assert app.conversation.session is opened[-1]
        assert all(session._engine._thread.is_alive() == (session is opened[-1]) for session in opened)
        assert "no model" not in said(app)


async def test_the_model_in_use_is_listed_wherever_it_lies(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await wait_until(pilot, lambda: is_ready(app))
        await pilot.press(*"/models", "enter")
        await wait_until(pilot, lambda: isinstance(app.screen, Picker))
        first = app.screen.query_one(OptionList).get_option_at_index(0)
        assert str(first.prompt).startswith("an 'endless' model é 🐞  (in use)")


async def test_a_conversation_is_resumed_by_the_beginning_of_its_id(make_app: MakeApp, root: Path) -> None:
    told = record(root, 2)
    app = make_app()
    async with running(app) as pilot:
        app.run_command("/resume nothing-like-this")
        await wait_until(pilot, lambda: "nothing-like-this" in said(app))
        app.run_command(f"/resume {told[:-1]}")
        await wait_until(pilot, lambda: questions(app) == ["Question 0?", "Question 1?"])


async def test_files_are_looked_at_no_more_and_that_is_said(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        for command, words in (
            ("/add *.py", "`retry.py`, `wait.py`"),
            ("/drop wait.py", "Not looked at any more: `wait.py`"),
            ("/add", "- `retry.py`"),
            ("/drop wait.py", "wait.py was not added"),
            ("/drop", "Not looked at any more: `retry.py`"),
        ):
            app.run_command(command)
            await wait_until(pilot, lambda words=words: words in said(app))  # type: ignore[misc]
        assert not app.conversation.history.added


async def test_a_change_is_shown_and_taken_back(make_app: MakeApp, root: Path) -> None:
    app = make_app()
    before = (root / "retry.py").read_bytes()
    change = ChangeSet("shorten it", (FileChange("retry.py", before, b"def retry(limit): ...\n"),))
    apply(app.conversation.repository, change, Checkpoints(root, paths.checkpoints_dir()), 0.0)
    async with running(app) as pilot:
        app.run_command("/diff")
        await wait_until(pilot, lambda: "+def retry(limit): ..." in said(app))
        app.run_command("/undo")
        await wait_until(pilot, lambda: "- `retry.py` +2 -1" in said(app))
        assert (root / "retry.py").read_bytes() == before


async def test_what_has_to_wait_for_an_answer_says_so_and_leaving_does_not(
    make_app: MakeApp, lasting_model: Path
) -> None:
    app = make_app(model=lasting_model, **LASTING)
    async with running(app) as pilot:
        app.ask("why")
        await wait_until(pilot, lambda: any(isinstance(entry, AnswerEntry) for entry in app.transcript.entries))
        for command in COMMANDS.values():
            if command.needs_idle:
                app.run_command(f"/{command.name}")
                assert f"/{command.name} has to wait until the answer is there" in said(app)
        await pilot.press(*"/quit", "enter")
        await wait_until(pilot, lambda: app.return_value == 0)
