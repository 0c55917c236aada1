"""What is on the screen of a conversation from before, of a growing answer and of hostile text, at any size."""

import asyncio
import re
import time
from pathlib import Path
from statistics import median

import pytest
from textual.color import Color
from textual.geometry import Offset
from textual.selection import SELECT_ALL, Selection

from khepri import paths
from khepri.agent.events import Finished, Timing, ToolFinished, Usage
from khepri.agent.recording import Recording, new_path
from khepri.agent.task import Question
from khepri.tui.entries import AnswerEntry, MarkdownEntry, NoteEntry, StepEntry, UserEntry
from khepri.tui.paint import Tone
from khepri.tui.widgets.transcript import Transcript
from tests.support.lasting import LASTING
from tests.tui.conftest import MakeApp, running, wait_until

STEP = ToolFinished(1, "read", {"path": "retry.py"}, "retry.py:1-2", 20, 3.0, False, "1: def retry(limit):")


def record(root: Path, turns: int, answer: str = "It is in `retry.py`:\n\n```python\nreturn limit\n```") -> str:
    told = Recording(new_path(paths.sessions_dir(root)), root, "tiny")
    for number in range(turns):
        told.question(Question(f"Question {number}?"))
        told.witness(STEP)
        timing = Timing(1.0, 20.0, 1.0, 1.0, 0.5, 1000.0, 1.0)
        told.witness(Finished(answer, (STEP,), Usage(10, 5, 3), timing, "tiny", "answered"))
    told.close()
    return told.path.stem


def lines(transcript: Transcript) -> list[str]:
    return [transcript.render_line(y).text.rstrip() for y in range(transcript.size.height)]


async def test_a_conversation_from_before_is_shown_from_its_end(make_app: MakeApp, root: Path) -> None:
    app = make_app(record(root, 100))
    async with running(app) as pilot:
        await pilot.pause()
        shown = lines(app.transcript)
        assert "▎ return limit" in "\n".join(shown)
        assert [type(entry) for entry in app.transcript.entries[:3]] == [UserEntry, StepEntry, MarkdownEntry]
        assert app.transcript.is_vertical_scroll_end
        await wait_until(pilot, lambda: app.conversation.session is not None)
        await pilot.press("tab", "home")
        await wait_until(pilot, lambda: "> Question 0?" in lines(app.transcript))


async def test_the_end_is_followed_until_the_user_scrolls_up(make_app: MakeApp, root: Path) -> None:
    app = make_app(record(root, 20))
    async with running(app) as pilot:
        answer = AnswerEntry()
        app.transcript.add(answer)
        for number in range(60):
            answer.append(f"line {number}\n\n")
            app.transcript.changed(answer)
        assert app.transcript.is_vertical_scroll_end
        assert "line 59" in "\n".join(lines(app.transcript))
        await pilot.press("pageup")
        await pilot.pause()
        before = lines(app.transcript)
        for number in range(60, 90):
            answer.append(f"line {number}\n\n")
            app.transcript.changed(answer)
        await pilot.pause()
        assert lines(app.transcript) == before
        await pilot.press("tab", "end")
        await wait_until(pilot, lambda: "line 89" in "\n".join(lines(app.transcript)))


@pytest.mark.parametrize(
    "answer",
    [
        "word " * 20_000,
        "```python\n" + "x = call(1)  # é\n" * 5000 + "```\n",
        "| a | b |\n|---|---|\n" + "| 1 | 2 |\n" * 3000,
    ],
    ids=["100,000 characters in one paragraph", "5,000 lines of code", "a table of 3,000 rows"],
)
async def test_what_a_frame_costs_does_not_grow_with_the_answer(make_app: MakeApp, answer: str) -> None:
    app = make_app()
    async with running(app) as pilot:
        entry = AnswerEntry()
        app.transcript.add(entry)
        frames_s = []
        for start in range(0, len(answer), 400):
            before_s = time.thread_time()
            entry.append(answer[start : start + 400])
            app.transcript.changed(entry)
            frames_s.append(time.thread_time() - before_s)
            if start % 20_000 == 0:
                await pilot.pause()
        assert entry.copy_text() == answer
        tenth = len(frames_s) // 10
        assert median(frames_s[-tenth:]) < 5 * median(frames_s[:tenth])


