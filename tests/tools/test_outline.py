import os
from collections.abc import Callable
from pathlib import Path

import pytest

from khepri.tools.base import Observation

Call = Callable[..., Observation]

SHAPES = """\
import math


class Shape:
    SIDES = 0

    def area(self) -> float:
        raise NotImplementedError


class Circle(Shape):
    def area(self) -> float:
        def square(x: float) -> float:
            return x * x

        return math.pi * square(1)


def main() -> None:
    print(Circle().area())
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "shapes.py").write_text(SHAPES)
    (tmp_path / "src" / "notes.txt").write_text("nothing to see")
    (tmp_path / "src" / "tool.go").write_text("package tool\n\nfunc Run() int {\n\treturn 1\n}\n")
    return tmp_path


def test_a_file_shows_its_definitions_with_lines_and_nesting(tree: Path, call: Call) -> None:
    observation = call("outline", {"path": "src/shapes.py"})
    assert observation.text.split("\n") == [
        "src/shapes.py:",
        "4-8  class Shape:",
        "7-8    def area(self) -> float:",
        "11-16  class Circle(Shape):",
        "12-16    def area(self) -> float:",
        "13-14      def square(x: float) -> float:",
        "19-20  def main() -> None:",
    ]
    assert observation.summary == "6 symbols"
    assert observation.paths == ("src/shapes.py",)


def test_a_folder_shows_the_outer_definitions_of_each_file(tree: Path, call: Call) -> None:
    observation = call("outline", {"path": "src/"})
    assert observation.text.split("\n") == [
        "src:",
        "src/shapes.py: Shape:4, Circle:11, main:19",
        "src/tool.go: Run:3",
    ]
    assert observation.summary == "2 files"
    assert call("outline", {"path": "."}).text.split("\n")[1:] == observation.text.split("\n")[1:]


def test_what_does_not_fit_loses_inner_definitions_before_outer_ones(tmp_path: Path, call: Call) -> None:
    members = "".join(f"    def method_{number}(self): ...\n" for number in range(30))
    (tmp_path / "long.py").write_text("".join(f"class Class{number}:\n{members}\n" for number in range(10)))
    rows = call("outline", {"path": "long.py"}, budget=150).text.split("\n")
    assert [row.split()[-1] for row in rows[1:11]] == [f"Class{number}:" for number in range(10)]
    assert rows[11:] == ["[left out: 300 inner ones; read the outer one by its symbol]"]
    assert "method_29" in call("outline", {"path": "long.py"}, budget=5000).text


def test_a_cut_says_how_many_are_missing(tmp_path: Path, call: Call) -> None:
    (tmp_path / "flat.py").write_text("".join(f"def function_{number}(): ...\n" for number in range(500)))
    rows = call("outline", {"path": "flat.py"}, budget=100).text.split("\n")
    assert rows[-1] == f"[cut: {500 - (len(rows) - 2)} more lines]"


def test_what_a_namespace_holds_is_outer_too(tmp_path: Path, call: Call) -> None:
    (tmp_path / "a.cpp").write_text("namespace n {\nclass A { public: void m() {} };\nint f() { return 1; }\n}\n")
    assert call("outline", {"path": "."}).text == ".:\na.cpp: A:2, f:3"


def test_neighbours_on_one_line_are_not_nested(tmp_path: Path, call: Call) -> None:
    (tmp_path / "a.js").write_text("class A { m() {} } class B {} function f() {}\n")
    rows = call("outline", {"path": "a.js"}).text.split("\n")[1:]
    assert [len(row) - len(row.removeprefix("1-1").lstrip()) - 3 for row in rows] == [2, 4, 2, 2]


def test_headings_outline_prose(tmp_path: Path, call: Call) -> None:
    (tmp_path / "README.md").write_text("# Title\n\ntext\n\n## Version 1.2.3\n\nmore\n")
    assert call("outline", {"path": "README.md"}).text.split("\n")[1:] == ["1-7  # Title", "5-7  ## Version 1.2.3"]


def test_sound_definitions_survive_errors_around_them(tmp_path: Path, call: Call) -> None:
    (tmp_path / "broken.py").write_text("def good():\n    pass\n\ndef bad():\n    x = = 1\n\nclass Last:\n    pass\n")
    text = call("outline", {"path": "broken.py"}).text
    assert "def good():" in text
    assert "class Last:" in text


@pytest.mark.parametrize(
    ("name", "content"),
    [("data.csv", b"a,b\n"), ("empty.py", b""), ("empty", b""), ("comment.py", b"# nothing\n")],
)
def test_a_file_without_definitions_says_so(tmp_path: Path, call: Call, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    observation = call("outline", {"path": name})
    assert observation.text == f"{name} defines nothing that can be told; read it instead"
    assert not observation.is_error


def test_a_folder_without_definitions_says_so(tmp_path: Path, call: Call) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("words")
    assert call("outline", {"path": "docs"}).text == "no file below docs defines anything"


def test_binary_unreadable_and_hidden_files_are_refused_alone_and_passed_over_in_folders(
    tree: Path, call: Call
) -> None:
    (tree / "src" / "blob.py").write_bytes(b"def f(): ...\0\1\2")
    (tree / "src" / ".env").write_text("def secret(): ...")
    os.mkfifo(tree / "src" / "pipe.py")
    for name, words in (("blob.py", "binary"), (".env", "secret"), ("pipe.py", "regular file"), ("none.py", "")):
        observation = call("outline", {"path": f"src/{name}"})
        assert observation.is_error, name
        assert words in observation.text
    assert call("outline", {"path": "src"}).summary == "2 files"


def test_other_encodings_are_read(tmp_path: Path, call: Call) -> None:
    (tmp_path / "latin.py").write_bytes("# é\ndef größe(): ...\n".encode("latin-1"))
    (tmp_path / "wide.py").write_bytes("def weit(): ...\r\n".encode("utf-16"))
    assert call("outline", {"path": "latin.py"}).text.endswith("2-2  def größe(): ...")
    assert call("outline", {"path": "wide.py"}).text.endswith("1-1  def weit(): ...")


def test_deep_nesting_and_long_names_stay_within_the_budget(tmp_path: Path, call: Call) -> None:
    (tmp_path / "deep.js").write_text("".join(f"function f{n}() {{\n" for n in range(2000)) + "}\n" * 2000)
    (tmp_path / "long.py").write_text("".join(f"def {chr(97 + n) * 500}(): ...\n" for n in range(26)))
    for path in ("deep.js", "long.py", "."):
        for budget in (1, 10, 60, 400):
            assert call("outline", {"path": path}, budget=budget).text
    assert "2-3999    function f1()" in call("outline", {"path": "deep.js"}, budget=400).text


def test_a_file_too_large_to_read_whole_says_so(tmp_path: Path, call: Call) -> None:
    (tmp_path / "big.py").write_text("".join(f"def f{number}(): return {number}\n" for number in range(100_000)))
    first = call("outline", {"path": "big.py"}).text.split("\n")[0]
    assert first.startswith("big.py (too large: only its first ")
    assert first.endswith(" lines were looked at):")


def test_a_large_folder_says_how_many_files_were_not_looked_at(tmp_path: Path, call: Call) -> None:
    for number in range(70):
        (tmp_path / f"m{number:02}.py").write_text("def f(): ...\n")
    observation = call("outline", {"path": "."}, budget=2000)
    assert observation.text.endswith("[only the first 60 of 70 files were looked at; name a smaller folder]")
    assert observation.summary == "60 files"


def test_control_characters_in_names_cannot_drive_the_terminal(tmp_path: Path, call: Call) -> None:
    (tmp_path / "a.py").write_text('def f(x="\x1b[2J\x07"): ...\n')
    assert "\x1b" not in call("outline", {"path": "a.py"}).text
