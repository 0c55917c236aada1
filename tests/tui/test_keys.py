"""Keys of the user's own: what is taken, and what is refused with words that help."""

from pathlib import Path

import pytest
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from khepri.errors import ConfigError
from khepri.tui.keys import load_keys
from tests.tui.conftest import MakeApp, running, wait_until


def test_keys_are_read_as_people_write_them(tmp_path: Path) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(
        '"composer.newline" = "ctrl+n, alt+enter"\n"review.apply" = "?"\n'
        '"app.stop" = "ctrl+slash"\n"app.quit" = "f10"\n'
    )
    assert load_keys(file) == {
        "composer.newline": "ctrl+n,alt+enter",
        "review.apply": "question_mark",
        "app.stop": "ctrl+slash",
        "app.quit": "f10",
    }
    assert load_keys(tmp_path / "none.toml") == {}


@pytest.mark.parametrize("key", ['"C-n"', '"ctrl+nothing"', '"control+n"', '""', '"a,"', "1", '["a"]'])
def test_what_no_terminal_sends_is_refused(tmp_path: Path, key: str) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(f'"composer.newline" = {key}\n')
    with pytest.raises(ConfigError, match="no key") as refused:
        load_keys(file)
    assert "ctrl+n" in refused.value.hint


def test_an_action_that_does_not_exist_is_refused(make_app: MakeApp) -> None:
    with pytest.raises(ConfigError, match=r"no action composer\.newlin$"):
        make_app(keys={"composer.newlin": "ctrl+n"})


@pytest.mark.parametrize("name", ["app.help", "composer.send", "picker.cancel", "transcript.copy"])
@pytest.mark.parametrize("key", ["h", "f2,H", "?", "space", "é", "question_mark", "shift+a"])
def test_a_key_that_could_not_be_typed_any_more_is_refused(
    make_app: MakeApp, tmp_path: Path, name: str, key: str
) -> None:
    file = tmp_path / "keys.toml"
    file.write_text(f'"{name}" = "{key}"\n', encoding="utf-8")
    with pytest.raises(ConfigError, match="could not be typed any more"):
        make_app(keys=load_keys(file))


def test_letters_are_taken_where_nobody_writes_and_keys_that_write_nothing_everywhere(make_app: MakeApp) -> None:
    keys = {
        "review.apply": "w",
        "stats.close": "space",
        "app.help": "f5",
        "composer.send": "enter,ctrl+space,alt+s",
    }
    assert make_app(keys=keys).start.keys == keys


@pytest.mark.parametrize("name", ["review.apply", "picker.cancel", "stats.close", "transcript.copy"])
async def test_the_keys_of_every_screen_can_be_changed_and_the_footer_shows_them(make_app: MakeApp, name: str) -> None:
    app = make_app(keys={name: "f7", "app.toggle_last": "f8"})
    async with running(app) as pilot:
        assert any(binding.id == name and binding.key == "f7" for binding in app.known_bindings())
        footer = app.screen.query_one(Footer)
        await wait_until(pilot, lambda: "f8" in [key.key for key in footer.query(FooterKey)])
