"""What a pattern does not account for is never lost."""

from pathlib import Path

import pytest

from khepri.edits.refusal import EditRefusedError
from khepri.edits.structural.filling import fill
from khepri.edits.structural.structural import replace_code
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


@pytest.mark.parametrize(
    ("language", "text", "pattern", "replacement", "rest"),
    [
        ("ruby", 'old("x") do |y|\n  it { 1 }\nend\n', "old($P)", "new($P)", "do |y| it { 1 } end"),
        ("ruby", "File.old(path) { |f| f.read }\n", "File.old($P)", "File.new($P)", "{ |f| f.read }"),
        ("kotlin", "fun f() {\n  old(path) { it.read() }\n}\n", "old($P)", "new($P)", "{ it.read() }"),
        ("swift", "func f() {\n  old(path) { x in x.read() }\n}\n", "old($P)", "new($P)", "{ x in x.read() }"),
        ("java", "class M { A a = new Old(p) { int x() {} }; }\n", "new Old($P)", "new New($P)", "{ int x() {} }"),
        ("csharp", "class M { A a = new Old(p) { X = 1 }; }\n", "new Old($P)", "new New($P)", "{ X = 1 }"),
        ("bash", "old a b\n", "old $P", "new $P", "b"),
        (
            "javascript",
            "async function old() { return 1 }\n",
            "function old() { $$$B }",
            "function x() { $$$B }",
            "async",
        ),
        ("javascript", "if (old) { a() } else { b() }\n", "if (old) { $$$B }", "if (x) { $$$B }", "else { b() }"),
        ("python", "async def old(a):\n    pass\n", "def old($A): $$$B", "def new($A): $$$B", "async def"),
    ],
)
def test_a_match_that_holds_more_than_its_pattern_is_left_and_told(
    language: str, text: str, pattern: str, replacement: str, rest: str
) -> None:
    filled = fill(text, language, pattern, replacement)
    assert (filled.text, filled.count) == (text, 0)
    ((_, told),) = filled.beyond
    assert told.startswith(rest)


@pytest.mark.parametrize(
    ("language", "text", "pattern", "replacement", "after"),
    [
        ("go", "package m\nfunc f() {\n\told(p,\n\t)\n}\n", "old($P)", "x($P)", "package m\nfunc f() {\n\tx(p)\n}\n"),
        ("python", "f( a.b,a . b, 1,)", "f($A, $A, $B)", "g($B)", "g(1)"),
        ("python", "f(1, 2)", "f($_, $_)", "g()", "g()"),
        ("python", "f(1, 2)", "f($$$)", "g()", "g()"),
        ("rust", "fn f() { old![1, 2]; }", "old!($A, $B)", "new($A, $B)", "fn f() { new(1, 2); }"),
        (
            "javascript",
            "function f(){ return old(1); }",
            "return old($A)",
            "return x($A)",
            "function f(){ return x(1) }",
        ),
        ("ruby", "old(1) do\n  old(2)\nend\n", "old($P)", "new($P)", "old(1) do\n  new(2)\nend\n"),
    ],
)
def test_holes_marks_at_the_end_and_blanks_are_accounted_for(
    language: str, text: str, pattern: str, replacement: str, after: str
) -> None:
    assert fill(text, language, pattern, replacement).text == after


def test_the_places_that_were_left_are_named_with_what_would_be_lost(tmp_path: Path) -> None:
    (tmp_path / "m.rb").write_text("old_name(1)\nold_name(2) { |x| x }\n")
    workspace = Workspace(Repository.open(tmp_path))
    done = replace_code(workspace, "old_name($P)", "new_name($P)")
    assert "m.rb:2 ({ |x| x })" in done.notes[1]
    (tmp_path / "m.rb").write_text("old_name(2) { |x| x }\n")
    with pytest.raises(EditRefusedError, match=r"would be lost"):
        replace_code(Workspace(Repository.open(tmp_path)), "old_name($P)", "new_name($P)")


@pytest.mark.parametrize(
    ("pattern", "replacement"), [("old_name($_)", "x($_)"), ("old_name($$$)", "x($$$)"), ("old_name($$$A)", "x($A)")]
)
def test_a_hole_that_keeps_nothing_is_refused_in_a_replacement(tmp_path: Path, pattern: str, replacement: str) -> None:
    (tmp_path / "m.py").write_text("old_name(1)\n")
    with pytest.raises(EditRefusedError, match=r"\$"):
        replace_code(Workspace(Repository.open(tmp_path)), pattern, replacement)
