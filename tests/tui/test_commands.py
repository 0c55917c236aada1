"""Commands, lists and keys in the app."""

import re
import threading
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest
from textual import events
from textual.widgets import Footer, Input, OptionList, SelectionList
from textual.widgets._footer import FooterKey
from textual_diff_view import DiffView

from khepri import paths
from khepri.agent.conversation import Conversation
from khepri.agent.session import Session
from khepri.agent.task import Question
from khepri.config import Config
from khepri.edits.change import ChangeSet, FileChange
from khepri.edits.review import Review
from khepri.errors import NoModelError
from khepri.models.layouts import Store
from khepri.models.stores import Model
from khepri.repo.root import Repository
from khepri.tui.app import KhepriApp
from khepri.tui.entries import UserEntry
from khepri.tui.loading import Loader
from khepri.tui.screens.picker import Choice, Picker
from khepri.tui.screens.review import ReviewScreen
from khepri.tui.screens.stats import Stats
from khepri.tui.start import Start
from khepri.tui.widgets.completion import Completion
from khepri.tui.widgets.composer import Composer
from khepri.tui.widgets.diff import Diff
from tests.support.lasting import LASTING
from tests.tui.conftest import MakeApp, running, wait_until
from tests.tui.test_conversation_on_screen import record


def said(app: KhepriApp) -> str:
    return "\n".join(entry.copy_text() for entry in app.transcript.entries)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("/help", "/compact"),
        ("/help", "composer.newline"),
        ("/config", "tiny  default"),
        ("/doctor", "all is well"),
        ("/stats", "Nothing has been answered"),
        ("/sessions", "no conversations"),
        ("/add retry.py", "`retry.py`"),
        ("/undo", "changed nothing"),
        ("/diff", "has changed nothing"),
        ("/refactor", "there is no task"),
        ("/theme nothing", "no theme"),
        ("/nothing", "no command /nothing"),
        ("/rewind", "there is nothing to take back"),
        ("/add nothing", "Tab completes them"),
        ("/resume nothing", "no session of this repository begins with"),
    ],
)
async def test_a_command_says_what_came_of_it(make_app: MakeApp, command: str, words: str) -> None:
    app = make_app()
    async with running(app) as pilot:
        app.run_command(command)
        await wait_until(pilot, lambda: words.lower() in said(app).lower())
        assert app.is_running


async def test_a_session_is_chosen_from_the_list_and_gone_on_with(make_app: MakeApp, root: Path) -> None:
    record(root, 3)
    app = make_app()
    async with running(app) as pilot:
        await pilot.press(*"/sess", "enter")
        await wait_until(pilot, lambda: isinstance(app.screen, Picker))
        await pilot.press(*"nothing like this", "enter")
        assert isinstance(app.screen, Picker)
        app.screen.query_one(Input).value = "question 0"
        await pilot.pause()
        await pilot.press("enter")
        await wait_until(pilot, lambda: len(app.conversation.history.turns) == 3)
        await wait_until(pilot, lambda: "Question 2?" in said(app))
        await pilot.press(*"/stats", "enter")
        await wait_until(pilot, lambda: isinstance(app.screen, Stats))
        await pilot.press("escape")
        await pilot.press(*"/rewind", "space", "enter")
        await wait_until(pilot, lambda: app.composer.text == "Question 2?")
        assert "Question 2?" not in [e.text for e in app.transcript.entries if isinstance(e, UserEntry)]
        app.composer.take()
        await pilot.press(*"/new", "enter")
        await wait_until(pilot, lambda: not app.conversation.history.turns)


async def test_a_question_that_is_taken_back_comes_with_its_pastes(make_app: MakeApp, root: Path) -> None:
    app = make_app()
    async with running(app) as pilot:
        app.composer.post_message(events.Paste("x\n" * 100))
        await pilot.press(*" why", "enter")
        await wait_until(pilot, lambda: bool(app.conversation.history.turns) and not app.turns.is_busy)
    later = make_app(app.conversation.history.session_id)
    async with running(later) as pilot:
        later.run_command("/rewind")
        await wait_until(pilot, lambda: later.composer.text == "[paste 1: 101 lines, 200 characters] why")
        later.composer.post_message(events.Paste("y\n" * 100))
        await wait_until(pilot, lambda: len(later.composer.draft[1]) == 2)
        assert [paste.text for paste in later.composer.draft[1]] == ["x\n" * 100, "y\n" * 100]


