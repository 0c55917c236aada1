"""What a user can answer to a change in a terminal."""

import io
import stat
from pathlib import Path

import pytest
from rich.console import Console

from khepri.cli.change_input import ask_about
from khepri.edits.change import ChangeSet, FileChange, change_set

OLD = b"1\n" + b"x\n" * 20 + b"2\r\n"
NEW = b"one\n" + b"x\n" * 20 + b"two\r\n"
CHANGES = change_set("numbers", [FileChange("a.txt", OLD, NEW), FileChange("b.txt", None, b"new\n")])


def answered(monkeypatch: pytest.MonkeyPatch, answers: str) -> tuple[ChangeSet | None, str]:
    shown = io.StringIO()
    monkeypatch.setattr("sys.stdin", io.StringIO(answers))
    decision = ask_about(CHANGES, Console(file=shown, width=100))
    return decision.changes, shown.getvalue()


def test_yes_writes_all_of_it_and_it_was_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    changes, shown = answered(monkeypatch, "y\n")
    assert changes == CHANGES
    assert "+one" in shown
    assert "-2" in shown
    assert "2 files, 3 lines added, 2 removed" in shown


def test_nothing_is_asked_before_all_of_a_long_change_was_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    old = "".join(f"{number}\n" for number in range(2000)).encode()
    long = change_set("numbers", [FileChange("a.txt", old, old.replace(b"5\n", b"five\n"))])
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    shown = io.StringIO()
    ask_about(long, Console(file=shown, width=100))
    assert shown.getvalue().count("five\n") == long.added_lines == 200
    assert shown.getvalue().index("+199five") < shown.getvalue().index("Write it?")


@pytest.mark.parametrize("answers", ["n\n", "q\n", "", "what?\nno\n"])
def test_no_and_the_end_of_input_write_nothing(monkeypatch: pytest.MonkeyPatch, answers: str) -> None:
    assert answered(monkeypatch, answers)[0] is None


def test_some_of_it_is_asked_for_part_by_part(monkeypatch: pytest.MonkeyPatch) -> None:
    changes, _ = answered(monkeypatch, "s\nn\ny\nn\ny\n")
    assert changes is not None
    assert changes.files == (FileChange("a.txt", OLD, OLD.replace(b"2\r\n", b"two\r\n")),)
    assert answered(monkeypatch, "s\nn\nn\nn\n")[0] is None
    assert answered(monkeypatch, "s\ny\nb\ny\n")[0] == CHANGES


def test_an_editor_changes_what_is_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    editor = tmp_path / "my editor"
    editor.write_text('#!/bin/sh\nsed -i s/one/uno/ "$1"\n', encoding="utf-8")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VISUAL", f"'{editor}'")
    changes, shown = answered(monkeypatch, "e\ny\n")
    assert changes is not None
    assert changes.files[0].after == NEW.replace(b"one", b"uno")
    assert "+uno" in shown


@pytest.mark.parametrize(
    ("editor", "why"),
    [
        ("false", "the editor false ended with exit status 1"),
        ("/no/such/editor", "the editor /no/such/editor is not there"),
        ("'", "could not be started: No closing quotation"),
        ("truncate -s0", "the editor left a.txt empty"),
        ("rm", "the editor rm left no file"),
    ],
)
def test_an_editor_that_fails_leaves_the_change_as_it_was_and_is_told(
    monkeypatch: pytest.MonkeyPatch, editor: str, why: str
) -> None:
    monkeypatch.setenv("VISUAL", editor)
    changes, shown = answered(monkeypatch, "e\ny\n")
    assert changes == CHANGES
    told, asked_again = shown.index(why), shown.rindex("Write it?")
    assert told < asked_again
    assert shown.count("a.txt is as it was") == 1


def test_what_was_edited_before_the_editor_fails_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\ngrep -q one "$1" && sed -i s/one/uno/ "$1"\n', encoding="utf-8")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VISUAL", str(editor))
    changes, shown = answered(monkeypatch, "e\ny\n")
    assert changes is not None
    assert changes.files == (FileChange("a.txt", OLD, NEW.replace(b"one", b"uno")), CHANGES.files[1])
    assert "b.txt is as it was" in shown


def test_what_is_shown_cannot_steer_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    ask_about(change_set("x", [FileChange("a", b"", b"\x1b]0;title\x07[red]x\n")]), Console(file=shown, width=100))
    assert "\x1b" not in shown.getvalue()
    assert "[red]x" in shown.getvalue()


def test_a_fault_that_an_editor_left_is_told_before_it_is_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/double(x):/double(x)/" "$1"\n', encoding="utf-8")
    editor.chmod(editor.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("VISUAL", str(editor))
    changes = change_set("t", [FileChange("a.py", b"", b"x = 1\ndef double(x): ...\n")])
    shown = io.StringIO()
    monkeypatch.setattr("sys.stdin", io.StringIO("e\nn\n"))
    assert ask_about(changes, Console(file=shown, width=100)).changes is None
    assert "a.py:2: expected ':'; e opens the editor again" in shown.getvalue()
    monkeypatch.setattr("sys.stdin", io.StringIO("e\ny\n"))
    decided = ask_about(changes, Console(file=shown, width=100)).changes
    assert decided is not None
    assert decided.files[0].after == b"x = 1\ndef double(x) ...\n"
