"""What others rely on in a definition stays, where a model writes it anew, unless the task asks for another head."""

from pathlib import Path

import pytest

from khepri.edits.locate import find_target, read_source
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.edits.writing.heads import heads_of
from khepri.edits.writing.rewrite import rewritten
from khepri.edits.writing.unasked import told_of_unasked
from khepri.repo.root import Repository

PYTHON = """class Base: ...


def mean(values: list[float], *, digits: int = 2) -> float:
    total = sum(values)
    return round(total)


class Store(Base):
    async def load(self, path: str, retries=3):
        return read(path)

    @staticmethod
    def key(name: str) -> str:
        return name
"""
SCRIPT = """export const mean = async (values: number[], digits: number = 2): Promise<number> => {
  return round(values, digits);
};

export class Store extends Base {
  private static key(name: string): string {
    return name;
  }
}
"""
GO = "package a\n\nfunc Mean(values []float64, digits int) float64 {\n\treturn round(values, digits)\n}\n"
RUST = "pub async fn mean<T: Num>(values: &[T], digits: u8) -> T {\n    round(values, digits)\n}\n"
JAVA = (
    "class A {\n  @Override\n  public int mean(int[] values, int digits) {\n    return round(values, digits);\n  }\n}\n"
)
C = "static int mean(const int *values, int digits) {\n    return round_to(values, digits);\n}\n"
PLAIN = "compute twice as much in mean"


def changed(root: Path, path: str, text: str, symbol: str, old: str, new: str, task: str, failure: str = "") -> str:
    """Return a file whose definition was written anew, with a change that the task asks for, and another one."""
    (root / path).write_text(text, encoding="utf-8")
    target = find_target(read_source(Workspace(Repository.open(root)), path), symbol)
    assert old in target.text
    asked = target.text.replace("return ", "return 2 * ").replace("    round(", "    2 * round(")
    return rewritten(target, asked.replace(old, new), task, failure).new_text


CHANGES = [
    ("a.py", PYTHON, "mean", "values: list[float]", "values", "type of values", "drop the type hints of mean"),
    ("a.py", PYTHON, "mean", "list[float]", "tuple[float]", "tuple[float]", "let mean accept a tuple"),
    ("a.py", PYTHON, "mean", " -> float", "", "returns float", "mean needs no annotations"),
    ("a.py", PYTHON, "mean", " -> float", " -> int", "returns int", "mean should return an int"),
    ("a.py", PYTHON, "mean", "digits: int = 2", "digits: int", "default of digits", "digits of mean is mandatory"),
    ("a.py", PYTHON, "mean", "digits: int = 2", "digits: int = 4", "is 4", "round to 4 digits in mean by default"),
    ("a.py", PYTHON, "mean", ", *, digits: int = 2", "", "digits", "drop digits from mean"),
    ("a.py", PYTHON, "mean", "*, ", "", "parameter *", "let mean take its arguments by position"),
    ("a.py", PYTHON, "mean", "(values", "(log, values", "takes log", "give mean a parameter log"),
    ("a.py", PYTHON, "mean", "def ", "async def ", "is async", "make mean asynchronous"),
    ("a.py", PYTHON, "Store.load", "async def", "def", "async of", "Store.load should not be a coroutine any more"),
    ("a.py", PYTHON, "Store.load", "path: str, retries=3", "retries=3, path: str = ''", "order", "swap both in load"),
    ("a.py", PYTHON, "Store.load", ", retries=3", "", "retries", "remove the parameter retries of Store.load"),
    ("a.py", PYTHON, "Store", "(Base)", "", "head of Store", "Store need not inherit from anything"),
    ("a.ts", SCRIPT, "mean", "export const", "const", "export", "mean need not be exported"),
    ("a.ts", SCRIPT, "mean", "values: number[]", "values", "type of values", "without type annotations in mean"),
    ("a.ts", SCRIPT, "mean", "async (", "(", "async", "mean should be synchronous"),
    ("a.ts", SCRIPT, "mean", " = 2", "", "default of digits", "digits has no default in mean"),
    ("a.ts", SCRIPT, "Store.key", "private static", "static", "private", "Store.key should be public"),
    ("a.ts", SCRIPT, "Store.key", "static ", "", "static", "key should not be static in Store"),
    ("a.ts", SCRIPT, "Store", "extends Base ", "", "head of Store", "Store has no base class"),
    ("a.go", GO, "Mean", ", digits int", "", "parameter digits", "drop digits from Mean"),
    ("a.go", GO, "Mean", ") float64", ") (float64, error)", "returns", "Mean should return an error for no values"),
    ("a.go", GO, "Mean", "[]float64", "[]int", "is declared", "Mean should take integers"),
    ("a.rs", RUST, "mean", "pub ", "", "pub", "mean need not be public"),
    ("a.rs", RUST, "mean", "async ", "", "async", "mean should block"),
    ("a.rs", RUST, "mean", "<T: Num>", "<T>", "head of mean", "loosen the generic bound of mean"),
    ("A.java", JAVA, "A.mean", "public int", "int", "public", "hide A.mean: it should have no public access"),
    ("A.java", JAVA, "A.mean", "@Override\n  ", "", "@Override", "drop the annotation of A.mean"),
    ("A.java", JAVA, "A.mean", "int digits", "long digits", "is declared", "A.mean should take a long for digits"),
    ("a.c", C, "mean", "static ", "", "static", "mean should not be static any more"),
    ("a.c", C, "mean", ", int digits", "", "parameter digits", "remove the parameter digits of mean"),
]


