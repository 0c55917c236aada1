"""What is offered while a message is written, and what a message names."""

import pytest

from khepri.agent.mentioned import known_names
from khepri.tui.completing import Names, completions

NAMES = Names(("retry.py", "docs/my notes.txt", "odd@name.py", "what?", "a.txt"), ("retry.py#retry",))
ARGUMENTS = NAMES.arguments(("a.txt",), ("dark", "light"))


def offered(text: str) -> list[str]:
    return [candidate.insert for candidate in completions(text, NAMES, ARGUMENTS)[1]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("/comp", "/compact "),
        ("see @ret", "@retry.py "),
        ("see @notes", '@"docs/my notes.txt" '),
        ('see @"docs/my n', '@"docs/my notes.txt" '),
        ("see @odd@", "@odd@name.py "),
        ("\n@ret", "@retry.py "),
        ("/add ret", "retry.py "),
        ("/add a.txt notes", "'docs/my notes.txt' "),
        ("/drop a", "a.txt "),
        ("/theme li", "light "),
        ("/export j", "json "),
    ],
)
def test_the_best_match_comes_first(text: str, expected: str) -> None:
    assert offered(text)[0] == expected


@pytest.mark.parametrize(
    "text", ["\n/comp", "a /comp", "me@ret", "/theme ", "/add retry.py", "/drop retry", "/undo x", "/theme dark"]
)
def test_nothing_is_offered_where_nothing_can_be_meant_or_all_is_written(text: str) -> None:
    assert offered(text) == []


@pytest.mark.parametrize("name", NAMES.files)
def test_every_file_that_is_chosen_is_a_file_that_is_named(name: str) -> None:
    replaced, candidates = completions(f"see @{name[:3]}", NAMES)
    (chosen,) = (candidate.insert for candidate in candidates if candidate.label == name)
    message = f"see @{name[:3]}"[:-replaced] + chosen
    assert known_names(f"{message}and @retry.py#retry, please", NAMES.files) == tuple(
        dict.fromkeys((name, "retry.py#retry"))
    )


def test_punctuation_after_a_name_is_not_part_of_it() -> None:
    assert known_names("(@retry.py), @a.txt: why @what? me@a.txt @none.py", NAMES.files) == ("a.txt", "what?")
    assert known_names("see @retry.py.", NAMES.files) == ("retry.py",)
