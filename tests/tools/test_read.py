import os
from collections.abc import Callable
from pathlib import Path

import pytest

from khepri.repo.root import Repository
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.registry import Registry
from tests.tools.conftest import count_tokens

Call = Callable[..., Observation]

APP = """\
from typing import overload


class App:
    @overload
    def run(self, argument: int) -> int: ...
    @overload
    def run(self, argument: str) -> str: ...
    def run(self, argument):
        return argument

    @property
    def size(self):
        return self._size

    @size.setter
    def size(self, value):
        self._size = value

    def stop(self):
        pass


class Other:
    def stop(self):
        return 2


def helper():
    return 1


class Filler:
    first = 1
    second = 2
    third = 3


def helper():
    value = 2
    return value
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 1001)))
    return tmp_path


@pytest.fixture
def session(tree: Path) -> Callable[..., Observation]:
    """Reads within one session, which remembers what it has shown."""
    context = ToolContext(Repository.open(tree), count_tokens, 300)
    registry = Registry.load(user_dir=tree / "no-user-tools")

    def read(**arguments: str | int) -> Observation:
        given: Arguments = dict(arguments)
        observation = registry.run(context, "read", given)
        assert observation.tokens == count_tokens(observation.text) <= context.budget_tokens
        return observation

    return read


def numbers(observation: Observation) -> list[int]:
    """Return the numbers of the lines that are shown."""
    starts = (row.strip().split("  ")[0] for row in observation.text.split("\n"))
    return [int(start) for start in starts if start.isdigit()]


def test_a_file_is_shown_with_its_line_numbers(tmp_path: Path, call: Call) -> None:
    (tmp_path / "a b.py").write_text("one\n\n\tthree")
    observation = call("read", {"path": "a b.py"})
    assert observation.text == "a b.py, lines 1-3 of 3:\n1  one\n2  \n3  \tthree"
    assert (observation.summary, observation.paths) == ("a b.py:1-3", ("a b.py",))


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ({"start": 3, "end": 5}, [3, 4, 5]),
        ({"start": 999}, [999, 1000]),
        ({"start": 999, "end": 5000}, [999, 1000]),
        ({"end": 2}, [1, 2]),
        ({"start": "7", "end": 7}, [7]),
        ({"start": -3, "end": 1}, [1]),
    ],
)
def test_a_range_is_obeyed_and_ends_with_the_file(
    tree: Path, call: Call, asked: dict[str, int], shown: list[int]
) -> None:
    assert numbers(call("read", {"path": "long.txt", **asked})) == shown


def test_a_range_that_is_not_there_says_what_is(tree: Path, call: Call) -> None:
    beyond = call("read", {"path": "long.txt", "start": 1001})
    assert (beyond.is_error, beyond.text) == (
        True,
        "error: long.txt has 1000 lines; ask for lines between 1 and 1000",
    )
    turned = call("read", {"path": "long.txt", "start": 9, "end": 3})
    assert turned.is_error
    assert "the range 9-3 is empty" in turned.text


def test_a_cut_says_where_to_read_on_and_reading_on_reaches_the_end(tree: Path, call: Call) -> None:
    seen: list[int] = []
    start = 1
    while start <= 1000:
        observation = call("read", {"path": "long.txt", "start": start}, budget=400)
        shown = numbers(observation)
        assert shown[0] == start
        seen += shown
        start = shown[-1] + 1
        if start <= 1000:
            note = f"[cut after line {shown[-1]}; read on with start={start}, or name a symbol]"
            assert observation.text.endswith(note)
    assert seen == list(range(1, 1001))


@pytest.mark.parametrize(
    ("symbol", "first", "last"),
    [
        ("App", 4, 21),
        ("App.run", 5, 10),
        ("run", 5, 10),
        ("run()", 5, 10),
        ("def run(self, argument)", 5, 10),
        ("App::run", 5, 10),
        ("self.run", 5, 10),
        ("app.App.run", 5, 10),
        ("`App.stop`", 20, 21),
        ("class Other:", 24, 26),
        ("OTHER", 24, 26),
        ("size", 12, 18),
    ],
)
def test_one_definition_is_found_however_it_is_spelled(
    tree: Path, call: Call, symbol: str, first: int, last: int
) -> None:
    observation = call("read", {"path": "app.py", "symbol": symbol})
    assert numbers(observation) == list(range(first, last + 1))
    assert observation.text.startswith(f"app.py, lines {first}-{last} of 41:\n")


def test_the_longest_of_several_definitions_is_shown_and_the_others_are_named(tree: Path, call: Call) -> None:
    observation = call("read", {"path": "app.py", "symbol": "helper"})
    assert observation.text.startswith("helper is also defined in lines 29-30.\napp.py, lines 39-41 of 41:\n")


def test_an_ambiguous_name_is_answered_with_the_full_ones(tree: Path, call: Call) -> None:
    observation = call("read", {"path": "app.py", "symbol": "stop"})
    assert observation.is_error
    assert "name one of: App.stop (line 20), Other.stop (line 25)" in observation.text


def test_a_missing_name_shows_the_beginning_and_close_names(tree: Path, call: Call) -> None:
    observation = call("read", {"path": "app.py", "symbol": "Ap.rnu"})
    assert not observation.is_error
    assert observation.text.startswith("app.py does not define Ap.rnu; it defines App.run")
    assert numbers(observation)[0] == 1
    unlike = call("read", {"path": "app.py", "symbol": "zzz"})
    assert "zzz; it defines App, App.run, App.size, App.stop, Other, Other.stop, helper, Filler" in unlike.text
    prose = call("read", {"path": "long.txt", "symbol": "App"})
    assert prose.text.startswith("long.txt does not define App; read it by lines, or use search. Its beginning:")


@pytest.mark.parametrize("symbol", ["(", "()", ".", "x" * 5000, "\x1b[2J", "ä.ö", "a b c", "def", "🐞"])
def test_an_absurd_name_is_only_a_missing_one(tree: Path, call: Call, symbol: str) -> None:
    observation = call("read", {"path": "app.py", "symbol": symbol})
    assert "does not define" in observation.text
    assert "\x1b" not in observation.text


def test_a_heading_is_a_symbol_of_prose(tmp_path: Path, call: Call) -> None:
    (tmp_path / "README.md").write_text("# Title\n\n## Getting started (beta)\n\nsteps\n\n## End\n")
    assert numbers(call("read", {"path": "README.md", "symbol": "Getting started (beta)"})) == [3, 4, 5, 6]


def test_what_was_shown_is_not_shown_again(session: Callable[..., Observation]) -> None:
    assert numbers(session(path="app.py", symbol="App.run")) == [5, 6, 7, 8, 9, 10]
    again = session(path="./app.py", symbol="run")
    assert (again.text, again.summary) == ("app.py lines 5-10: shown above already, unchanged", "shown already")
    assert session(path="app.py", start=5, end=10).summary == "shown already"
    assert numbers(session(path="app.py", start=5, end=11)) == [5, 6, 7, 8, 9, 10, 11]


def test_a_cut_reading_is_repeated_only_as_far_as_it_went(session: Callable[..., Observation]) -> None:
    last = numbers(session(path="long.txt"))[-1]
    assert last < 1000
    again = session(path="long.txt")
    assert again.text == f"long.txt lines 1-{last}: shown above already, unchanged; read on with start={last + 1}"
    assert numbers(session(path="long.txt", start=last + 1))[0] == last + 1


def test_a_second_missing_name_still_hears_what_there_is(session: Callable[..., Observation]) -> None:
    session(path="app.py")
    again = session(path="app.py", symbol="nope")
    assert again.text.startswith("app.py does not define nope; it defines ")
    assert again.text.endswith("Its beginning:\napp.py lines 1-41: shown above already, unchanged")


def test_a_changed_file_is_shown_again(tree: Path, session: Callable[..., Observation]) -> None:
    session(path="long.txt", start=1, end=3)
    (tree / "long.txt").write_text("other\nlines\nnow\n")
    assert session(path="long.txt", start=1, end=3).text.endswith("3  now")


def test_an_empty_file_says_so(tmp_path: Path, call: Call) -> None:
    (tmp_path / "empty.py").touch()
    observation = call("read", {"path": "empty.py", "start": 5})
    assert (observation.text, observation.is_error) == ("empty.py is empty", False)
    (tmp_path / "blank.py").write_text("\n")
    assert call("read", {"path": "blank.py"}).text == "blank.py, lines 1-1 of 1:\n1  "


def test_folders_binaries_pipes_secrets_and_links_out_are_refused(tree: Path, call: Call) -> None:
    (tree / "folder").mkdir()
    (tree / "folder" / "a.py").touch()
    (tree / "blob").write_bytes(bytes(range(256)))
    os.mkfifo(tree / "pipe")
    (tree / ".env").write_text("TOKEN=1")
    (tree / "out").symlink_to("/etc/passwd")
    for path, words in {
        "folder": "is a folder; use list or outline",
        "blob": "binary file, 256 bytes",
        "pipe": "not a regular file",
        ".env": "secret",
        "out": "leads out of the repository",
        "../x": "",
        "/etc/passwd": "",
        "none.py": "",
    }.items():
        observation = call("read", {"path": path})
        assert observation.is_error, path
        assert words in observation.text, observation.text
        assert "TOKEN" not in observation.text
        assert "root:" not in observation.text


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig", "utf-32"])
def test_every_encoding_is_read(tmp_path: Path, call: Call, encoding: str) -> None:
    (tmp_path / "a.txt").write_bytes("größe\r\nzwei\r\n".encode(encoding))
    assert call("read", {"path": "a.txt"}).text == "a.txt, lines 1-2 of 2:\n1  größe\n2  zwei"


def test_broken_utf_8_is_shown_somehow(tmp_path: Path, call: Call) -> None:
    (tmp_path / "a.txt").write_bytes(b"fine\nbro\xffken \xc3\n")
    rows = call("read", {"path": "a.txt"}).text.split("\n")
    assert rows[1] == "1  fine"
    assert rows[2].startswith("2  bro")


def test_long_lines_are_cut_with_their_length(tmp_path: Path, call: Call) -> None:
    (tmp_path / "min.js").write_text("x" * 100_000 + "\nend\n")
    rows = call("read", {"path": "min.js"}).text.split("\n")
    assert rows[1].endswith("[cut: 99760 more characters]")
    assert rows[2] == "2  end"


def test_control_characters_cannot_drive_the_terminal(tmp_path: Path, call: Call) -> None:
    (tmp_path / "a.txt").write_text("red \x1b[31m\x07 turned \u202e\n")
    text = call("read", {"path": "a.txt"}).text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_end_of_a_file_too_large_to_read_whole_is_left_to_search(tmp_path: Path, call: Call) -> None:
    (tmp_path / "big.py").write_text("".join(f"def f{number}(): return {number}\n" for number in range(100_000)))
    assert " or more:" in call("read", {"path": "big.py"}).text.split("\n")[0]
    beyond = call("read", {"path": "big.py", "start": 99_000})
    assert "too large: only its first" in beyond.text
    assert "use search" in beyond.text
    missing = call("read", {"path": "big.py", "symbol": "zzz"})
    assert missing.text.startswith("the readable beginning of big.py does not define zzz")
    (tmp_path / "one.txt").write_text("y" * 3_000_000)
    assert "characters]" in call("read", {"path": "one.txt"}).text


@pytest.mark.parametrize("budget", [1, 5, 20, 60])
def test_the_smallest_budget_is_kept(tree: Path, call: Call, budget: int) -> None:
    for arguments in ({}, {"symbol": "App"}, {"symbol": "zzz"}, {"start": 40}):
        assert call("read", {"path": "app.py", **arguments}, budget=budget).text