async def test_wide_and_combining_characters_and_escapes_keep_every_line_within_the_screen(make_app: MakeApp) -> None:
    app = make_app()
    text = (
        "漢字かな " * 30
        + "e\u0301" * 50
        + " 👩‍👩‍👧 🇩🇪 " * 10
        + "\x1b[2J\x1b]52;c;aGk=\x07\x9b31m\u202eabc"
        + "\t|" * 20
    )
    async with running(app, (60, 18)) as pilot:
        step = StepEntry(f"read {text}")
        step.finish(text, text, is_error=False)
        app.transcript.add(UserEntry(text), step, MarkdownEntry(text), NoteEntry(text))
        await pilot.press("ctrl+o")
        await pilot.pause()
        for block in (block for entry in app.transcript.entries for block in entry.blocks):
            for strip in block.strips:
                assert strip.cell_length <= app.transcript.size.width
                assert not {"\x1b", "\x07", "\x9b"} & set(strip.text)


async def test_the_window_may_be_resized_all_the_time_while_an_answer_comes(
    make_app: MakeApp, root: Path, lasting_model: Path
) -> None:
    app = make_app(record(root, 50), model=lasting_model, **LASTING)
    async with running(app) as pilot:
        await pilot.press(*"go", "enter")
        answers = app.transcript
        await wait_until(pilot, lambda: any(isinstance(entry, AnswerEntry) for entry in answers.entries))
        for number in range(20):
            await pilot.resize_terminal(60 + 10 * (number % 13), 18 + number % 20)
            await asyncio.sleep(0.05)
        await pilot.resize_terminal(100, 30)
        assert app.turns.is_busy
        await pilot.press("escape")
        await wait_until(pilot, lambda: not app.turns.is_busy)
        await wait_until(pilot, lambda: all(len(line) <= 100 for line in lines(app.transcript)))


@pytest.mark.parametrize("size", [(60, 18), (80, 24), (300, 100)], ids=str)
async def test_everything_has_its_place_at_any_size(make_app: MakeApp, root: Path, size: tuple[int, int]) -> None:
    app = make_app(record(root, 3))
    async with running(app, size) as pilot:
        await pilot.press(*"/m")
        await pilot.pause()
        for widget in (app.transcript, app.composer, app.status):
            assert widget.region.height >= 1
            assert app.screen.region.contains_region(widget.region)
        assert app.transcript.region.height >= size[1] // 3


async def test_a_selection_is_copied_as_it_is_read(make_app: MakeApp, root: Path) -> None:
    app = make_app(record(root, 1))
    async with running(app) as pilot:
        await pilot.press("tab", "f3")
        await pilot.pause()
        assert app.clipboard == "return limit"
        await pilot.press("f2")
        await pilot.pause()
        assert app.clipboard.startswith("It is in `retry.py`")
        app.screen.selections = {app.transcript: SELECT_ALL}
        await pilot.press("ctrl+c")
        assert "Question 0?" in app.clipboard


