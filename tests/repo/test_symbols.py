import itertools
import time

import pytest

from khepri.repo.symbols import outline, references

SAMPLES = {
    "a.py": ("class A:\n    def m(self): ...\n\ndef f(): ...\n\nMAX = 1\nlower = 2\n", ["A", "A.m", "f", "MAX"]),
    "a.js": (
        "class A { m() {} }\nexport function f() {}\nconst g = () => 1\nconst MAX_N = 1\nlet x = 2\n",
        ["A", "A.m", "f", "g", "MAX_N"],
    ),
    "a.ts": (
        "export interface I { a(): void }\nexport class A<T> { m(a: number): void {} }\nenum E { X }\ntype T = 1\n",
        ["I", "A", "A.m", "E", "T"],
    ),
    "a.tsx": ("export const App = () => <div/>\nfunction Row() { return <p/> }\n", ["App", "Row"]),
    "a.go": (
        "package a\ntype S struct{}\ntype I interface{ Z() }\nfunc (s *S) M() {}\nfunc F() {}\nconst K = 1\n",
        ["S", "I", "S.M", "F", "K"],
    ),
    "a.rs": (
        "struct S;\nimpl S { fn m(&self) {} }\ntrait T { fn z(); }\nenum E { A }\nfn f() {}\nmod n { fn g() {} }\n",
        ["S", "S.m", "T", "T.z", "E", "f", "n", "n.g"],
    ),
    "A.java": (
        "package a;\npublic class A {\n  public A() {}\n  int m() { return 1; }\n  interface I { void k(); }\n}\n",
        ["A", "A.A", "A.m", "A.I", "A.I.k"],
    ),
    "a.c": ("#define MAX 3\nstruct s { int a; };\nint f(int a) { return 1; }\nchar **g(void) { return 0; }\n", None),
    "a.cpp": (
        "namespace n {\nclass A { public: void m(); };\nvoid A::m() {}\n}\ntemplate <class T> T f(T a) { return a; }\n",
        ["n.A", "n.A.m", "n.A.m", "f"],
    ),
    "a.cs": (
        "namespace N {\n  class A {\n    public int M() { return 1; }\n  int P { get; set; }\n  }\n  enum E { X }\n}\n",
        ["A", "A.M", "A.P", "E"],
    ),
    "a.rb": (
        "module M\n  class A\n    def m\n    end\n    def self.q\n    end\n  end\nend\n",
        ["M", "M.A", "M.A.m", "M.A.q"],
    ),
    "a.php": ("<?php\nclass B {\n  function m() {}\n}\ninterface I {}\nfunction f() {}\n", ["B", "B.m", "I", "f"]),
    "a.sh": ("foo() { :; }\nfunction bar { :; }\n", ["foo", "bar"]),
    "a.lua": ("function M.foo(a) end\nlocal function z() end\nM.q = function() end\n", ["M.foo", "z", "M.q"]),
    "a.kt": (
        "class A(val x: Int) {\n  fun m(): Int { return 1 }\n}\nobject O {}\nfun top() {}\n",
        ["A", "A.m", "O", "top"],
    ),
    "a.swift": (
        "class A { func m() {}\n init() {} }\nprotocol P { func z() }\nextension A { func n() {} }\nfunc top() {}\n",
        ["A", "A.m", "A.init", "P", "P.z", "A.n", "top"],
    ),
    "a.scala": ("class A { def m(a: Int) = 1 }\nobject O { def z() = {} }\ntrait T\n", ["A", "A.m", "O", "O.z", "T"]),
    "a.md": ("# One\n\ntext\n\n## Two `x`: more\n\nThree\n=====\n", ["One", "Two `x`: more", "Three"]),
}


@pytest.mark.parametrize("path", sorted(SAMPLES))
def test_every_language_gives_its_definitions_with_their_owners(path: str) -> None:
    text, expected = SAMPLES[path]
    assert [symbol.qualified_name for symbol in outline(path, text)] == (expected or ["MAX", "s", "f", "g"])


def test_a_symbol_knows_its_kind_its_lines_and_its_first_line() -> None:
    text = (
        "import x\n"
        "\n"
        "@x.one\n"
        "@x.two(\n"
        "    3)\n"
        "class A(Base):\n"
        "    @property\n"
        "    def size(self) -> int:\n"
        "        def inner():\n"
        "            pass\n"
        "        return 1\n"
        "\n"
        "    async def run(self): ...\n"
    )
    found = {symbol.qualified_name: symbol for symbol in outline("a.py", text)}
    assert list(found) == ["A", "A.size", "A.size.inner", "A.run"]
    assert [symbol.kind for symbol in found.values()] == ["class", "method", "function", "method"]
    assert (found["A"].start_line, found["A"].end_line, found["A"].signature) == (3, 13, "class A(Base):")
    assert (found["A.size"].start_line, found["A.size"].end_line) == (7, 11)
    assert found["A.size"].signature == "def size(self) -> int:"
    assert found["A.run"].signature == "async def run(self): ..."
    assert found["A.run"].name == "run"


