"""What a call passes takes the place of a parameter in the f-strings of a function that is inlined."""

import sys
from pathlib import Path

import pytest

from khepri.edits.refusal import EditRefusedError
from tests.edits.inlining.test_inlining import inlined, output

LABEL = 'def label(name, level="info"):\n    return f"[{level}] {name}"\n\n\n'


def test_a_function_that_fills_an_f_string_is_inlined(tmp_path: Path) -> None:
    text = LABEL + 'def run(n):\n    return label(f"run {n}") + label("x", level="w")\n'
    assert inlined(tmp_path, text, "label") == 'def run(n):\n    return f"[info] run {n}" + "[w] x"\n'


def test_statements_whose_names_the_caller_has_too_are_inlined(tmp_path: Path) -> None:
    body = 'def label(name):\n    line = f"[{name}]"\n    OUT.append(line)\n\n\n'
    use = 'def run(n):\n    line = n\n    label(f"run {n}")\n    return line\n\n\nX = run(3)\n'
    out: list[str] = []
    scope: dict[str, object] = {"OUT": out}
    exec(inlined(tmp_path, body + use, "label"), scope)
    assert (scope["X"], out) == (3, ["[run 3]"])


@pytest.mark.parametrize("passed", ["f'{b}', f'{a}'", "f'{b}' + a, [f'{a!r}', b]"])
def test_an_f_string_that_names_a_parameter_is_the_callers(tmp_path: Path, passed: str) -> None:
    text = f"def f(a, b):\n    print(a, b)\n\n\ndef k(a, b):\n    f({passed})\n\n\nk('1', '2')\n"
    assert output(inlined(tmp_path, text)) == output(text)


@pytest.mark.parametrize(
    "body", ['f"<{a}> {b!r:>9} {a=}"', "f'<{a}>' 'x' f\"{b}\"", 'f"""{a} {b}"""', 'f"{len(str(a)) + b:{b}d}"']
)
@pytest.mark.parametrize(
    "passed", ["'h1', 4", "f'n {a}', b + 1", "f'{b}', b * 2", "d['k'], b", "a, b", "b, 7 if a else 8"]
)
def test_what_is_passed_into_an_f_string_is_written_so_that_it_can_be(tmp_path: Path, body: str, passed: str) -> None:
    text = (
        f"def f(a, b=2):\n    line = {body}\n    return line\n\n\ndef k(a, b):\n    line = 0\n    d = dict(k=1)\n"
        f"    x = f({passed})\n    return x, line, d\n\n\nprint(k('1', 2))\n"
    )
    after = inlined(tmp_path, text)
    assert "def f" not in after
    assert output(after) == output(text)


def test_a_text_becomes_a_part_of_the_f_string_that_it_is_passed_into(tmp_path: Path) -> None:
    text = 'def tag(n):\n    return f"<{n}>"\n\n\nx = tag("h1") + tag(f"a {1}") + tag(len("a"))\nprint(x)\n'
    after = inlined(tmp_path, text, "tag")
    assert 'x = "<h1>" + f"<a {1}>" + ' in after
    assert output(after) == output(text)


def test_a_name_that_an_inner_function_of_a_body_has_itself_is_not_what_is_passed(tmp_path: Path) -> None:
    text = 'def f(a):\n    def g(a):\n        print(f"{a}")\n    g(2)\n    print(f"{a}")\n\n\nf("1")\n'
    assert output(inlined(tmp_path, text)) == output(text)


@pytest.mark.parametrize("body", ["f'''{a}\n  x'''", "f'''\n      {a}\n      x'''", "'''\n      x''' + a"])
def test_a_text_of_several_lines_that_would_be_indented_otherwise_is_refused(tmp_path: Path, body: str) -> None:
    text = f"def f(a):\n    print({body})\n\n\nf('1')\n"
    with pytest.raises(EditRefusedError, match="its body has a text of several lines, which would be indented"):
        inlined(tmp_path, text)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="Python writes everything into its f-strings")
def test_what_cannot_be_written_into_an_f_string_is_refused_with_what_to_do(tmp_path: Path) -> None:
    text = 'def f(a):\n    print(f"{a}")\n\n\ndef k(b):\n    f("\\\\".join(b))\n'
    with pytest.raises(EditRefusedError, match=r"into an f-string of f, for its quotes .*: assign it to a name first"):
        inlined(tmp_path, text)
