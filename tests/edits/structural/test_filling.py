"""A replacement means in every place what it says, whatever its holes took and wherever it comes to stand."""

import ast
import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.edits.structural.filling import fill


@pytest.mark.parametrize(
    ("language", "text", "pattern", "replacement", "after"),
    [
        ("python", "2 * half(x + 1)", "half($A)", "$A / 2", "2 * ((x + 1) / 2)"),
        ("python", "half(x) + 1", "half($A)", "$A / 2", "x / 2 + 1"),
        ("python", "f(x) == True", "f($A)", "$A == 1", "(x == 1) == True"),
        ("python", "f(x)[0]", "f($A)", "$A, 1", "(x, 1)[0]"),
        ("python", "é = '😀'; x = await f(await y)", "await f($A)", "$A.z", "é = '😀'; x = (await y).z"),
        ("python", "g(f(f(a), f(b)))", "f($$$A)", "h(1, $$$A)", "g(h(1, h(1, a), h(1, b)))"),
        ("python", "f(x + 1)", "f($A)", "'$A'", "'x + 1'"),
        ("python", "f(x)\n", "f($A)", "f($A)  # why", "f(x)  # why\n"),
        ("python", "f()", "f($$$A)", "f($$$A, k=1)", "f(k=1)"),
        ("python", "f()", "f($$$A)", "g(1, $$$A)", "g(1)"),
        ("python", "f(); f(2)", "f($$$A)", "g(1, $$$A, 3)", "g(1, 3); g(1, 2, 3)"),
        ("python", "f()", "f($$$A)", "[1, g, $$$A]", "[1, g]"),
        (
            "python",
            "def f(a: Optional[int]) -> Optional[List[Optional[str]]]:\n    x: a.Optional[int] = Optional[int]\n",
            "Optional[$T]",
            "$T | None",
            "def f(a: int | None) -> List[str | None] | None:\n    x: a.Optional[int] = int | None\n",
        ),
        ("python", "x: Dict[str, Dict[a, b]]", "Dict[$$$A]", "dict[$$$A]", "x: dict[str, dict[a, b]]"),
        (
            "python",
            "x: Callable[[int], Union[a, None]]",
            "Union[$A, None]",
            "$A | None",
            "x: Callable[[int], a | None]",
        ),
        ("python", 'x: Optional["Foo"]', "Optional[$T]", "$T | None", 'x: "Foo | None"'),
        ("python", 'x: Optional[List["Foo"]]', "Optional[$T]", "$T | None", 'x: List["Foo"] | None'),
        ("python", 'x: Union["A", b] | None', "Union[$A, $B]", "$A | $B", 'x: "A | b | None"'),
        ("python", "x: Union[Literal['a'], 'B']", "Union[$A, $B]", "$A | $B", "x: \"Literal['a'] | B\""),
        ("python", 'x = either(a, "b")', "either($A, $B)", "$A | $B", 'x = a | "b"'),
        (
            "typescript",
            "let x: Promise<Array<string | null>>;",
            "Array<$T>",
            "$T[]",
            "let x: Promise<(string | null)[]>;",
        ),
        ("rust", "fn f(a: Vec<Box<Error>>) {}", "Box<$T>", "Box<dyn $T>", "fn f(a: Vec<Box<dyn Error>>) {}"),
        (
            "java",
            "class A { Map<B, List<C>> f(List<A> x) {} }",
            "List<$T>",
            "Set<$T>",
            "class A { Map<B, Set<C>> f(Set<A> x) {} }",
        ),
        (
            "c",
            "void f() { a = malloc(n * sizeof(int)); b = malloc((n + 1) * sizeof(struct s)); malloc(n * sizeof(x)); }",
            "malloc($N * sizeof($T))",
            "calloc($N, sizeof($T))",
            "void f() { a = calloc(n, sizeof(int)); b = calloc((n + 1), sizeof(struct s)); calloc(n, sizeof(x)); }",
        ),
        (
            "cpp",
            "void f() { a = g(sizeof(x)); b = g(sizeof(int)); }",
            "g(sizeof($T))",
            "h<$T>()",
            "void f() { a = h<x>(); b = h<int>(); }",
        ),
        ("c", "int a = sizeof(int) + sizeof(x);", "sizeof($T)", "SIZE($T)", "int a = SIZE(int) + SIZE(x);"),
        ("rust", "fn f() { let a = g(x) < 3; }", "g($A)", "$A as u8", "fn f() { let a = (x as u8) < 3; }"),
        ("rust", "fn f() { let a = g(x as u8) << 3; }", "g($A)", "$A", "fn f() { let a = (x as u8) << 3; }"),
        ("rust", "fn f() { let a = g(x as u8, 1); }", "g($A, $B)", "$A\n< $B", "fn f() { let a = (x as u8)\n< 1; }"),
        ("rust", "fn f() { assert!(g(x) < 3); }", "g($A)", "$A as a::B", "fn f() { assert!((x as a::B) < 3); }"),
        ("rust", "fn f() { let a = g(x) <= 3; }", "g($A)", "$A as u8", "fn f() { let a = x as u8 <= 3; }"),
        ("rust", "fn f() { let a = 3 < g(x); }", "g($A)", "$A as u8", "fn f() { let a = 3 < x as u8; }"),
        ("javascript", "const z = 2 * half(x + 1);", "half($A)", "$A / 2", "const z = 2 * ((x + 1) / 2);"),
        (
            "go",
            "package m\n\nvar z = 2 * half(x + 1)\n",
            "half($A)",
            "$A / 2",
            "package m\n\nvar z = 2 * ((x + 1) / 2)\n",
        ),
        (
            "go",
            'package m\n\nfunc f() {\n\tfmt.Println("a")\n\tx := log.Wrap(fmt.Println(1, y))\n}\n',
            "fmt.Println($$$A)",
            "log.Print($$$A)",
            'package m\n\nfunc f() {\n\tlog.Print("a")\n\tx := log.Wrap(log.Print(1, y))\n}\n',
        ),
        (
            "c",
            "int f() {\n  a(1);\n  return 2 * a(3);\n}\n",
            "a($A)",
            "$A + b",
            "int f() {\n  1 + b;\n  return 2 * (3 + b);\n}\n",
        ),
        (
            "rust",
            'fn f() {\n    println!("{}", x.get(1));\n    assert_eq!(2 * y.get(a + 1), vec![z.get(2), 3]);\n}\n',
            "$X.get($A)",
            "$X[$A]",
            'fn f() {\n    println!("{}", x[1]);\n    assert_eq!(2 * y[a + 1], vec![z[2], 3]);\n}\n',
        ),
        (
            "rust",
            "fn f() {\n    assert_eq!(get(x, 1), 2 + 3);\n    m!(a => b; get(1));\n    // assert_eq!(1, 2)\n}\n",
            "assert_eq!($A, $B)",
            "assert!($A == $B)",
            "fn f() {\n    assert!(get(x, 1) == 2 + 3);\n    m!(a => b; get(1));\n    // assert_eq!(1, 2)\n}\n",
        ),
        (
            "rust",
            "fn f() -> V { vec![a(1), b] }\n",
            "vec![$$$A]",
            "list(&[$$$A])",
            "fn f() -> V { list(&[a(1), b]) }\n",
        ),
        ("rust", "fn f() { m!(x => y.z()); p!(1) }\n", "m!($$$A)", "n!($$$A)", "fn f() { n!(x => y.z()); p!(1) }\n"),
    ],
)
def test_a_piece_that_would_fall_apart_gets_brackets_and_no_other(
    language: str, text: str, pattern: str, replacement: str, after: str
) -> None:
    filled = fill(text, language, pattern, replacement)
    assert (filled.text, filled.left) == (after, ())


