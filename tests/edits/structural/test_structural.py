"""What a pattern may be: anything with a word, a value or an operator of its own, however short."""

import re
from pathlib import Path

import pytest

from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.structural.structural import replace_code
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


def workspace_of(root: Path, text: str, name: str = "a.py") -> Workspace:
    (root / name).write_text(text, encoding="utf-8")
    return Workspace(Repository.open(root))


@pytest.mark.parametrize(
    ("text", "pattern", "replacement", "after"),
    [
        ("assert eq(a, f(b))\n", "eq($A, $B)", "$A == $B", "assert a == f(b)\n"),
        ("x = f(1)\n", "f($A)", "$A", "x = 1\n"),
        ("x = a == b\n", "$A == $B", "$B == $A", "x = b == a\n"),
        ("x = y + 0\n", "$A + 0", "$A", "x = y\n"),
    ],
)
def test_a_pattern_of_a_short_name_or_an_operator_is_taken(
    tmp_path: Path, text: str, pattern: str, replacement: str, after: str
) -> None:
    done = replace_code(workspace_of(tmp_path, text), pattern, replacement)
    assert done.changes.files[0].after == after.encode()


@pytest.mark.parametrize("pattern", ["$A", "$$$A", "$$$", "$_", "($A)", "$A, $B", "$F($$$A)", "$A.$B", "$A[$B]"])
def test_a_pattern_of_holes_alone_would_match_anything(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(EditRefusedError, match="would match anything") as refused:
        replace_code(workspace_of(tmp_path, "f(x)\n"), pattern, "y")
    assert refused.value.reason is Refusal.NOT_POSSIBLE


def test_a_type_that_is_written_as_a_text_is_left_where_it_would_stand_beside_an_operator(tmp_path: Path) -> None:
    text = 'X = Optional["Foo"]\n\n\ndef f(a: Optional["Foo"], b: "Optional[Foo]"): ...\n'
    done = replace_code(workspace_of(tmp_path, text), "Optional[$T]", "$T | None")
    assert done.changes.files[0].new_text == text.replace('a: Optional["Foo"]', 'a: "Foo | None"')
    assert "1 of them would mean something else and were left: a.py:1" in done.notes
    assert "1 place that looks like it, in another shape, was left: a.py:4" in done.notes


@pytest.mark.parametrize(
    ("name", "text", "pattern", "lines"),
    [
        ("a.py", "f(1)\nf(1, 2)\n# f(1, 2)\n'f(1, 2)'\nx.f(1, 2)\n", "f($A)", "a.py:2"),
        ("a.py", "def f(a, b): ...\nf(1)\ng(f(2), f(3, 4))\n", "f($A)", "a.py:3"),
        ("a.py", "a.keys()\nb.keys(1)\nb.keys\n", "$X.keys()", "a.py:2"),
        ("a.c", "#define N(n) m(n)\nvoid f() {\n  m(1);\n  m(1, 2);\n}\n", "m($A)", "a.c:1, a.c:4"),
        ("a.js", 'const g = (a) => f(a);\nconsole.log(`${f(1, 2)} f(3, 4)`, "f(1, 2)");\n', "f($A)", "a.js:2"),
    ],
)
def test_a_place_where_the_same_is_called_in_another_shape_is_told(
    tmp_path: Path, name: str, text: str, pattern: str, lines: str
) -> None:
    done = replace_code(workspace_of(tmp_path, text, name), pattern, "z")
    assert [note.rpartition(": ")[2] for note in done.notes if "in another shape" in note] == [lines]


@pytest.mark.parametrize(
    ("pattern", "text"), [("f($A)", "f(1)\n'f(1, 2)'\n"), ('$X.get("a")', 'x.get("a")\nx.get("b")\n')]
)
def test_nothing_is_told_where_all_that_looks_alike_has_the_shape(tmp_path: Path, pattern: str, text: str) -> None:
    assert replace_code(workspace_of(tmp_path, text), pattern, "1").notes == ("1 places match",)


def test_where_nothing_has_the_shape_a_place_that_looks_like_it_is_named(tmp_path: Path) -> None:
    with pytest.raises(EditRefusedError, match=r"no code has the shape f\(\$A\), though a.py:2 looks like it"):
        replace_code(workspace_of(tmp_path, "x = 1\nf(1, 2)\n"), "f($A)", "z")


@pytest.mark.parametrize(
    ("name", "text", "pattern", "replacement", "told"),
    [
        (
            "a.go",
            'package a\n\nimport "fmt"\n\nfunc f(n int) string {\n\treturn fmt.Sprintf("%d", n)\n}\n',
            'fmt.Sprintf("%d", $X)',
            "strconv.Itoa($X)",
            [
                "strconv",
                "a.go:3 imports fmt, which nothing there uses any more: remove it, or Go will not compile it",
            ],
        ),
        ("a.js", "f(1);\n", "f($A)", "lodash.get($A)", ["lodash"]),
        ("a.ts", "f(1);\n", "f($A)", "useMemo($A)", ["useMemo"]),
        ("A.java", "class A { int x = f(1); }\n", "f($A)", "Objects.hash($A)", ["Objects"]),
        ("a.rs", "fn g() { f(1); }\n", "f($A)", "mem::take($A)", ["mem"]),
        ("a.rs", "fn g() { f(1); }\n", "f($A)", "std::mem::take($A)", []),
        ("a.js", "f(1);\n", "f($A)", 'JSON.parse($A, "lodash.get")', []),
        ("a.go", 'package a\n\nimport "os"\n\nfunc g() {\n\tf(1)\n\tos.Exit(1)\n}\n', "f($A)", "os.Exit($A)", []),
    ],
)  # fmt: skip
def test_what_a_replacement_needs_and_a_file_does_not_import_is_told(
    tmp_path: Path, name: str, text: str, pattern: str, replacement: str, told: list[str]
) -> None:
    done = replace_code(workspace_of(tmp_path, text, name), pattern, replacement)
    named = re.compile(r"\S+:\d+ has (\w+), and nothing else in the file names it: import it")
    assert [named.sub(r"\1", note) for note in done.notes if "import" in note] == told
