"""Keys with an escape before them, as terminals without the kitty protocol send them."""

from pathlib import Path

import pytest
from textual import events

from khepri.tui.driver_keys import KeyParser, pressed_one_by_one
from tests.support.lasting import LASTING
from tests.tui.conftest import MakeApp, running, wait_until


def keys_of(text: str) -> list[tuple[str, str | None]]:
    messages = KeyParser().feed(text)
    return [(message.key, message.character) for message in messages if isinstance(message, events.Key)]


@pytest.mark.parametrize(
    ("sent", "key"),
    [
        ("\x1b\r", "alt+enter"),
        ("\x1b[27;2;13~", "shift+enter"),
        ("\x1b[27;3;13~", "alt+enter"),
        ("\x1b[27;5;13~", "ctrl+enter"),
        ("\x1b[27;5;106~", "ctrl+j"),
        ("\x1b[13;2u", "shift+enter"),
    ],
)
def test_enter_with_another_key_is_not_enter(sent: str, key: str) -> None:
    assert keys_of(sent) == [(key, None)]


def test_a_character_with_shift_in_the_words_of_xterm_is_written() -> None:
    assert [character for _, character in keys_of("\x1b[27;2;65~\x1b[27;2;63~")] == ["A", "?"]


def test_alt_with_a_character_comes_at_once() -> None:
    sent = "\x1bw\x1bW\x1b1\x1b?\x1b é"
    wanted = [("alt+w", "w"), ("alt+shift+w", "W"), ("alt+1", "1"), ("alt+question_mark", "?"), ("alt+space", " ")]
    assert keys_of(sent) == [*wanted, ("é", "é")]


@pytest.mark.parametrize(
    ("sent", "key"),
    [("\x1b[A", "up"), ("\x1bOP", "f1"), ("\x1bOA", "up"), ("\x1bb", "ctrl+left"), ("\x1b\x7f", "ctrl+w")],
)
def test_sequences_that_are_known_stay_what_they_are(sent: str, key: str) -> None:
    assert [name for name, _ in keys_of(sent)] == [key]


@pytest.mark.parametrize(("name", "character"), [("w", "w"), ("shift+w", "W"), ("question_mark", "?"), ("space", " ")])
def test_alt_with_a_character_is_taken_apart_into_what_was_pressed(name: str, character: str) -> None:
    first, second = pressed_one_by_one(events.Key(f"alt+{name}", character))
    assert first.key == "escape"
    assert second.character == character
    assert second.key == (character if character.isalnum() else name)


@pytest.mark.parametrize("key", [events.Key("alt+w", None), events.Key("w", "w"), events.Key("alt+enter", None)])
def test_no_other_key_is_taken_apart(key: events.Key) -> None:
    assert pressed_one_by_one(key) == ()


@pytest.mark.parametrize(("set_ms", "waits_s"), [(None, 0.05), ("100", 0.1)])
def test_an_escape_with_nothing_behind_it_is_the_key_after_a_twentieth_of_a_second_or_what_is_set(
    monkeypatch: pytest.MonkeyPatch, set_ms: str | None, waits_s: float
) -> None:
    now_s = [7.0]
    for module in ("textual._parser", "khepri.tui.driver_keys"):
        monkeypatch.setattr(f"{module}.get_time", lambda: now_s[0])
    monkeypatch.delenv("ESCDELAY", raising=False)
    if set_ms is not None:
        monkeypatch.setenv("ESCDELAY", set_ms)
    parser = KeyParser()
    assert parser.wait_s is None
    assert list(parser.feed("\x1b")) == []
    assert parser.wait_s == pytest.approx(waits_s)
    now_s[0] += waits_s - 0.001
    assert list(parser.tick()) == []
    now_s[0] += 0.002
    assert [event.key for event in parser.tick() if isinstance(event, events.Key)] == ["escape"]
    assert parser.wait_s is None


async def test_a_letter_right_behind_escape_stops_and_is_written(make_app: MakeApp, lasting_model: Path) -> None:
    app = make_app(model=lasting_model, **LASTING)
    async with running(app) as pilot:
        await pilot.press(*"retry?", "enter")
        await wait_until(pilot, lambda: app.turns.is_busy)
        for key in KeyParser().feed("\x1bno"):
            app.post_message(key)
        await wait_until(pilot, lambda: not app.turns.is_busy)
        assert app.composer.text == "no"


async def test_alt_with_a_letter_that_does_something_is_no_escape(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        await pilot.press(*"ab")
        for key in KeyParser().feed("\x1bz"):
            app.post_message(key)
        await wait_until(pilot, lambda: app.composer.text == "")


async def test_alt_enter_begins_a_new_line_without_the_kitty_protocol(make_app: MakeApp) -> None:
    app = make_app()
    async with running(app) as pilot:
        for key in KeyParser().feed("a\x1b\rb\x1b[27;2;13~c"):
            app.post_message(key)
        await wait_until(pilot, lambda: app.composer.text == "a\nb\nc")
