"""What is added stands beside what is there, at its depth, once."""

from pathlib import Path

import pytest

from khepri.edits.locate import find_target, read_source
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.edits.writing.addition import added
from khepri.repo.root import Repository

PYTHON = "import os\n\n\nclass A:\n    x = 1\n\n    def one(self):\n        return 1\n\n\nclass B:\n    pass\n"
SCRIPT = "class A {\n  one() {\n    return 1;\n  }\n}\n"


def result(root: Path, name: str, text: str, symbol: str, written: str) -> str:
    (root / name).write_text(text, encoding="utf-8")
    target = find_target(read_source(Workspace(Repository.open(root)), name), symbol)
    after = added(target, written).after
    assert after is not None
    return after.decode()


@pytest.mark.parametrize(
    "written",
    [
        "def two(self):\n    return 2\n",
        "    def two(self):\n        return 2\n",
        "class A:\n    def two(self):\n        return 2\n",
        "\n\n    def two(self):\n        return 2\n\n",
    ],
)
def test_a_method_is_the_last_of_its_class_however_deep_it_was_written(tmp_path: Path, written: str) -> None:
    expected = PYTHON.replace("return 1\n", "return 1\n\n    def two(self):\n        return 2\n")
    assert result(tmp_path, "a.py", PYTHON, "A", written) == expected


def test_what_it_needs_is_imported_at_the_top(tmp_path: Path) -> None:
    written = "import re\n\ndef two(self):\n    return re.I\n"
    assert result(tmp_path, "a.py", PYTHON, "A", written).startswith("import os\nimport re\n")


def test_a_function_stands_at_the_end_of_its_file(tmp_path: Path) -> None:
    written = "def two():\n    return 2\n"
    assert result(tmp_path, "a.py", PYTHON, "", written) == PYTHON + "\n\n" + written
    assert result(tmp_path, "b.py", PYTHON[:-1], "", written) == PYTHON + "\n\n" + written[:-1]


def test_a_class_that_ends_in_a_bracket_is_added_to_before_it(tmp_path: Path) -> None:
    expected = SCRIPT[:-2] + "\n  two() {\n    return 2;\n  }\n}\n"
    assert result(tmp_path, "a.js", SCRIPT, "A", "two() {\n  return 2;\n}\n") == expected
    assert result(tmp_path, "a.js", SCRIPT, "A", "class A {\n  two() {\n    return 2;\n  }\n}\n") == expected


@pytest.mark.parametrize(
    ("symbol", "written", "reason"),
    [
        ("A", "def one(self):\n    return 2\n", Refusal.AMBIGUOUS),
        ("A", "class A:\n    def one(self):\n        return 1\n\n    def two(self): ...\n", Refusal.AMBIGUOUS),
        ("", "class B:\n    pass\n", Refusal.AMBIGUOUS),
        ("A", "print(2)\n", Refusal.MALFORMED),
        ("A", "return 2\n", Refusal.SYNTAX),
        ("A", "", Refusal.MALFORMED),
        ("A", "def two(self):\n    # the rest of the code\n    pass\n", Refusal.PLACEHOLDER),
        ("A", "def two(self:\n    return 2\n", Refusal.SYNTAX),
    ],
)
def test_what_is_there_already_or_no_definition_is_refused(
    tmp_path: Path, symbol: str, written: str, reason: Refusal
) -> None:
    with pytest.raises(EditRefusedError) as caught:
        result(tmp_path, "a.py", PYTHON, symbol, written)
    assert caught.value.reason is reason


@pytest.mark.parametrize(
    ("name", "text", "symbol", "written"),
    [
        ("a.py", PYTHON, "", "def two():\n    return 2\n\n\nprint(two())\n"),
        ("a.py", PYTHON, "", "if __name__ == '__main__':\n    two()\n\n\ndef two():\n    return 2\n"),
        ("a.py", PYTHON, "A", "print(1)\n\ndef two(self):\n    return 2\n"),
        ("a.js", SCRIPT, "", "function two() {\n  return 2;\n}\n\nconsole.log(two());\n"),
        ("a.js", SCRIPT, "", "function two() {\n  return 2;\n}\n\nmodule.exports = { two };\n"),
    ],
)
def test_what_would_be_done_beside_the_new_definition_is_refused(
    tmp_path: Path, name: str, text: str, symbol: str, written: str
) -> None:
    with pytest.raises(EditRefusedError, match="stands outside of two"):
        result(tmp_path, name, text, symbol, written)


def test_a_value_that_the_new_definition_uses_comes_with_it(tmp_path: Path) -> None:
    assert "TWO = 2" in result(tmp_path, "a.py", PYTHON, "", "TWO = 2\n\n\ndef two():\n    return TWO\n")
    assert "const TWO" in result(tmp_path, "a.js", SCRIPT, "", "const TWO = 2;\n\nfunction two() {\n  return TWO;\n}\n")


def test_what_nothing_defines_is_refused_and_the_standard_library_imported(tmp_path: Path) -> None:
    with pytest.raises(EditRefusedError, match="nothing defines compute"):
        result(tmp_path, "a.py", PYTHON, "", "def two():\n    return compute(2)\n")
    assert "import os\nimport math\n" in result(tmp_path, "a.py", PYTHON, "A", "def two(self):\n    return math.pi\n")