@pytest.mark.parametrize(("path", "text", "symbol", "old", "new", "words", "task"), CHANGES)
def test_a_head_changes_only_where_the_task_says_so(
    tmp_path: Path, path: str, text: str, symbol: str, old: str, new: str, words: str, task: str
) -> None:
    with pytest.raises(EditRefusedError) as caught:
        changed(tmp_path, path, text, symbol, old, new, PLAIN.replace("mean", symbol))
    assert caught.value.reason is Refusal.UNASKED
    assert words in caught.value.message
    assert "as it is: " in caught.value.hint
    assert new in changed(tmp_path, path, text, symbol, old, new, task)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("values: list[float]", "values:list[float]"),
        ("(values: list[float], *, digits: int = 2)", "(\n    values: list[float],\n    *,\n    digits: int = 2,\n)"),
        (") -> float:\n", ") -> float:\n    # what is meant\n"),
    ],
)
def test_another_layout_is_no_other_head(tmp_path: Path, old: str, new: str) -> None:
    assert new in changed(tmp_path, "a.py", PYTHON, "mean", old, new, PLAIN)


@pytest.mark.parametrize(
    ("symbol", "old", "new", "words"),
    [
        ("mean", "digits: int = 2", "digits: int = 2, log=None", "mean takes log as well"),
        ("Store.load", "retries=3", "retries: int = 3", "retries, a parameter of Store.load, is declared as"),
        ("Store.load", "retries=3)", "retries=3) -> str", "Store.load returns str now"),
    ],
)
def test_what_breaks_nobody_is_told(tmp_path: Path, symbol: str, old: str, new: str, words: str) -> None:
    task = "compute twice as much"
    text = changed(tmp_path, "a.py", PYTHON, symbol, old, new, task)
    notes = told_of_unasked("a.py", PYTHON, text, task)
    assert [words in note for note in notes] == [True]


@pytest.mark.parametrize(
    ("result", "task", "may"),
    [
        (") error", "Mean should return an error for no values", False),
        (") error", "Mean should return an error when values is empty", False),
        (") (float64, error)", "Mean should return an error for no values", True),
        (") error", "Mean should return an error instead of float64 for no values", True),
        (") string", "Mean should return a string", True),
    ],
)
def test_what_is_returned_in_some_case_only_leaves_what_is_returned_in_others(
    tmp_path: Path, result: str, task: str, may: bool
) -> None:
    arguments = (tmp_path, "a.go", GO, "Mean", ") float64", result, task)
    if may:
        assert result in changed(*arguments)
    else:
        with pytest.raises(EditRefusedError, match="and float64 never"):
            changed(*arguments)


def test_a_parameter_in_front_of_others_is_refused_although_it_has_a_default(tmp_path: Path) -> None:
    with pytest.raises(EditRefusedError, match="takes log as well"):
        changed(tmp_path, "a.py", PYTHON, "Store.load", "path: str", "log=None, path: str = ''", "write more down")


def test_a_parameter_that_was_asked_for_comes_behind_the_others_unless_the_task_says_where(tmp_path: Path) -> None:
    arguments = (tmp_path, "a.py", PYTHON, "Store.load", "path: str", "copies: int = 1, path: str = ''")
    with pytest.raises(EditRefusedError, match="copies comes before path"):
        changed(*arguments, "give Store.load a parameter copies, default 1")
    assert "copies" in changed(*arguments, "give Store.load a first parameter copies, default 1")
    required = (tmp_path, "a.py", PYTHON, "Store.load", "path: str", "path: str, copies: int")
    assert "copies" in changed(*required, "give Store.load a parameter copies")


def test_a_failing_check_may_ask_for_another_parameter(tmp_path: Path) -> None:
    failure = "TypeError: mean() got an unexpected keyword argument 'log'"
    arguments = (tmp_path, "a.py", PYTHON, "mean", "(values", "(log, values", "make the failing test pass")
    with pytest.raises(EditRefusedError):
        changed(*arguments)
    assert "(log, values" in changed(*arguments, failure)


def test_the_head_of_what_lies_in_a_function_is_its_own_affair() -> None:
    text = "def f(a):\n    def g(b):\n        return b\n    return g(a)\n"
    assert heads_of("a.py", text).keys() == {"f"}


def test_a_whole_file_is_held_to_its_heads_as_well(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(PYTHON, encoding="utf-8")
    target = find_target(read_source(Workspace(Repository.open(tmp_path)), "a.py"))
    with pytest.raises(EditRefusedError, match=r"does not say any more that it returns str"):
        rewritten(target, PYTHON.replace("-> str", "").replace("total", "sum_of_all"), "call total sum_of_all")