async def test_a_theme_is_taken_and_remembered(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await pilot.press(*"/theme contrast", "enter")
        await wait_until(pilot, lambda: app.theme == "khepri-contrast")
        assert paths.theme_file().read_text(encoding="utf-8") == "khepri-contrast\n"
        await pilot.press(*"/theme", "space", "enter")
        await wait_until(pilot, lambda: isinstance(app.screen, Picker))
        await pilot.press("ctrl+c")
        await wait_until(pilot, lambda: not isinstance(app.screen, Picker))
        assert app.is_running


@pytest.mark.parametrize("again", ["enter", "escape", "click"])
async def test_a_list_from_which_is_chosen_twice_at_once_goes_once(make_app: MakeApp, again: str) -> None:
    app = make_app()
    chosen: list[str | None] = []
    async with running(app) as pilot:
        await app.push_screen(Picker("Below", [Choice("a", "a")]), chosen.append)
        picker = Picker("Above", [Choice("b", "b"), Choice("c", "c")])
        await app.push_screen(picker, chosen.append)
        options = picker.query_one(OptionList)
        picker.choose()
        match again:
            case "enter":
                picker.choose()
            case "escape":
                picker.action_cancel()
            case "click":
                picker.choose_clicked(OptionList.OptionSelected(options, options.get_option("c"), 1))
        await pilot.pause()
        assert chosen == ["b"]
        assert isinstance(app.screen, Picker)
        assert len(app.screen_stack) == 2


async def test_keys_can_be_changed(make_app: MakeApp) -> None:
    app = make_app(keys={"composer.newline": "ctrl+n", "app.help": "f2"})
    async with running(app) as pilot:
        await pilot.press("a", "ctrl+n", "b")
        await wait_until(pilot, lambda: app.composer.text == "a\nb")
        await pilot.press("f2")
        await wait_until(pilot, lambda: "| `ctrl+n` | New line |" in said(app))
        assert app.composer.text == "a\nb"


async def test_a_file_that_was_made_while_the_app_runs_is_completed(make_app: MakeApp, root: Path) -> None:
    app = make_app()
    async with running(app) as pilot:
        await wait_until(pilot, lambda: bool(app.loader.names.symbols))
        (root / "fresh.py").write_text("def made(): ...\n", encoding="utf-8")
        await pilot.press(*"see @fre")
        await wait_until(pilot, lambda: app.query_one(Completion).is_open)
        await pilot.press("tab")
        await wait_until(pilot, lambda: app.composer.text == "see @fresh.py ")
        await wait_until(pilot, lambda: "fresh.py#made" in app.loader.names.symbols)


async def test_what_is_named_before_the_names_are_gathered_is_looked_at(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Loader, "gather_names", lambda loader: None)
    app = make_app()
    async with running(app) as pilot:
        app.ask("what of @retry.py, and @nothere.py?")
        await wait_until(pilot, lambda: bool(app.conversation.history.turns))
        assert app.conversation.history.turns[0].question.mentions == ("retry.py",)
        await wait_until(pilot, lambda: "not looked at: nothere.py does not exist" in said(app))


async def test_files_commands_and_earlier_messages_are_completed(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await wait_until(pilot, lambda: bool(app.loader.names.files))
        await pilot.press(*"see @ret", "tab")
        await wait_until(pilot, lambda: app.composer.text == "see @retry.py ")
        app.ask(app.composer.take()[0])
        await wait_until(pilot, lambda: bool(app.conversation.history.turns))
        assert app.conversation.history.turns[0].question.mentions == ("retry.py",)
        await pilot.press("up")
        await wait_until(pilot, lambda: app.composer.text == "see @retry.py")
        await pilot.press("down")
        await wait_until(pilot, lambda: app.composer.text == "")
        await pilot.press(*"/comp", "tab")
        await wait_until(pilot, lambda: app.composer.text == "/compact ")


async def test_a_model_that_is_not_there_takes_the_place_of_nothing(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await wait_until(pilot, lambda: app.status.status.activity == "")
        session = app.conversation.session
        app.run_command("/model nothing-like-this")
        await wait_until(pilot, lambda: "nothing-like-this" in said(app))
        assert app.conversation.session is session
        assert "nothing" not in app.status.status.model
        app.ask("why")
        await wait_until(pilot, lambda: bool(app.conversation.history.turns) and not app.turns.is_busy)


async def test_another_model_goes_on_with_a_conversation_and_that_is_said(make_app: MakeApp, root: Path) -> None:
    app = make_app(record(root, 2))
    async with running(app) as pilot:
        await wait_until(pilot, lambda: "this was held with tiny" in said(app))
        app.run_command("/new")
        await pilot.pause()
        assert "was held with" not in said(app)


async def test_what_is_half_written_is_found_again_after_leaving(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await pilot.press(*"half a question")
        await pilot.press("ctrl+d")
        await wait_until(pilot, lambda: app.return_value == 0)
    later = make_app()
    async with running(later) as pilot:
        await pilot.press("up")
        await wait_until(pilot, lambda: bool(later.composer.text))
        assert later.composer.text == "half a question"


@pytest.mark.parametrize(("text", "is_kept"), [("x\n" * 100, True), ("x" * 300_000, False)], ids=["short", "long"])
async def test_a_message_from_another_session_brings_its_paste_or_says_that_it_cannot(
    make_app: MakeApp, text: str, is_kept: bool
) -> None:
    app = make_app()
    async with running(app) as pilot:
        app.composer.post_message(events.Paste(text))
        await pilot.press(*" why")
        await wait_until(pilot, lambda: app.composer.text.endswith("] why"))
        await pilot.press("ctrl+d")
    later = make_app(context_tokens=4096)
    async with running(later) as pilot:
        await pilot.press("up", "enter")
        if not is_kept:
            await wait_until(pilot, lambda: bool(later._notifications))
            (note,) = later._notifications
            assert "is not kept" in note.message
            assert later.composer.text.endswith("] why")
            await pilot.press("enter")
        turns = later.conversation.history.turns
        await wait_until(pilot, lambda: bool(turns))
        assert [each.text for each in turns[0].question.attachments] == [text] * is_kept


TINY = Model("tiny", Path("tiny.gguf"), 98_362_432, "Q4_1", "llama", Store.OLLAMA, False)
FIRST_RUN = (
    ("There is no model on this machine yet", "only command that uses the network"),
    (
        "The default model is not here",
        "| tiny | Q4_1 | 98 MB |",
        "Choose one with `/model`.",
        "only command that uses the network",
    ),
)
"""What is said where no model was found, and where one was."""


@pytest.mark.parametrize("found", [(), (TINY,)], ids=["none found", "a small one found"])
async def test_without_a_model_the_app_says_what_to_do_and_what_is_written_waits(
    root: Path, monkeypatch: pytest.MonkeyPatch, found: tuple[Model, ...]
) -> None:
    repository = Repository.open(root)

    def open_session(name: str) -> None:
        raise NoModelError("the default model is not here", "khepri models pull")

    monkeypatch.setattr("khepri.models.stores.discover", lambda: found)
    conversation = Conversation(repository, Config(), open_session)  # type: ignore[arg-type]
    app = KhepriApp(
        Start(conversation, "network strong", lambda: "", "khepri-dark", lambda: "", lambda: ""),
    )
    async with running(app) as pilot:
        await wait_until(pilot, lambda: "khepri models pull" in said(app))
        assert app.status.status.activity == "no model"
        assert [words for words in FIRST_RUN[len(found)] if words not in said(app)] == []
        assert len(app.screen_stack) == 1, "nothing covers what is said"
        await pilot.press(*"why", "enter")
        await wait_until(pilot, lambda: app.status.status.queued == 1)
        await wait_until(pilot, lambda: said(app).count("khepri models pull") == 2)
        assert len(app.screen_stack) == 1
        await pilot.press(*"/compact", "enter")
        await wait_until(pilot, lambda: "choose one with /model" in said(app))


async def test_a_command_of_the_shell_is_shown_and_stopped(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await pilot.press(*"!echo one; sleep 600", "enter")
        await wait_until(pilot, lambda: bool(app._wishes._commands))
        await pilot.press("escape")
        await wait_until(pilot, lambda: "→ stopped" in said_lines(app))
        assert not app._wishes._commands
        await pilot.press("!", "enter")
        await wait_until(pilot, lambda: "such as: !git status" in said_lines(app))
        await pilot.press(*"!exit 3", "enter")
        await wait_until(pilot, lambda: "→ exit status 3" in said_lines(app))


async def test_a_command_of_the_shell_ends_with_the_app(make_app: MakeApp, root: Path) -> None:
    app = make_app()
    async with running(app) as pilot:
        await pilot.press(*"!echo $$ > pid; sleep 600", "enter")
        await wait_until(pilot, lambda: (root / "pid").exists() and bool((root / "pid").read_text().strip()))
        app.leave(0)
    app.end_work()
    assert not app._wishes._commands
    assert not psutil.pid_exists(int((root / "pid").read_text()))


async def test_a_second_press_means_no_copy_any_more(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await pilot.press(*"half a question", "shift+home", "ctrl+c")
        assert app.clipboard == "half a question"
        assert app.composer.text == "half a question"
        await pilot.press("ctrl+c")
        assert app.composer.text == ""


def said_lines(app: KhepriApp) -> str:
    transcript = app.transcript
    return "\n".join(transcript.render_line(y).text for y in range(transcript.size.height))


async def test_what_a_message_names_is_read_while_it_is_written(
    make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    drafts: list[Question] = []
    monkeypatch.setattr(Session, "prefill_early", lambda session, draft: drafts.append(draft))
    app = make_app()
    async with running(app) as pilot:
        await wait_until(pilot, lambda: bool(app.loader.names.files))
        await pilot.press(*"@retry.py")
        await wait_until(pilot, lambda: drafts[-1].mentions == ("retry.py",))
        seen = len(drafts)
        await pilot.press("escape", *" why do")
        app.composer.post_message(events.Paste("x\n" * 100))
        await wait_until(pilot, lambda: bool(drafts[-1].attachments))
        assert len(drafts) == seen + 1
        assert drafts[-1].mentions == ("retry.py",)


async def test_while_the_model_loads_the_app_says_what_it_does_and_can_be_left(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def open_session(name: str) -> Session:
        released.wait(60)
        raise NoModelError("there is no model", "khepri models pull")

    repository = Repository.open(root)
    conversation = Conversation(repository, Config(model="slow"), open_session)
    app = KhepriApp(Start(conversation, "network strong", lambda: "", "khepri-dark", lambda: "", lambda: ""))
    async with running(app) as pilot:
        await wait_until(pilot, lambda: app.status.status.activity.startswith("loading slow, "))
        assert conversation.is_loading
        await pilot.press("ctrl+q")
        await wait_until(pilot, lambda: app.return_value == 0)
    released.set()


CHANGES = ChangeSet(
    "rename it",
    (
        FileChange("a.py", b"one\ntwo\nthree\nfour\nfive\n", b"1\ntwo\nthree\nfour\n5\n"),
        FileChange("b.py", None, b"new\n"),
    ),
)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["enter"], [("a.py", b"1\ntwo\nthree\nfour\n5\n"), ("b.py", b"new\n")]),
        (["space", "a"], [("a.py", b"one\ntwo\nthree\nfour\n5\n"), ("b.py", b"new\n")]),
        (["r"], None),
        (["ctrl+c"], None),
    ],
    ids=["all of it", "without the first hunk", "none of it", "closed"],
)
async def test_a_change_is_reviewed_hunk_by_hunk(
    make_app: MakeApp, keys: list[str], expected: list[tuple[str, bytes]] | None
) -> None:
    app = make_app()
    review = Review(CHANGES)
    async with running(app) as pilot:
        app.push_screen(ReviewScreen(review))
        await wait_until(pilot, lambda: isinstance(app.focused, SelectionList) and app.focused.highlighted == 0)
        await pilot.press(*keys)
        await wait_until(pilot, lambda: review.is_answered)
        decided = review.wait(lambda: False).changes
        assert (None if decided is None else [(each.path, each.after) for each in decided.files]) == expected


async def test_an_interrupt_of_a_review_is_the_first_of_two_that_leave(make_app: MakeApp, lasting_model: Path) -> None:
    app = make_app(model=lasting_model, **LASTING)
    async with running(app) as pilot:
        await pilot.press(*"retry?", "enter")
        await wait_until(pilot, lambda: app.turns.is_busy)
        app.push_screen(ReviewScreen(Review(CHANGES)))
        await wait_until(pilot, lambda: isinstance(app.focused, SelectionList))
        app.action_interrupt()
        assert not isinstance(app.screen, ReviewScreen)
        app.action_interrupt()
        await wait_until(pilot, lambda: app.return_value is not None)
    assert app.return_value == 0


async def test_the_footer_of_a_review_names_the_key_that_takes_a_hunk_or_leaves_it(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        app.push_screen(ReviewScreen(Review(CHANGES)))
        await wait_until(pilot, lambda: isinstance(app.focused, SelectionList))
        footer = app.screen.query_one(Footer)
        await wait_until(pilot, lambda: "Take or leave" in [key.description for key in footer.query(FooterKey)])


def use_editor(folder: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """Have a shell line for an editor; its file is ``$1``."""
    editor = folder / "editor"
    editor.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
    editor.chmod(0o700)
    monkeypatch.setenv("VISUAL", str(editor))
    # There is no terminal to give away.
    monkeypatch.setattr(KhepriApp, "suspend", lambda app: nullcontext())


async def test_a_file_under_review_is_edited_as_it_is_and_not_as_it_is_shown(
    make_app: MakeApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_editor(tmp_path, monkeypatch, "echo '# more' >> \"$1\"")
    app = make_app()
    review = Review(ChangeSet("colour it", (FileChange("a.py", b"one\n", b"\x1b[31mtwo\n"),)))
    async with running(app) as pilot:
        screen = ReviewScreen(review)
        app.push_screen(screen)
        await wait_until(pilot, lambda: isinstance(app.focused, SelectionList) and bool(screen._shown))
        await pilot.press("e")
        await wait_until(pilot, lambda: "# more" in screen._files["a.py"].new_text)
        await pilot.press("a")
        await wait_until(pilot, lambda: review.is_answered)
        decided = review.wait(lambda: False).changes
        assert decided is not None
        assert decided.files[0].after == b"\x1b[31mtwo\n# more\n"


@pytest.mark.parametrize("line", ["true", 'echo "# more" >> "$1"'], ids=["nothing edited", "a line added"])
async def test_what_was_left_out_stays_so_after_the_editor_and_is_told_in_words(
    make_app: MakeApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    use_editor(tmp_path, monkeypatch, line)
    app = make_app()
    review = Review(CHANGES)
    async with running(app) as pilot:
        screen = ReviewScreen(review)
        app.push_screen(screen)
        await wait_until(pilot, lambda: isinstance(app.focused, SelectionList) and bool(screen._shown))
        hunks = screen.query_one(SelectionList)
        assert "left out" not in str(hunks.get_option_at_index(0).prompt)
        await pilot.press("space")
        await wait_until(pilot, lambda: "left out" in str(hunks.get_option_at_index(0).prompt))
        await pilot.press("e")
        if "more" in line:
            await wait_until(pilot, lambda: "# more" in screen._files["a.py"].new_text)
        await pilot.pause()
        assert ("a.py", 0) not in hunks.selected
        assert "left out" in str(hunks.get_option_at_index(0).prompt)
        await pilot.press("a")
        await wait_until(pilot, lambda: review.is_answered)
        decided = review.wait(lambda: False).changes
        assert decided is not None
        assert decided.files[0].after is not None
        assert decided.files[0].after.startswith(b"one\n")


@pytest.mark.parametrize(
    ("line", "why"), [("exit 3", "exit status 3"), (': > "$1"', "left a.py empty")], ids=["it fails", "it empties"]
)
async def test_an_editor_that_fails_under_review_changes_nothing_and_is_told(
    make_app: MakeApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, why: str
) -> None:
    use_editor(tmp_path, monkeypatch, line)
    app = make_app()
    review = Review(CHANGES)
    async with running(app) as pilot:
        screen = ReviewScreen(review)
        app.push_screen(screen)
        await wait_until(pilot, lambda: isinstance(app.focused, SelectionList) and bool(screen._shown))
        await pilot.press("e")
        await wait_until(pilot, lambda: any(why in each.message for each in app._notifications))
        await pilot.press("a")
        await wait_until(pilot, lambda: review.is_answered)
        assert review.wait(lambda: False).changes == CHANGES


async def test_a_review_waits_until_nobody_types(make_app: MakeApp, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app()
    review = Review(CHANGES)
    async with running(app) as pilot:
        assert app.composer.still_s == float("inf")
        await wait_until(pilot, lambda: app.focused is app.composer)
        app.simulate_key("p")
        await wait_until(pilot, lambda: app.composer.still_s < float("inf"))
        # How long nobody has typed is told here, as a slow machine takes its time between two keys.
        still_s = [0.0]
        monkeypatch.setattr(Composer, "still_s", property(lambda composer: still_s[0]))
        app._wishes.ask_about(review)
        for key in "leasewritea":
            app.simulate_key(key)
        await wait_until(pilot, lambda: app.composer.text == "pleasewritea")
        assert len(app.screen_stack) == 1
        still_s[0] = 60.0
        await wait_until(pilot, lambda: isinstance(app.screen, ReviewScreen))
        assert app.composer.text == "pleasewritea"
        assert not review.is_answered


async def test_a_fault_that_the_editor_left_is_told(
    make_app: MakeApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_editor(tmp_path, monkeypatch, "echo 'def f(' >> \"$1\"")
    app = make_app()
    async with running(app) as pilot:
        screen = ReviewScreen(Review(ChangeSet("t", (FileChange("a.py", b"one\n", b"two\n"),))))
        app.push_screen(screen)
        await wait_until(pilot, lambda: isinstance(app.focused, SelectionList) and bool(screen._shown))
        await pilot.press("e")
        await wait_until(pilot, lambda: bool(app._notifications))
        assert any("a.py:2: '(' was never closed" in each.message for each in app._notifications)


def drawn(app: KhepriApp) -> str:
    """Return what is on the screen."""
    rows = app.screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in row) for row in rows)


async def test_what_comes_and_goes_is_told_by_signs_and_not_by_colours_alone(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        screen = ReviewScreen(Review(CHANGES))
        app.push_screen(screen)
        await wait_until(pilot, lambda: screen._shown == "a.py" and bool(screen.query(DiffView)))

        await wait_until(pilot, lambda: re.search(r"\+ +1", drawn(app)) is not None)
        assert re.search(r"- +one", drawn(app))


async def test_a_long_change_of_a_long_file_is_shown_hunks_at_a_time(make_app: MakeApp) -> None:
    before = [f"line {number}\n" for number in range(4000)]
    after = [line.upper() if number % 10 == 0 else line for number, line in enumerate(before)]
    change = FileChange("long.py", "".join(before).encode(), "".join(after).encode())
    app = make_app()
    async with running(app) as pilot:
        screen = ReviewScreen(Review(ChangeSet("t", (change,))))
        app.push_screen(screen)
        await wait_until(pilot, lambda: isinstance(app.focused, SelectionList) and bool(screen.query(DiffView)))
        (view,) = screen.query(Diff)
        assert view.note == "hunks 1 to 20 of 400"
        assert len(view.grouped_opcodes) == 20
        hunks = screen.query_one(SelectionList)
        hunks.highlighted = 399
        await wait_until(pilot, lambda: [each.note for each in screen.query(Diff)] == ["hunks 381 to 400 of 400"])
        assert len(hunks.selected) == 400


async def test_long_code_is_compared_without_colours_and_short_code_with_them() -> None:
    for lines, has_colours in ((3, True), (5000, False)):
        diff = Diff("a.py", "x = 1  # one\n" * lines, "x = 2  # two\n" * lines, is_split=False)
        await diff.prepare()
        code = "\n".join(["x = 1  # one"] * lines)
        assert bool(diff.highlight(code, "a.py", "python").spans) == has_colours
        assert diff.highlight(code, "a.py", "python").plain == code


async def test_what_is_left_out_is_seen_on_a_narrow_screen(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app, (60, 18)) as pilot:
        screen = ReviewScreen(Review(CHANGES))
        app.push_screen(screen)
        await wait_until(pilot, lambda: isinstance(app.focused, SelectionList) and bool(screen._shown))
        await pilot.press("space")
        await wait_until(pilot, lambda: "left out" in drawn(app))


async def test_how_a_diff_is_shown_stays_from_file_to_file(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        screen = ReviewScreen(Review(CHANGES))
        app.push_screen(screen)
        await wait_until(pilot, lambda: isinstance(app.focused, SelectionList) and screen._shown == "a.py")
        await pilot.press("s", "down", "down")
        await wait_until(pilot, lambda: screen._shown == "b.py" and bool(screen.query(DiffView)))
        assert all(view.split for view in screen.query(DiffView))
