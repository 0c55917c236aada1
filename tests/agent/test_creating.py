"""A new file: where it goes, what the model is shown for it, and which guards it passes."""

from pathlib import Path

import pytest

from khepri.agent.new_paths import new_paths
from khepri.agent.task import Instruction
from khepri.edits.apply import undo
from khepri.edits.refusal import EditRefusedError
from tests.support.changing import Change, planned

FILES = ("app/__init__.py", "app/net/http.py", "tests/test_app.py", "web/view.ts", "go/run.go")
TASK = "write a test file for fetch"
TEST = "from app import fetch\n\n\ndef test_fetch():\n    assert fetch(1) == 1\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    (root / "app").mkdir(parents=True)
    (root / "app" / "__init__.py").write_text("def fetch(x):\n    return x\n", encoding="utf-8")
    (root / "app" / "lines.py").write_text("def split(x):\n    return [x]\n", encoding="utf-8")
    (root / ".khepriignore").write_text("private\n", encoding="utf-8")
    return root


def written(path: str, code: str) -> str:
    return f"```python {path}\n{code}```"


@pytest.mark.parametrize(
    ("task", "named", "paths"),
    [
        ("create tools/clean.sh that removes caches", (), ["tools/clean.sh"]),
        ("create test_http.py", (), ["tests/test_http.py"]),
        ("write a test for get", (("app/net/http.py", "get"),), ["tests/test_http.py", "tests/test_get.py"]),
        ("write tests for App", (("app/__init__.py", "App"),), ["tests/test_init.py", "tests/test_App.py"]),
        ("write a test for draw", (("web/view.ts", "draw"),), ["web/view.test.ts", "web/draw.test.ts"]),
        ("write a test for Run", (("go/run.go", "Run"),), ["go/run_test.go", "go/Run_test.go"]),
        ("create a module for Client.send", (), []),
        (
            "write a test like tests/test_app.py for get",
            (("app/net/http.py", "get"),),
            ["tests/test_http.py", "tests/test_get.py"],
        ),
    ],
)
def test_a_new_file_goes_where_the_task_or_custom_says(
    task: str, named: tuple[tuple[str, str], ...], paths: list[str]
) -> None:
    assert new_paths(task, named, FILES) == paths


def test_a_file_is_written_reviewed_and_taken_back(root: Path) -> None:
    call = planned("create", path="tests/test_fetch.py")
    with Change(root, Instruction(TASK), [call, written("tests/test_fetch.py", TEST)]) as change:
        report = change.run()
        assert report.outcome == "applied"
        assert (root / "tests" / "test_fetch.py").read_text(encoding="utf-8") == TEST
        assert [each.before for each in change.reviewed[0].files] == [None]
        undo(change.repository, change.checkpoints.all()[0], change.checkpoints)
    assert not (root / "tests").exists()


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("from app import fetches\n\n\ndef test_it():\n    fetches()\n", "not possible"),
        ("from app.nets import fetch\n\n\ndef test_it():\n    fetch(1)\n", "not possible"),
        ("def test_it(:\n    pass\n", "syntax error"),
        ("def test_it():\n    pass\n\n\n# the rest of the code\n", "placeholder text"),
        ('"""Tests."""\n', "malformed reply"),
        ("\n", "malformed reply"),
    ],
)
def test_a_file_that_cannot_be_right_is_refused_with_its_reason(root: Path, code: str, reason: str) -> None:
    call = planned("create", path="tests/test_fetch.py")
    with Change(root, Instruction(TASK), [call, *[written("tests/test_fetch.py", code)] * 3]) as change:
        report = change.run()
    assert (report.outcome, report.steps[0].reason) == ("refused", reason)
    assert not (root / "tests").exists()


def test_a_wrong_import_is_named_with_the_right_one_and_mended(root: Path) -> None:
    wrong = TEST.replace("from app import", "from app.lines import")
    replies = [
        planned("create", path="tests/test_fetch.py"),
        *(written("tests/test_fetch.py", t) for t in (wrong, TEST)),
    ]
    with Change(root, Instruction(TASK), replies) as change:
        assert change.run().outcome == "applied"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("../out.py", "outside the repository"),
        ("private/x.py", "ignored or secret"),
        (".git/hooks/x.py", "ignored or secret"),
        (".env", "ignored or secret"),
        ("app/__init__.py/x.py", "no such target"),
        ("new/", "no such target"),
    ],
)
def test_a_path_that_must_not_be_is_refused_before_the_model_writes(root: Path, path: str, reason: str) -> None:
    with Change(root, Instruction("x", targets=(path,)), []) as change, pytest.raises(EditRefusedError) as caught:
        change.run()
    assert caught.value.reason == reason


def test_a_target_that_is_not_there_yet_is_created(root: Path) -> None:
    replies = ["", written("app/more.py", "from app.lines import split\n\nprint(split(1))\n")]
    with Change(root, Instruction("print it", targets=("app/more.py",)), replies) as change:
        assert change.run().changes is not None
    assert (root / "app" / "more.py").exists()


def test_a_method_is_added_without_writing_its_class_anew(root: Path) -> None:
    (root / "app" / "net.py").write_text("class Session:\n    def open(self):\n        return 1\n", encoding="utf-8")
    call = planned("add", path="app/net.py", symbol="Session")
    new = "```python app/net.py Session\n    def close(self):\n        return 2\n```"
    with Change(root, Instruction("Session needs a method close that returns 2"), [call, new]) as change:
        report = change.run()
    assert report.outcome == "applied"
    assert (root / "app" / "net.py").read_text(encoding="utf-8") == (
        "class Session:\n    def open(self):\n        return 1\n\n    def close(self):\n        return 2\n"
    )


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("# Use\n\nCall `fetch`.\n```", "# Use\n\nCall `fetch`.\n"),
        ("# Use\n\n```python\nfetch(1)\n```", "# Use\n\n```python\nfetch(1)\n```\n"),
        ("# Use\n\n```python\nfetch(1)\n```\n````", "# Use\n\n```python\nfetch(1)\n```\n"),
    ],
)
def test_a_text_with_fences_of_its_own_ends_with_the_turn(root: Path, said: str, kept: str) -> None:
    call = planned("create", path="docs/use.md")
    replies = [call, f"````markdown docs/use.md\n{said}"]
    with Change(root, Instruction("create docs/use.md about fetch"), replies) as change:
        assert change.run().outcome == "applied"
    assert (root / "docs" / "use.md").read_text(encoding="utf-8") == kept
