"""What a model wrote is taken, put right, or refused with a reason."""

from pathlib import Path

import pytest

from khepri.edits.locate import Target, find_target, read_source
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.edits.writing.blocks import with_blocks
from khepri.edits.writing.rewrite import rewritten
from khepri.repo.root import Repository

APP = '''"""App."""

import os


class App:
    def run(self, count):
        """Run it."""
        total = 0
        for number in range(count):
            total += number
        print(total)
        return total

    def stop(self):
        return os.getpid()


def helper():
    return 1
'''


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    return tmp_path


def target(root: Path, symbol: str = "App.run", path: str = "app.py") -> Target:
    return find_target(read_source(Workspace(Repository.open(root)), path), symbol)


RUN = "\n".join(APP.split("\n")[6:13])


def test_a_method_is_put_in_its_place_whatever_its_depth(root: Path) -> None:
    new = RUN.replace("total = 0", "total = 1")
    flat = "\n".join(line.removeprefix("    ") for line in new.split("\n"))
    for written in (new, flat, f"\n{new}\n\n"):
        assert rewritten(target(root), written, "start at 1").after == APP.replace("total = 0", "total = 1").encode()


def test_imports_before_a_function_go_to_the_top(root: Path) -> None:
    written = "import os\nfrom math import pi\n\ndef helper():\n    return pi\n"
    after = rewritten(target(root, "helper"), written, "return pi").after
    assert (
        after
        == APP.replace("import os\n", "import os\nfrom math import pi\n").replace("return 1", "return pi").encode()
    )


@pytest.mark.parametrize(
    ("symbol", "written", "task", "reason"),
    [
        ("App.run", RUN, "x", Refusal.NO_OP),
        (
            "App.run",
            "    def run(self, count):\n        # ... existing code ...\n        return 1",
            "x",
            Refusal.PLACEHOLDER,
        ),
        ("App.run", RUN.replace("print(total)", "..."), "x", Refusal.PLACEHOLDER),
        (
            "App.run",
            RUN.replace("print(total)", "# The rest of the function remains unchanged"),
            "x",
            Refusal.PLACEHOLDER,
        ),
        *(
            ("App.run", RUN.replace("print(total)", line), "x", Refusal.PLACEHOLDER)
            for line in (
                "# TODO: implement the rest",
                "# Keep everything else the same",
                "# Implementation continues",
                "pass  # unchanged code",
                "raise NotImplementedError",
            )
        ),
        ("App.run", "    def run(self, count):\n        return 1", "x", Refusal.SHRINKAGE),
        ("App", "class App:\n" + RUN, "x", Refusal.SHRINKAGE),
        ("App.run", RUN.replace("count):", "count:"), "x", Refusal.SYNTAX),
        ("App.run", RUN.replace("def run", "def walk"), "x", Refusal.MALFORMED),
        ("App.run", RUN + "\n" + RUN.replace("0", "1"), "x", Refusal.AMBIGUOUS),
        ("helper", "", "x", Refusal.MALFORMED),
        ("", "print(1)", "x", Refusal.SHRINKAGE),
    ],
)
def test_each_guard_has_its_reason(root: Path, symbol: str, written: str, task: str, reason: Refusal) -> None:
    with pytest.raises(EditRefusedError) as caught:
        rewritten(target(root, symbol), written, task)
    assert caught.value.reason is reason
    assert caught.value.message
    assert caught.value.hint


def test_what_is_to_be_left_open_may_be(root: Path) -> None:
    written = RUN.replace("print(total)", 'raise NotImplementedError("later")')
    assert rewritten(target(root, "App.run"), written, "run should raise NotImplementedError behind the loop").after


def test_code_behind_an_import_passes_the_same_guards(root: Path) -> None:
    left_out = RUN.replace("print(total)", "# ... rest of the code unchanged")
    for written, reason in ((left_out, Refusal.PLACEHOLDER), (RUN, Refusal.NO_OP)):
        with pytest.raises(EditRefusedError) as caught:
            rewritten(target(root), f"import re\n\n{written}", "x")
        assert caught.value.reason is reason


