"""A body in the place of its calls does what the calls did, with brackets where its pieces would fall apart."""

import contextlib
import io
from pathlib import Path

import pytest

from khepri.edits.inlining.inlining import inline
from khepri.edits.refusal import EditRefusedError
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository


def inlined(root: Path, text: str, name: str = "f") -> str:
    (root / "a.py").write_text(text, encoding="utf-8")
    return inline(Workspace(Repository.open(root)), "a.py", name).changes.files[0].new_text


def output(text: str) -> str:
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        exec(text, {"__name__": "m"})
    return written.getvalue()


@pytest.mark.parametrize(
    ("function", "use", "wanted"),
    [
        ("def f(x):\n    return x + 1\n", "y = 2\nprint(f(y) * 2)\n", "print((y + 1) * 2)"),
        ("def f(x):\n    return x + 1\n", "y = 2\nprint(-f(y))\n", "print(-(y + 1))"),
        ("def f(x):\n    return g(x * 2)\n", "y = 2\nprint(f(y + 1))\n", "print(g((y + 1) * 2))"),
        ("def f(x):\n    return x * 2\n", "é = 2\nprint(3 - f(x=é if é else 1))\n", "print(3 - ((é if é else 1) * 2))"),
        ("def f(a, b):\n    return (a << 32) | b\n", "y = 3\nprint([f(y | 1, y)])\n", "print([((y | 1) << 32) | y])"),
        (
            "def f(x):\n    return x + 'x'\n",
            "y = 0\nprint(f('\\\\d' if y else 'x'))\n",
            "print(('\\\\d' if y else 'x') + 'x')",
        ),
        ("def f(x):\n    return (\n        x\n        or g(1)\n    )\n", "y = 0\nprint(not f(y))\n", ""),
        ("def f(x):\n    return g(x)\n", "y = 0\nprint(f(y + 1))\n", "print(g(y + 1))"),
        (
            "def f(x):\n    n = x * 2\n    return n + 1\n",
            "y = 3\nz = f(y - 1) ** 2\nprint(z)\n",
            "n = (y - 1) * 2\nz = (n + 1) ** 2",
        ),
    ],
)
def test_what_would_fall_apart_gets_brackets_and_nothing_else(
    tmp_path: Path, function: str, use: str, wanted: str
) -> None:
    text = f"def g(v):\n    return v\n\n\n{function}\n\n{use}"
    after = inlined(tmp_path, text)
    assert "def f" not in after
    assert output(after) == output(text)
    assert wanted in after


def test_what_is_called_below_an_error_with_a_cause_is_no_import(tmp_path: Path) -> None:
    text = (
        "class A:\n    def f(self, x):\n        self.y = x\n\n    def g(self, x):\n        try:\n            int(x)\n"
        "        except ValueError as error:\n            raise KeyError from error\n        self.f(x)\n"
        "        import os\n        return self.y, os.sep\n\n\nprint(A().g('1'))\n"
    )
    after = inlined(tmp_path, text, "A.f")
    assert "        self.y = x\n        import os" in after
    assert output(after) == output(text)


def test_as_many_empty_lines_stay_as_there_were(tmp_path: Path) -> None:
    text = "class A:\n    def g(self):\n        self.f()\n\n    def f(self):\n        print(1)\n\n\nclass B: ...\n"
    assert inlined(tmp_path, text, "A.f") == "class A:\n    def g(self):\n        print(1)\n\n\nclass B: ...\n"


def test_what_waits_is_refused_by_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(EditRefusedError, match="it is asynchronous"):
        inlined(tmp_path, "async def f(): ...\n\n\nasync def g():\n    await f()\n")


def test_a_default_is_its_own_whatever_other_calls_pass(tmp_path: Path) -> None:
    function = "def f(a, b='é' or 0, c=None):\n    print(a, b, c)\n"
    text = function + "\n\nf(1, 5, c=6)\nf(2)\nf(b=7, a=1)\nf((\n    3\n    + 1\n))\nf(1, c=2 if 1 else 3)\n"
    after = inlined(tmp_path, text)
    assert "def f" not in after
    assert output(after) == output(text)