def test_an_exported_definition_begins_at_its_export() -> None:
    (symbol,) = outline("a.ts", "\nexport const load = async () => {\n  return 1\n}\n")
    assert (symbol.kind, symbol.start_line, symbol.end_line) == ("function", 2, 4)
    assert symbol.signature == "export const load = async () =>"


def test_grouped_definitions_keep_their_own_lines() -> None:
    text = "package a\n\ntype (\n\tA struct {\n\t\tx int\n\t}\n\tB interface{}\n)\n"
    lines = {symbol.name: (symbol.start_line, symbol.end_line) for symbol in outline("a.go", text)}
    assert lines == {"A": (4, 6), "B": (7, 7)}


def test_a_heading_reaches_to_the_next_of_its_rank() -> None:
    text = "# One\na\n## Two\nb\n## Three\nc\n"
    assert [(symbol.name, symbol.start_line, symbol.end_line) for symbol in outline("a.md", text)] == [
        ("One", 1, 6),
        ("Two", 3, 4),
        ("Three", 5, 6),
    ]


def test_a_file_with_errors_still_gives_what_is_sound() -> None:
    text = (
        "def first(): ...\n\ndef broken():\n    x = = 2\n    return f(\n\nclass Last:\n    def m(self):\n        pass\n"
    )
    names = [symbol.qualified_name for symbol in outline("a.py", text)]
    assert "first" in names
    assert "Last.m" in names


def test_a_script_without_suffix_is_known_by_its_first_line() -> None:
    assert [symbol.name for symbol in outline("bin/run", "#!/usr/bin/env -S python3.11 -u\ndef f(): ...\n")] == ["f"]
    assert [symbol.name for symbol in outline("bin/run", "#!/bin/bash\nf() { :; }\n")] == ["f"]
    assert outline("bin/run", "def f(): ...\n") == ()
    assert outline("bin/run", "#!\n") == ()


@pytest.mark.parametrize(
    ("path", "text"), [("a.py", ""), ("a.xyz", "def f(): ..."), ("LICENSE", "words"), ("a.md", "x")]
)
def test_nothing_to_find_gives_nothing(path: str, text: str) -> None:
    assert outline(path, text) == ()


def test_names_and_lines_survive_other_scripts_and_broken_characters() -> None:
    text = '# 🎉 ü\ndef größe(): return "\ud800"\n\u2028\ndef 中文(): ...\n'
    assert [(symbol.name, symbol.start_line) for symbol in outline("a.py", text)] == [("größe", 2), ("中文", 4)]


@pytest.mark.parametrize("path", ["a.py", "a.js", "a.cpp", "a.sh", "a.md"])
@pytest.mark.parametrize("unit", ["(", "{", "class A{", "if x:\n ", '"', "def f(): return 1\n"])
def test_hostile_text_ends_soon_and_quietly(path: str, unit: str) -> None:
    started = time.thread_time()
    symbols = outline(path, unit * (400_000 // len(unit)))
    # A bound against hanging, not a measurement: sound text of this size takes a fraction of it.
    assert time.thread_time() - started < 20
    assert len(symbols) <= 5_000
    assert all(len(symbol.qualified_name) <= 200 and len(symbol.signature) <= 160 for symbol in symbols)


def test_deep_nesting_does_not_exhaust_the_stack() -> None:
    depth = 3_000
    text = "".join(f"function f{level}() {{\n" for level in range(depth)) + "}\n" * depth
    symbols = outline("a.js", text)
    assert len(symbols) == depth
    assert (symbols[0].name, symbols[0].end_line) == ("f0", 2 * depth)
    assert symbols[-1].qualified_name.endswith(f"f{depth - 2}.f{depth - 1}")


def test_references_count_identifiers_of_code_only() -> None:
    assert references("a.py", "from m import load\nload(load_all, ab)\n") == {
        "from": 1,
        "import": 1,
        "load": 2,
        "load_all": 1,
    }
    assert not references("a.md", "load the file")
    assert not references("data.bin", "load")


def test_no_definition_is_lost_on_a_machine_that_has_no_time_for_us(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    with monkeypatch.context() as patched:
        patched.setattr(time, "monotonic", lambda: 10.0 * next(clock))
        found = outline("a.py", "def f(x):\n    return x\n\n\n" * 4000)
    assert len(found) == 4000