def test_an_import_that_the_old_code_lacks_is_a_change(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(x):\n    return re.escape(x)\n", encoding="utf-8")
    written = "import re\n\ndef f(x):\n    return re.escape(x)"
    assert rewritten(target(tmp_path, "f", "a.py"), written, "mend the NameError").after == (
        b"import re\ndef f(x):\n    return re.escape(x)\n"
    )


@pytest.mark.parametrize(
    "body", ["await os", "break", "nonlocal zz\n    return 1", "return 1\nreturn 2", "print(x := (y := 1) = 2)"]
)
def test_what_only_the_compiler_sees_is_a_syntax_error_too(root: Path, body: str) -> None:
    with pytest.raises(EditRefusedError) as caught:
        rewritten(target(root, "helper"), f"def helper():\n    {body}", "x")
    assert caught.value.reason is Refusal.SYNTAX


def test_a_class_around_the_method_comes_off(root: Path) -> None:
    new = RUN.replace("total = 0", "total = 1")
    stop = "    def stop(self):\n        return os.getpid()"
    for written in (
        f"class App:\n{new}",
        f"class App(Base):\n{new}",
        f"class App:\n{new}\n\n{stop}",
        f"{new}\n\n{stop}",
    ):
        assert rewritten(target(root), written, "start at 1").after == APP.replace("total = 0", "total = 1").encode()


def test_a_class_around_the_method_comes_off_in_other_languages(tmp_path: Path) -> None:
    text = "class App {\n  run() {\n    return 1;\n  }\n\n  stop() {\n    return 2;\n  }\n}\n"
    (tmp_path / "a.js").write_text(text, encoding="utf-8")
    written = "class App {\n  run() {\n    return 3;\n  }\n}"
    change = rewritten(target(tmp_path, "App.run", "a.js"), written, "return 3")
    assert change.after == text.replace("return 1", "return 3").encode()


@pytest.mark.parametrize(
    ("symbol", "written", "reason"),
    [
        ("App.run", RUN.replace("0", "1") + "\n\n    def stop(self):\n        return 2", Refusal.AMBIGUOUS),
        ("helper", "def helper():\n    return 2\n\n\nclass App:\n    pass", Refusal.AMBIGUOUS),
        ("App.run", "class App:\n    limit = 3\n\n" + RUN.replace("0", "1"), Refusal.MALFORMED),
    ],
)
def test_a_second_version_of_a_neighbour_is_refused(root: Path, symbol: str, written: str, reason: Refusal) -> None:
    with pytest.raises(EditRefusedError) as caught:
        rewritten(target(root, symbol), written, "x")
    assert caught.value.reason is reason


def test_a_new_neighbour_may_come_along(root: Path) -> None:
    written = "def helper():\n    return _one()\n\n\ndef _one():\n    return 1"
    after = rewritten(target(root, "helper"), written, "use a function of its own").after
    assert after == APP.replace("def helper():\n    return 1", written).encode()


SHORT = "def strip(text):\n    if text is None:\n        raise ValueError\n    return text\n"
LONG = SHORT + "\n".join(f"    text = text.replace('{letter}', '')" for letter in "abcdefg") + "\n"


@pytest.mark.parametrize(
    ("task", "may"),
    [
        ("strip should raise ValueError for None", False),
        ("raise ValueError in strip for None", False),
        ("`strip` raises ValueError for None", False),
        ("split_words calls strip(None): raise ValueError", False),
        ("document in clean.py that whitespace is not stripped", False),
        ("raise ValueError for None and don't remove a check", False),
        ("raise ValueError for None and never remove a check", False),
        ("raise ValueError for an empty text", False),
        ("raiseValueError is used by removeAll", False),
        ("simplify strip", True),
        ("strip should be simplified", True),
        ("remove the replacements from strip, and do not touch the check", True),
        ("Reduce `strip` to its check", True),
        ("empty the function", True),
    ],
)
def test_only_a_word_that_asks_for_less_code_allows_it(tmp_path: Path, task: str, may: bool) -> None:
    (tmp_path / "a.py").write_text(LONG, encoding="utf-8")
    if may:
        assert rewritten(target(tmp_path, "strip", "a.py"), SHORT, task).after == SHORT.encode()
        return
    with pytest.raises(EditRefusedError) as caught:
        rewritten(target(tmp_path, "strip", "a.py"), SHORT, task)
    assert caught.value.reason is Refusal.SHRINKAGE


def test_a_task_that_says_so_may_shorten(root: Path) -> None:
    written = "    def run(self, count):\n        return sum(range(count))"
    assert rewritten(target(root), written, "simplify run").after


@pytest.mark.parametrize("line", ["# the same for the other axis", "# existing users keep their rest", "...  # noqa"])
def test_honest_comments_are_no_placeholders(root: Path, line: str) -> None:
    assert rewritten(target(root), RUN.replace("print(total)", f"print(total)  # x\n        {line}"), "x").after


@pytest.mark.parametrize(
    ("path", "good", "bad"),
    [
        ("a.js", "function f() {\n  return 1;\n}\n", "function f() {\n  return 1;\n"),
        ("a.go", "package a\n\nfunc f() int {\n\treturn 1\n}\n", "package a\n\nfunc f() int {\n\treturn 1\n"),
        ("a.rs", "fn f() -> i32 {\n    1\n}\n", "fn f() -> i32 {\n    1\n"),
        ("a.json", '{"a": 1}\n', '{"a": 1\n'),
        ("a.toml", "a = 1\n", "a = \n"),
    ],
)
def test_syntax_is_checked_in_every_language_with_a_grammar(tmp_path: Path, path: str, good: str, bad: str) -> None:
    (tmp_path / path).write_text(good, encoding="utf-8")
    with pytest.raises(EditRefusedError) as caught:
        rewritten(target(tmp_path, "", path), bad, "change it")
    assert caught.value.reason is Refusal.SYNTAX
    assert rewritten(target(tmp_path, "", path), good.replace("1", "2"), "change it").after


def test_what_was_broken_before_may_stay_so(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(:\n    return 1\n\n\ndef g():\n    return 1\n", encoding="utf-8")
    assert rewritten(target(tmp_path, "g", "a.py"), "def g():\n    return 2", "x").after


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("no block", Refusal.MALFORMED),
        ("<<<<<<< SEARCH\nnothing like it\n=======\nx\n>>>>>>> REPLACE", Refusal.NO_TARGET),
        ("<<<<<<< SEARCH\n        return total\n=======\n        return (\n>>>>>>> REPLACE", Refusal.SYNTAX),
        ("<<<<<<< SEARCH\n\n=======\nx\n>>>>>>> REPLACE", Refusal.MALFORMED),
    ],
)
def test_blocks_are_guarded_too(root: Path, written: str, reason: Refusal) -> None:
    with pytest.raises(EditRefusedError) as caught:
        with_blocks(target(root), written, "x")
    assert caught.value.reason is reason


def test_ambiguous_lines_of_a_block_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a = 1\nb = 2\na = 1\n", encoding="utf-8")
    with pytest.raises(EditRefusedError) as caught:
        with_blocks(target(tmp_path, "", "a.py"), "<<<<<<< SEARCH\na = 1\n=======\na = 2\n>>>>>>> REPLACE", "x")
    assert caught.value.reason is Refusal.AMBIGUOUS