@pytest.mark.parametrize("call", ["f(*[1, 2])", "f(1, **{'b': 2})"])
def test_what_is_unpacked_in_a_call_is_not_taken_apart(tmp_path: Path, call: str) -> None:
    with pytest.raises(EditRefusedError, match="with \\* or \\*\\*"):
        inlined(tmp_path, f"def f(a, b=0):\n    print(a, b)\n\n\n{call}\n")


def test_a_method_takes_what_it_is_called_on(tmp_path: Path) -> None:
    text = (
        "class A:\n    x = 3\n\n    def f(self, n=1):\n        return self.x + n\n\n\n"
        "class B(A):\n    def g(self):\n        y = self.f() * 2\n        return self.f(2) - y\n\n\n"
        "a = A()\nprint(a.f(4) * 2, B().g())\n"
    )
    after = inlined(tmp_path, text, "A.f")
    assert output(after) == output(text)
    assert "y = (self.x + 1) * 2\n        return (self.x + 2) - y" in after


@pytest.mark.parametrize(
    "passed", ["n, data", "n + 1, 3", "data or n, data", "n=data, data=é(n)", "data, [n for n in (1, 2)]"]
)
def test_what_a_call_passes_is_the_callers_whatever_the_parameters_are_called(tmp_path: Path, passed: str) -> None:
    text = (
        "def g(*v):\n    return v\n\n\né = abs\n\n\ndef f(data, n):\n    m = g(data, n)\n    return m\n\n\n"
        f"def k(data, n):\n    m = 5\n    x = f({passed})\n    return x, m, data, n\n\n\nprint(k(0, 2))\n"
    )
    after = inlined(tmp_path, text)
    assert "def f" not in after
    assert output(after) == output(text)


METHODS = """class A:
    def _n(self):
        return 1

    def run(self):
        return self._n()
"""


@pytest.mark.parametrize(
    "files",
    [
        {"a.py": METHODS + "\n\nclass B(A):\n    def _n(self):\n        return 2\n"},
        {"a.py": METHODS, "b.py": "from a import A\n\n\nclass B(A):\n    def _n(self):\n        return 2\n"},
        {
            "a.py": METHODS,
            "b.py": "import a\n\n\nclass B(a.A): ...\n",
            "c.py": "from b import B\n\n\nclass C(B):\n    def _n(self):\n        return 2\n",
        },
    ],
)
def test_a_method_that_is_overridden_is_not_inlined(tmp_path: Path, files: dict[str, str]) -> None:
    for path, text in files.items():
        (tmp_path / path).write_text(text, encoding="utf-8")
    with pytest.raises(EditRefusedError, match="a call of it may mean"):
        inline(Workspace(Repository.open(tmp_path)), "a.py", "A._n")


def test_a_method_that_nothing_overrides_is_inlined(tmp_path: Path) -> None:
    after = inlined(tmp_path, METHODS + "\n\nclass B:\n    def __init__(self):\n        pass\n", "A._n")
    assert "return 1" in after.partition("def run")[2]


@pytest.mark.parametrize(
    ("body", "passed"),
    [
        ("self.n = 5\n        return old", "self.n"),
        ("self.touch()\n        return old", "self.n + 1"),
        ("self.items[0] = 5\n        return old", "self.items[0]"),
        ("for i in (1, 2):\n            self.n += old\n        return self.n", "self.n"),
        ("self.n += 1\n        self.m = old", "self.n"),
    ],
)
def test_what_is_passed_is_read_before_the_body_changes_it(tmp_path: Path, body: str, passed: str) -> None:
    text = f"class A:\n    def f(self, old):\n        {body}\n\n    def g(self):\n        return self.f({passed})\n"
    with pytest.raises(EditRefusedError, match="at another time"):
        inlined(tmp_path, text, "A.f")


@pytest.mark.parametrize("body", ["self.n = old", "self.m = old\n        self.n = 5", "print(len(old), old)"])
def test_what_is_passed_may_be_changed_after_its_last_use(tmp_path: Path, body: str) -> None:
    text = f"class A:\n    def f(self, old):\n        {body}\n\n    def g(self):\n        self.f(self.n)\n"
    assert "def f" not in inlined(tmp_path, text, "A.f")