def test_what_brackets_do_not_help_is_left_and_told() -> None:
    filled = fill("f(x)\nf(a=1)\nf(y)\n", "python", "f($A)", "g($A * 2)")
    assert (filled.text, filled.count, filled.left) == ("g(x * 2)\nf(a=1)\ng(y * 2)\n", 2, (2,))


class _Substitution(ast.NodeTransformer):
    """The oracle: the same on Python's own tree, where nothing can fall apart."""

    def __init__(self, replacement: ast.expr) -> None:
        self._replacement = replacement

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        left, right = node.args
        filled = _Holes(left, right).visit(copy.deepcopy(self._replacement))
        assert isinstance(filled, ast.expr)
        return filled


class _Holes(ast.NodeTransformer):
    def __init__(self, left: ast.expr, right: ast.expr) -> None:
        self._holes = {"LEFT": left, "RIGHT": right}

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return copy.deepcopy(self._holes.get(node.id, node))


_EXPRESSIONS = st.recursive(
    st.sampled_from(["x", "y", "12", "'s'", "x.z"]),
    lambda inner: st.one_of(
        st.tuples(
            inner,
            st.sampled_from(["+", "-", "*", "**", "/", "<", "==", "in", "not in", "and", "or", "if x else"]),
            inner,
        ).map(lambda each: f"({each[0]}) {each[1]} ({each[2]})"),
        st.tuples(st.sampled_from(["not", "-", "~", "lambda: ", "lambda q=x: "]), inner).map(
            lambda each: f"{each[0]} ({each[1]})"
        ),
        st.tuples(inner, inner).map(lambda each: f"f({each[0]}, {each[1]})"),
        st.tuples(inner, inner).map(lambda each: f"({each[0]})[{each[1]}]"),
        st.tuples(inner, inner).map(lambda each: f"[{each[0]}, *({each[1]})]"),
    ),
    max_leaves=8,
)


@given(
    _EXPRESSIONS,
    st.sampled_from(
        [
            *(
                "$LEFT + $RIGHT",
                "$LEFT - $LEFT",
                "$RIGHT ** $LEFT",
                "$LEFT < $RIGHT",
                "$RIGHT if $LEFT else z",
                "-$LEFT",
            ),
            *("g($RIGHT, $LEFT)", "lambda: $LEFT", "not $RIGHT", "$LEFT, $RIGHT", "[$RIGHT, *$LEFT]", "$LEFT.q", "z"),
        ]
    ),
)
def test_what_is_written_means_what_the_tree_says(written: str, replacement: str) -> None:
    text = ast.unparse(ast.parse(written))  # without a bracket more than it needs
    filled = fill(text, "python", "f($LEFT, $RIGHT)", replacement)
    expected = _Substitution(ast.parse(replacement.replace("$", ""), mode="eval").body).visit(ast.parse(text))
    assert not filled.left
    assert ast.dump(ast.parse(filled.text)) == ast.dump(expected), filled.text