async def test_each_press_copies_the_code_block_before_and_then_all(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        answer = AnswerEntry()
        answer.append("So:\n\n```\none\n```\n\n```\ntwo\n```\n")
        app.transcript.show_only([MarkdownEntry("```\nanother\n```"), answer, NoteEntry("no code")])
        await pilot.pause()

        async def copied() -> tuple[str, str]:
            app.clear_notifications()
            await pilot.press("f3")
            await pilot.pause()
            return app.clipboard, next(iter(app._notifications)).message.partition(":")[0]

        await pilot.press("tab")
        last, first = ("two", "copied code block 2 of 2"), ("one", "copied code block 1 of 2")
        assert [await copied() for _ in range(4)] == [last, first, ("one\n\ntwo", "copied all 2 code blocks"), last]
        await pilot.press("escape", "tab")
        assert [await copied() for _ in range(2)] == [last, first]
        answer.append("\n```\nthree\n```\n")
        assert await copied() == ("three", "copied code block 3 of 3")
        await pilot.press("up", "up", "up")
        assert await copied() == ("another", "copied the code")


@pytest.mark.parametrize(
    ("entries", "keys", "said"),
    [
        (["```\none\n```", "no code"], ("up", "f3"), "there is no code block in it"),
        (["no code"], ("f3",), "there is no code block in the conversation"),
        (["```\n```"], ("f3",), "there is nothing in the code"),
        ([], ("f2",), "there is nothing to copy"),
        (["no step"], ("up", "enter"), "there is nothing in it to open"),
        (["no step"], ("enter",), "mark an entry first"),
        (["no step"], ("ctrl+o",), "there is no step to open"),
    ],
    ids=str,
)
async def test_a_key_that_finds_nothing_to_copy_or_open_says_so(
    make_app: MakeApp, entries: list[str], keys: tuple[str, ...], said: str
) -> None:
    app = make_app()
    async with running(app) as pilot:
        app.transcript.show_only(map(MarkdownEntry, entries))
        await pilot.pause()
        app.clear_notifications()
        await pilot.press("tab", *keys)
        await pilot.pause()
        assert [notification.message for notification in app._notifications] == [said]
        assert app.clipboard == ""


def step_of(count: int) -> StepEntry:
    step = StepEntry("read a.py")
    step.finish(f"{count} lines", "\n".join(f"shown {number}" for number in range(count)), is_error=False)
    return step


@pytest.mark.parametrize("size", [(60, 18), (100, 30)], ids=str)
@pytest.mark.parametrize("after", [0, 1, 200])
@pytest.mark.parametrize("count", [3, 400])
async def test_what_the_last_step_shows_is_seen_from_its_first_line_when_it_is_opened(
    make_app: MakeApp, root: Path, size: tuple[int, int], after: int, count: int
) -> None:
    app = make_app(record(root, 30))
    async with running(app, size) as pilot:
        answer = AnswerEntry()
        app.transcript.add(step_of(count), *[answer] * bool(after))
        answer.append("line\n\n" * after)
        app.transcript.changed(answer)
        await pilot.press("ctrl+o")
        shown = lines(app.transcript)
        assert "│ shown 0" in shown
        assert shown[shown.index("│ shown 0") - 1].startswith("▾ read a.py")
        assert "│ shown 2" in shown
        await pilot.press("ctrl+o")
        answer.append("and the end")
        app.transcript.changed(answer)
        assert app.transcript.is_vertical_scroll_end  # where it was before


async def test_a_short_step_near_the_end_is_opened_with_the_end_in_sight(make_app: MakeApp, root: Path) -> None:
    app = make_app(record(root, 30))
    async with running(app) as pilot:
        app.transcript.add(step_of(3), NoteEntry("the end"))
        await pilot.press("ctrl+o")
        assert {"│ shown 0", "· the end"} <= set(lines(app.transcript))
        assert app.transcript.is_vertical_scroll_end


async def test_a_last_step_that_is_closed_out_of_sight_leaves_the_end_in_sight(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        step = step_of(3)
        app.transcript.show_only([step])
        await pilot.press("ctrl+o")
        app.transcript.add(MarkdownEntry("line\n\n" * 200))
        await pilot.press("ctrl+o")
        assert not step.is_open
        assert app.transcript.is_vertical_scroll_end


@pytest.mark.parametrize("count", [3, 400])
@pytest.mark.parametrize("is_clicked", [False, True], ids=["Enter", "a click"])
async def test_what_a_step_in_the_last_line_shows_is_seen_when_it_is_opened(
    make_app: MakeApp, count: int, *, is_clicked: bool
) -> None:
    app = make_app()
    async with running(app) as pilot:
        step = step_of(count)
        app.transcript.show_only([MarkdownEntry("line\n\n" * 200), step, MarkdownEntry("line\n\n" * 200)])
        await pilot.pause()
        await pilot.press("tab", "up", "up")
        last = app.transcript.size.height - 1
        app.transcript.scroll_to(y=app.transcript.scroll_y - last, animate=False, immediate=True)
        assert lines(app.transcript)[last].startswith("▸ read a.py")
        if is_clicked:
            await pilot.click(app.transcript, offset=(3, last))
        else:
            await pilot.press("enter")
        await wait_until(pilot, lambda: step.is_open)
        shown = lines(app.transcript)
        assert {"│ shown 0", "│ shown 1", "│ shown 2"} <= set(shown)
        await pilot.press("enter")
        assert any(line.startswith("▸ read a.py") for line in lines(app.transcript))


async def test_what_is_selected_is_copied_without_the_marks_before_lines(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        step = StepEntry("read a.py")
        step.finish("two lines", "x = 1\n\n  y = 2", is_error=False)
        step.toggle()
        app.transcript.show_only([UserEntry("why\nand how"), step, MarkdownEntry("So:\n\n```python\nz = 3\n```")])
        await pilot.pause()
        app.screen.selections = {app.transcript: SELECT_ALL}
        await pilot.press("ctrl+c")
        said = ["", "why", "and how", "read a.py → two lines", "x = 1", "", "  y = 2", "", "So:", "", "z = 3"]
        assert app.clipboard.split("\n") == said


@pytest.mark.parametrize(
    ("start", "end", "copied"),
    [
        (Offset(3, 1), Offset(5, 2), "ne\ntwo"),
        (Offset(40, 1), Offset(90, 2), "\ntwo\U0001f600"),
        (Offset(4, 2), Offset(6, 2), "o\U0001f600"),
        (Offset(40, 2), Offset(90, 2), ""),
        (Offset(2, 2), Offset(2, 99), "two\U0001f600"),
    ],
    ids=["letters", "behind the ends", "one line", "nothing", "below the last line"],
)
async def test_a_selection_may_begin_and_end_where_nothing_is_written(
    make_app: MakeApp, start: Offset, end: Offset, copied: str
) -> None:
    app = make_app()
    async with running(app) as pilot:
        app.transcript.show_only([NoteEntry("one\ntwo\U0001f600")])
        await pilot.pause()
        app.screen.selections = {app.transcript: Selection(start, end)}
        lines(app.transcript)
        assert (app.screen.get_selected_text() or "").rstrip("\n") == copied


@pytest.mark.parametrize("theme", ["khepri-dark", "khepri-light", "khepri-contrast", "nord", "solarized-light"])
async def test_what_is_selected_can_be_read_in_every_theme(make_app: MakeApp, theme: str) -> None:
    app = make_app()
    async with running(app) as pilot:
        app.theme = theme
        notes = [NoteEntry("told", tone) for tone in Tone]
        app.transcript.show_only([UserEntry("why"), MarkdownEntry("*So* `it`:\n\n```python\nz = 3\n```"), *notes])
        await pilot.pause()
        app.screen.selections = {app.transcript: SELECT_ALL}
        await pilot.pause()
        segments = [each for y in range(20) for each in app.transcript.render_line(y) if each.text.strip()]
        told = {each.text.strip() for each in segments}
        assert {"why", "So", "it", "z", "told"} <= told
        for segment in segments:
            assert segment.style is not None
            assert segment.style.color is not None
            assert segment.style.bgcolor is not None
            ink, paper = map(Color.from_rich_color, (segment.style.color, segment.style.bgcolor))
            assert contrast(ink, paper) > 3, segment


def contrast(one: Color, other: Color) -> float:
    """Return the contrast of two colours as the WCAG defines it."""

    def luminance(color: Color) -> float:
        parts = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in color.normalized)
        return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("width", [100, 60])
async def test_every_character_of_a_full_line_is_seen(make_app: MakeApp, width: int) -> None:
    app = make_app()
    text = ".".join(map(str, range(1000, 1060)))
    async with running(app, (width, 40)) as pilot:
        app.transcript.add(NoteEntry(text))
        await pilot.pause()
        # What the compositor puts on the screen, the scrollbar and the edges included.
        rows = ["".join(segment.text for segment in strip) for strip in app.screen._compositor.render_strips()]
        assert text in re.sub(r"[^0-9.]", "", "".join(rows))