@pytest.mark.parametrize(
    "body",
    [
        "return lambda: x",
        "y = x + 1\n    return lambda: y",
        "return (x + i for i in range(3))",
        "def g():\n        return x\n    return g",
    ],
)
def test_a_function_that_reads_a_parameter_later_is_not_inlined(tmp_path: Path, body: str) -> None:
    text = f"def f(x):\n    {body}\n\n\nfs = []\nfor z in (1, 2):\n    fs.append(f(z))\n"
    with pytest.raises(EditRefusedError, match="later on"):
        inlined(tmp_path, text)


@pytest.mark.parametrize(
    "body", ["return lambda v: v", "return sorted('ab', key=lambda v: (v, x))", "return any(x for _ in 'a')"]
)
def test_a_function_inside_that_is_done_with_at_once_does_not_matter(tmp_path: Path, body: str) -> None:
    assert "def f" not in inlined(tmp_path, f"def f(x):\n    {body}\n\n\nz = 1\ny = f(z)\n")


@pytest.mark.parametrize(
    ("function", "use"),
    [
        ("def f(x):\n    return x + 1\n", "y = 2\nprint(f(y) * f(x=3), f(f(1) if y else 1) if 0 else f(y))\n"),
        ("def f(x): return x + 1\n", "y = 2; z = f(y); y = f(z)\nif y: z = f(z); y = f(z)\nprint(y, z)\n"),
        ("def f(x):\n    return {x: x}\n", "y = 2\nassert f(y) == f(2) and f(\n    3\n)\nprint(f(y)[2], [*f(1)])\n"),
        ("def f(x):\n    return x + 1  # the next\n", "y = 2\nprint(f(y) * 2, f(y))\n"),
        (
            "def f(x):\n    return (\n        x\n        + 1  # the next\n    )  # or so\n",
            "y = 2\nprint(f(y) * 2, f(y))\n",
        ),
    ],
)
def test_each_of_several_calls_in_a_line_has_its_value_in_its_place(tmp_path: Path, function: str, use: str) -> None:
    text = f"{function}\n\n{use}"
    if "f(f(" in use:
        with pytest.raises(EditRefusedError, match=r"line 6 of a.py cannot be told apart"):
            inlined(tmp_path, text)
        text = text.replace("f(f(1) if y else 1)", "f(1)")
    after = inlined(tmp_path, text)
    assert "f(" not in after.replace("print(", "")
    assert output(after) == output(text)


def test_what_is_passed_by_name_alone_and_its_default_are_each_in_their_place(tmp_path: Path) -> None:
    text = (
        "def f(a, /, b=2, *, c=3, d):\n    return a * 100 + b * 10 + c + d\n\n\n"
        "q = 1\nprint(f(q + 1, c=q, d=0), f(q, b=1, d=q + 1) * 2)\n"
    )
    after = inlined(tmp_path, text)
    assert "def f" not in after
    assert output(after) == output(text)


def test_a_function_that_takes_any_number_is_refused_by_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(EditRefusedError, match=r"passes to its \* or \*\* cannot be told apart"):
        inlined(tmp_path, "def f(a, *rest):\n    return a\n\n\nf(1, 2)\n")


@pytest.mark.parametrize("name", ["__str__", "__call__", "__init__"])
def test_what_python_finds_by_its_name_is_not_inlined(tmp_path: Path, name: str) -> None:
    text = f"class A:\n    def {name}(self):\n        return 'a'\n\n    def use(self):\n        return self.{name}()\n"
    with pytest.raises(EditRefusedError, match="so it cannot go"):
        inlined(tmp_path, text, f"A.{name}")


def test_a_file_of_another_kind_that_names_what_has_gone_is_told(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project.scripts]\nx = "a:f"\n', encoding="utf-8")
    (tmp_path / "a.py").write_text("def f():\n    print(1)\n\n\nf()\n", encoding="utf-8")
    (note,) = inline(Workspace(Repository.open(tmp_path)), "a.py", "f").notes
    assert "pyproject.toml" in note
