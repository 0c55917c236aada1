"""A replacement at the beginning of a statement or an arrow's body is read as the expression that it is."""

import pytest

from khepri.edits.structural.filling import fill


@pytest.mark.parametrize(
    ("language", "text", "after"),
    [
        ("javascript", "const k = () => w({a: 1});", "const k = () => ({a: 1});"),
        ("javascript", "const k = x => w({}).a;", "const k = x => ({}).a;"),
        ("typescript", "const k = (x: A): B => w({a: x});", "const k = (x: A): B => ({a: x});"),
        ("javascript", "const k = () => w([1]);", "const k = () => [1];"),
        ("javascript", "const k = {b: w({a: 1})};", "const k = {b: {a: 1}};"),
        ("javascript", "w({a: 1});", "({a: 1});"),
        ("javascript", "w(w({a: 1}).b);", "({a: 1}.b);"),
        ("javascript", "w(function () {});", "(function () {});"),
        ("javascript", "export default w(function () {});", "export default (function () {});"),
        ("javascript", "export default w({a});", "export default {a};"),
        ("javascript", "a = 1;\nw([1]).b", "a = 1;\n[1].b"),
        ("javascript", "function f() {}\nw([1]).b", "function f() {}\n[1].b"),
        ("javascript", "if (a)\n  w([1]).b", "if (a)\n  [1].b"),
        ("javascript", "a = 1\nw(b)", "a = 1\nb"),
        (
            "rust",
            "fn f() -> i32 {\n  w(if a { 1 } else { 2 }) + 1\n}",
            "fn f() -> i32 {\n  (if a { 1 } else { 2 }) + 1\n}",
        ),
        ("rust", "fn f() -> i32 {\n  w(if a { 1 } else { 2 })\n}", "fn f() -> i32 {\n  if a { 1 } else { 2 }\n}"),
        ("rust", "fn f() {\n  let x = w(if a { 1 } else { 2 });\n}", "fn f() {\n  let x = if a { 1 } else { 2 };\n}"),
        ("lua", "local a = b;\nw(c())", "local a = b;\nc()"),
    ],
)
def test_a_beginning_gets_brackets_where_it_would_be_read_as_something_else(
    language: str, text: str, after: str
) -> None:
    filled = fill(text, language, "w($X)", "$X")
    assert (filled.text, filled.left) == (after, ())


@pytest.mark.parametrize(
    ("language", "text", "replacement"),
    [
        ("javascript", "let a = 1\nw(b)\n", "[...$X]"),
        ("javascript", "a\nw(b).c\n", "`$X`"),
        ("javascript", "a = 1 // why\n// more\nw(b)\n", "-$X"),
        ("typescript", "type A = B\nw(b)\n", "($X)"),
        ("javascript", "a = 1\nw({b})\n", "$X"),
        ("lua", "local a = b\nw(c)\n", "($X)()"),
    ],
)
def test_a_line_that_would_go_on_with_the_one_before_is_left(language: str, text: str, replacement: str) -> None:
    filled = fill(text, language, "w($X)", replacement)
    assert (filled.text, len(filled.left)) == (text, 1)
