"""The app driven by its keys, on a real session."""

from collections.abc import Callable
from pathlib import Path

import pytest
from textual import events
from textual.widgets import TextArea

from khepri.tui.app import KhepriApp
from khepri.tui.entries import AnswerEntry, NoteEntry, StepEntry, UserEntry
from khepri.tui.widgets.composer import Composer
from khepri.tui.widgets.transcript import Transcript
from tests.support.lasting import LASTING
from tests.tui.conftest import MakeApp, running, wait_until


def kinds(transcript: Transcript) -> list[type]:
    return [type(entry) for entry in transcript.entries]


async def test_a_question_is_answered_with_its_steps_before_the_answer(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await pilot.press(*"retry?", "enter")
        transcript = app.transcript
        await wait_until(pilot, lambda: NoteEntry in kinds(transcript))
        shown = kinds(transcript)
        assert shown[0] is UserEntry
        assert shown.index(StepEntry) < shown.index(AnswerEntry) < shown.index(NoteEntry)
        assert app.composer.text == ""
        status = app.status.status
        assert status.activity == ""
        assert "tokens/s (" in status.speed


async def test_the_context_is_counted_while_an_answer_is_written(make_app: MakeApp, lasting_model: Path) -> None:
    app = make_app(model=lasting_model, **LASTING)
    async with running(app) as pilot:
        app.ask("why")
        await wait_until(pilot, lambda: app.status.status.activity.startswith("writing, "))
        before = app.status.status.context_tokens
        await wait_until(pilot, lambda: app.status.status.context_tokens > before + 3)
        await pilot.press("escape")
        await wait_until(pilot, lambda: not app.turns.is_busy)
        assert app.status.status.context_tokens == len(app.conversation.history.prompt)


async def test_what_is_typed_before_enter_is_sent_however_fast_it_comes(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        # The keys of one write of the terminal, without a turn of the loop between them.
        pilot.app.simulate_key("a")
        pilot.app.simulate_key("b")
        pilot.app.simulate_key("enter")
        transcript = app.transcript
        await wait_until(pilot, lambda: bool(transcript.entries))
        assert transcript.entries[0].text == "ab"


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        (("a", "b", "c", "backspace", "d"), "abd"),
        (("o", "l", "d", "ctrl+u", "n", "e", "w"), "new"),
        (("a", "b", "home", "x"), "xab"),
        (("a", "b", "left", "left", "delete", "x"), "xb"),
        (("a", "ctrl+w", "b", "ctrl+j", "c"), "b\nc"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_keys_that_come_at_once_are_taken_in_their_order(
    make_app: MakeApp, keys: tuple[str, ...], text: str
) -> None:
    app = make_app()
    async with running(app) as pilot:
        for key in keys:
            pilot.app.simulate_key(key)
        await wait_until(pilot, lambda: app.composer.text == text)


async def test_a_command_that_is_written_in_full_runs_with_one_enter(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await pilot.press(*"/diff")
        await wait_until(pilot, lambda: app.composer._completion.is_open)
        await pilot.press("enter")
        await wait_until(pilot, lambda: bool(app.transcript.entries))
        assert app.composer.text == ""


@pytest.mark.parametrize("key", ["enter", "tab"])
async def test_a_list_that_is_older_than_the_text_is_not_accepted(make_app: MakeApp, key: str) -> None:
    app = make_app()
    async with running(app) as pilot:
        await pilot.press(*"/stat")
        await wait_until(pilot, lambda: app.composer._completion.is_open)
        pilot.app.simulate_key("s")
        pilot.app.simulate_key(key)
        if key == "enter":
            await wait_until(pilot, lambda: bool(app.transcript.entries) or len(app.screen_stack) > 1)
            assert app.status.status.queued == 0
            assert app.composer.text == ""
        else:
            await wait_until(pilot, lambda: app.composer.text == "/stats")
            assert app.focused is app.composer


async def test_commands_that_do_not_fit_into_the_list_come_into_view(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await pilot.press("/")
        completion = app.composer._completion
        await wait_until(pilot, lambda: completion.is_open)
        commands = [candidate.label.split()[0] for candidate in completion.candidates]
        assert len(commands) > completion.size.height
        for command in (*commands[1:], commands[0]):
            await pilot.press("down")
            shown = str(completion.render()).split("\n")
            assert any(line.split()[0] == command for line in shown)
            assert len(shown) == 8


async def test_a_list_closes_when_what_it_is_for_is_taken_away(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await pilot.press("/")
        await wait_until(pilot, lambda: app.composer._completion.is_open)
        await pilot.press("backspace")
        await wait_until(pilot, lambda: not app.composer._completion.is_open, timeout_s=60)
        await pilot.press("/")
        await wait_until(pilot, lambda: app.composer._completion.is_open)
        app.composer.put("what waited")
        assert not app.composer._completion.is_open


async def test_what_was_sent_meanwhile_is_not_completed_any_more(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await pilot.press(*"/ad")
        await wait_until(pilot, lambda: app.composer._completion.is_open)
        app.composer.take()
        app.on_composer_written(Composer.Written("/ad"))
        assert not app.composer._completion.is_open
        await pilot.press("tab")
        assert app.composer.text == ""


@pytest.mark.parametrize("keys", [(), ("tab",)], ids=["after a click", "after Tab"])
async def test_what_is_typed_with_the_focus_on_the_conversation_is_written(
    make_app: MakeApp, keys: tuple[str, ...]
) -> None:
    app = make_app()
    async with running(app) as pilot:
        await pilot.press(*"so ")
        app.transcript.add(*(NoteEntry(f"note {number}") for number in range(3)))
        await (pilot.press(*keys) if keys else pilot.click(Transcript, offset=(2, 0)))
        await wait_until(pilot, lambda: app.focused is app.transcript)
        for character in "cygGkj x":
            app.post_message(events.Key("space" if character == " " else character, character))

        await wait_until(pilot, lambda: app.composer.text == "so cygGkj x")
        assert app.focused is app.composer
        assert app.clipboard == ""


@pytest.mark.parametrize(
    ("act", "text"),
    [
        (lambda app: app.simulate_key("backspace"), "half"),
        (lambda app: app.simulate_key("ctrl+j"), "half-\n"),
        (lambda app: app.post_message(events.Paste("pasted")), "half-pasted"),
    ],
    ids=["Backspace", "new line", "a paste"],
)
async def test_what_changes_a_message_does_so_with_the_focus_on_the_conversation(
    make_app: MakeApp, act: Callable[[KhepriApp], object], text: str
) -> None:
    app = make_app()
    async with running(app) as pilot:
        await pilot.press(*"half-", "tab")
        await wait_until(pilot, lambda: app.focused is app.transcript)
        act(app)
        await wait_until(pilot, lambda: app.composer.text == text)


async def test_escape_leads_from_the_conversation_back_to_the_composer_and_stops_nothing(
    make_app: MakeApp, lasting_model: Path
) -> None:
    app = make_app(model=lasting_model, **LASTING)
    async with running(app) as pilot:
        await pilot.press(*"retry?", "enter")
        await wait_until(pilot, lambda: AnswerEntry in kinds(app.transcript))
        await pilot.press("tab")
        await wait_until(pilot, lambda: app.focused is app.transcript)
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.focused is app.composer)
        assert app.turns.is_busy
        await pilot.press("escape")
        await wait_until(pilot, lambda: not app.turns.is_busy)


@pytest.mark.parametrize("key", ["escape", "ctrl+c"])
async def test_a_question_is_stopped_and_keeps_what_was_said(make_app: MakeApp, lasting_model: Path, key: str) -> None:
    app = make_app(model=lasting_model, **LASTING)
    async with running(app) as pilot:
        await pilot.press(*"retry?", "enter")
        transcript = app.transcript
        await wait_until(pilot, lambda: AnswerEntry in kinds(transcript))
        await pilot.press(key)
        await wait_until(pilot, lambda: "stopped" in [entry.text for entry in transcript.entries])
        assert AnswerEntry in kinds(transcript)
        assert app.is_running


async def test_messages_queue_while_one_is_answered_and_come_back_when_it_is_stopped(
    make_app: MakeApp, lasting_model: Path
) -> None:
    app = make_app(model=lasting_model, **LASTING)
    async with running(app) as pilot:
        transcript = app.transcript
        await pilot.press(*"retry?", "enter")
        await wait_until(pilot, lambda: AnswerEntry in kinds(transcript))
        app.composer.post_message(events.Paste("x\n" * 100))
        await pilot.press(*" wait", "enter")
        await wait_until(pilot, lambda: app.status.status.queued == 1)
        await pilot.press(*"half")
        await pilot.press("escape")
        await wait_until(pilot, lambda: app.status.status.activity == "")
        assert app.composer.text == "[paste 1: 101 lines, 200 characters] wait\nhalf"
        assert [paste.text for paste in app.composer.draft[1]] == ["x\n" * 100]
        assert app.status.status.queued == 0


async def test_an_interrupt_gives_back_what_waits_for_the_model(make_app: MakeApp, tmp_path: Path) -> None:
    app = make_app(model=tmp_path / "none.gguf")
    async with running(app) as pilot:
        await pilot.press(*"why", "enter")
        await wait_until(pilot, lambda: app.status.status.queued == 1)
        await pilot.press("ctrl+c")
        await wait_until(pilot, lambda: app.composer.text == "why")
        assert app.status.status.queued == 0


async def test_two_presses_of_ctrl_c_leave(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await wait_until(pilot, lambda: app.conversation.session is not None)
        await pilot.press("ctrl+c")
        assert app.is_running
        app.action_interrupt()
        app.action_interrupt()
        await wait_until(pilot, lambda: app.return_value is not None)
    assert app.return_value == 0


async def test_a_step_is_opened_and_what_it_shows_cannot_steer_the_terminal(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        transcript = app.transcript
        step = StepEntry("read x")
        step.finish("3 lines", "a \x1b[31mred\x1b[0m \x9b2J and \x07 bell", is_error=False)
        transcript.add(step)
        await pilot.press("ctrl+o")
        await wait_until(pilot, lambda: len(step.blocks) == 2)
        text = "\n".join(strip.text for block in step.blocks for strip in block.strips)
        assert "red" in text
        assert not {"\x1b", "\x9b", "\x07"} & set(text)
        await pilot.press("ctrl+o")
        await wait_until(pilot, lambda: len(step.blocks) == 1)


async def test_a_large_paste_is_kept_aside_and_sent_whole(make_app: MakeApp) -> None:
    app = make_app()
    text = "0123456789abcde\n" * 65_536
    async with running(app) as pilot:
        composer = app.composer
        composer.post_message(events.Paste(text))
        await wait_until(pilot, lambda: bool(composer.text))
        assert composer.text == "[paste 1: 65,537 lines, 1,048,576 characters]"
        assert len(composer.text) < 100
        _, pastes = composer.take()
        assert pastes[0].text == text
        composer.action_older()
        assert [paste.text for paste in composer.draft[1]] == [text]


async def test_a_backslash_at_the_end_of_a_line_asks_for_another_one(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        composer: TextArea = app.composer
        await pilot.press("a", "backslash", "enter", "b")
        await wait_until(pilot, lambda: composer.text == "a\nb")
        await wait_until(pilot, lambda: composer.size.height == 2)
        assert composer.text == "a\nb"


async def test_the_first_frame_is_told_of_once_and_before_the_model_is_loaded(make_app: MakeApp) -> None:
    seen: list[tuple[bool, bool]] = []
    app: KhepriApp = make_app(drawn=lambda: seen.append((app.composer.region.area > 0, app.conversation.is_loading)))
    async with running(app) as pilot:
        await wait_until(pilot, lambda: app.conversation.session is not None)
        await pilot.resize_terminal(80, 20)
    assert seen == [(True, False)]


async def test_a_key_whose_message_comes_when_the_app_has_ended_is_of_no_consequence(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app):
        pass
    app.on_composer_written(Composer.Written("@sh"))
    assert not app.screen_stack
