from collections.abc import Callable
from pathlib import Path

import pytest

from khepri.tools.base import Observation

Call = Callable[..., Observation]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "retry.py").write_text("import time\n\n\ndef retry(limit):\n    return limit\n")
    (tmp_path / "src" / "other.py").write_text("from src.retry import retry\nretry(3)\n")
    (tmp_path / "notes.md").write_text("Retry is limited.\n")
    return tmp_path


def test_rows_are_path_line_text(tree: Path, call: Call) -> None:
    observation = call("search", {"pattern": "def retry"})
    assert observation.text == "src/retry.py:4: def retry(limit):"
    assert (observation.summary, observation.paths) == ("1 match in 1 file", ("src/retry.py",))


def test_context_shows_the_lines_around(tree: Path, call: Call) -> None:
    observation = call("search", {"pattern": "def retry", "context": "1"})
    assert observation.text.split("\n") == [
        "src/retry.py-3- ",
        "src/retry.py:4: def retry(limit):",
        "src/retry.py-5-     return limit",
    ]


def test_path_and_glob_narrow(tree: Path, call: Call) -> None:
    assert call("search", {"pattern": "retry", "glob": "*.md"}).paths == ("notes.md",)
    assert call("search", {"pattern": "retry", "path": "src/other.py"}).summary == "2 matches in 1 file"


def test_what_only_makes_sense_as_a_regular_expression_is_tried_as_one(tree: Path, call: Call) -> None:
    observation = call("search", {"pattern": r"def \w+\("})
    assert observation.text.split("\n") == ["[matched as a regular expression]", "src/retry.py:4: def retry(limit):"]
    assert "regular" not in call("search", {"pattern": r"def \w+\(", "regex": True}).text


def test_a_pattern_with_an_open_bracket_is_text(tree: Path, call: Call) -> None:
    assert call("search", {"pattern": "retry("}).summary == "2 matches in 2 files"
    observation = call("search", {"pattern": "retry(", "regex": True})
    assert observation.text == "error: not a regular expression: unclosed group; search for it as plain text"


def test_no_match_says_what_would_match(tree: Path, call: Call) -> None:
    observation = call("search", {"pattern": "retry policy"})
    assert observation.text.split("\n") == [
        "no match for retry policy (3 files searched)",
        "retry: 4 matches in 3 files, most in src/other.py",
    ]
    assert not observation.is_error
    assert "ignoring case: 1 matches" in call("search", {"pattern": "Def Retry"}).text
    assert (
        "def retry in the whole repository: 1 matches" in call("search", {"pattern": "def retry", "glob": "*.md"}).text
    )
    assert "try a shorter or another word" in call("search", {"pattern": "zebra"}).text


def test_a_cut_names_the_files_that_are_missing(tree: Path, call: Call) -> None:
    for number in range(20):
        (tree / f"m{number:02}.py").write_text("needle here\n" * 50)
    observation = call("search", {"pattern": "needle"}, budget=150)
    last = observation.text.split("\n")[-1]
    shown = observation.text.count("needle here")
    assert last.startswith(f"[cut: {1000 - shown} more matches in m")
    assert "more files; name a path or a longer pattern]" in last
    assert observation.summary == "1000 matches in 20 files"


def test_a_cap_is_told_even_if_all_rows_fit(tree: Path, call: Call) -> None:
    (tree / "many.txt").write_text("needle\n" * 500)
    observation = call("search", {"pattern": "needle"}, budget=5000)
    assert observation.text.split("\n")[-1] == "[cut: 440 more matches; name a path or a longer pattern]"


def test_a_match_far_into_a_long_line_is_shown(tree: Path, call: Call) -> None:
    (tree / "min.js").write_text("x" * 100_000 + "needle" + "y" * 100_000)
    observation = call("search", {"pattern": "needle"})
    assert "needle" in observation.text
    assert len(observation.text) < 300


def test_escapes_in_a_file_do_not_reach_the_terminal(tree: Path, call: Call) -> None:
    (tree / "evil.log").write_text("\x1b]0;owned\x07needle\x1b[2J\x08\u202e\n")
    assert call("search", {"pattern": "needle"}).text == "evil.log:1: needle\\x08\\u202e"


def test_secrets_are_not_found(tree: Path, call: Call) -> None:
    (tree / ".env").write_text("needle\n")
    assert call("search", {"pattern": "needle"}).summary == "no match"
    assert call("search", {"pattern": "needle", "path": ".env"}).is_error
