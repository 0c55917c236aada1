"""Where a changed parameter may still be passed without a call that shows it, the user is told."""

from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.refusal import EditRefusedError
from khepri.edits.rename.rename import Refactoring
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

HANDED = "m.py f is handed on at m.py:4: see that nothing passes size there"
FORWARDED = "m.py:4 passes ** on to m.py f: see that size is not among it, and what is called with it"


def renamed(root: Path, text: str, symbol: str = "f") -> Refactoring:
    """Rename ``size`` in a file of this text."""
    (root / "m.py").write_text(text)
    return rename_parameter(Workspace(Repository.open(root)), "m.py", symbol, "size", "width")


@pytest.mark.parametrize(
    ("use", "notes"),
    [
        ("p = map(f, [1])", ()),
        ("p = pool.submit(f, 1, size=3)", (HANDED,)),
        ("p = Thread(target=f, kwargs={'size': 3})", (HANDED,)),
        ("p = lambda **kw: f(1, **kw)", (FORWARDED,)),
    ],
)
def test_a_renamed_parameter_that_may_be_passed_by_others_is_told(
    tmp_path: Path, use: str, notes: tuple[str, ...]
) -> None:
    done = renamed(tmp_path, f"def f(a, size=1):\n    return size\n\n{use}\n")
    assert done.notes == notes


@pytest.mark.parametrize("partial", ["partial", "functools.partial", "functools.partialmethod"])
def test_what_a_partial_passes_is_renamed(tmp_path: Path, partial: str) -> None:
    head = "from functools import partial\nimport functools\n\n\ndef f(a, size=1):\n    return size\n\n"
    use = f"{head}p = {partial}(f, 'é', size=3)\n"
    done = renamed(tmp_path, use)
    assert f"{partial}(f, 'é', width=3)" in done.changes.files[0].new_text
    assert done.notes == ()


def test_a_class_is_called_through_the_type_of_its_object(tmp_path: Path) -> None:
    head = "class A:\n    def __init__(self, size):\n        self.x = size\n\n"
    text = f"{head}    def twin(self):\n        return type(self)(size=self.x)\n"
    assert "type(self)(width=self.x)" in renamed(tmp_path, text, "A.__init__").changes.files[0].new_text
    changed = text.replace("self.x = size", "pass")
    (tmp_path / "m.py").write_text(changed)
    done = remove_parameter(Workspace(Repository.open(tmp_path)), "m.py", "A.__init__", "size")
    assert "type(self)()" in done.changes.files[0].new_text


def test_a_subclass_that_passes_everything_on_is_told(tmp_path: Path) -> None:
    head = "class A:\n    def __init__(self, size=1):\n        pass\n\n\n"
    text = f"{head}class B(A):\n    def __init__(self, **kw):\n        super().__init__(**kw)\n"
    (note,) = renamed(tmp_path, text, "A.__init__").notes
    assert note.startswith("m.py:8 passes ** on to m.py A.__init__")


def test_a_function_that_is_handed_on_is_told_when_it_loses_a_parameter(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def f(a, b):\n    return a\n\nx = list(map(f, [1], [2])), f(1, g())\n")
    done = remove_parameter(Workspace(Repository.open(tmp_path)), "m.py", "f", "b")
    assert done.notes == (
        "m.py f is handed on at m.py:4: see that nothing passes b there",
        "what was passed for b is not evaluated any more at m.py:4: see whether it has to be",
    )


HOOKED = """from functools import partial

HOOKS = []


def hook(function):
    HOOKS.append(function)
    return function


@hook
def done(result, extra=None): ...


def f(a, b): ...


half = partial(f, b=1)
"""


@pytest.mark.parametrize(
    ("symbol", "name", "where"), [("done", "result", "handed on to @hook"), ("f", "a", "handed on at m.py:18")]
)
def test_a_function_that_is_handed_on_is_told_where_anything_passes_its_parameter_by_name(
    tmp_path: Path, symbol: str, name: str, where: str
) -> None:
    (tmp_path / "m.py").write_text(HOOKED, encoding="utf-8")
    workspace = Workspace(Repository.open(tmp_path))
    assert rename_parameter(workspace, "m.py", symbol, name, "other").notes == ()
    (tmp_path / "n.py").write_text(f"def use(h):\n    h({name}=1)\n", encoding="utf-8")
    workspace = Workspace(Repository.open(tmp_path))
    (note,) = rename_parameter(workspace, "m.py", symbol, name, "other").notes
    assert where in note


@pytest.mark.parametrize("body", ["'{size}'.format(**locals())", "eval('size')", "vars()['size']"])
def test_a_function_that_looks_at_its_names_is_told(tmp_path: Path, body: str) -> None:
    (tmp_path / "m.py").write_text(f"def f(size):\n    return {body}\n", encoding="utf-8")
    notes = rename_parameter(Workspace(Repository.open(tmp_path)), "m.py", "f", "size", "width").notes
    assert any("m.py f looks at its names with" in each for each in notes)


BUILT = "class A:\n    def __init__(self, size=1):\n        pass\n\n\n"


@pytest.mark.parametrize(
    "use",
    [
        "def make(kind=A):\n    return kind(size=2)\n",
        "make = lambda kind: (\n    kind(size=2))\n",
        "def f(o):\n    kind = KINDS[o]; return kind(size=2)\n",
    ],
)
def test_an_argument_of_what_may_be_the_class_is_told(tmp_path: Path, use: str) -> None:
    done = renamed(tmp_path, BUILT + use, "A.__init__")
    assert done.notes == ("m.py:7 passes size to what may be A or a class below it, and was left",)


@pytest.mark.parametrize(
    "use", ["def other(size):\n    return other(size=size)\n", "def f(kind):\n    return kind(1), g(size=2)\n"]
)
def test_an_argument_of_what_is_no_variable_is_not_told(tmp_path: Path, use: str) -> None:
    assert renamed(tmp_path, BUILT + use, "A.__init__").notes == ()


def test_a_call_that_hides_a_parameter_is_refused_with_its_file(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def f(a, b=1):\n    return a\n", encoding="utf-8")
    (tmp_path / "use.py").write_text("from m import f\n\nf(*[1, 2])\n", encoding="utf-8")
    with pytest.raises(EditRefusedError, match=r"the call at use.py:3 passes \* or \*\*"):
        remove_parameter(Workspace(Repository.open(tmp_path)), "m.py", "f", "b")


@pytest.mark.parametrize(
    "call",
    ["getattr(self, kind)(1, 2)", "getattr(self, f'on_{kind}')(1, 2)", "getattr(self, 'on_' + kind)(n=1, extra=2)"],
)
def test_a_method_that_is_called_by_a_name_is_told_when_it_loses_a_parameter(tmp_path: Path, call: str) -> None:
    text = f"class A:\n    def on_key(self, n, extra):\n        return n\n\n    def run(self, kind):\n        {call}\n"
    (tmp_path / "m.py").write_text(text)
    done = remove_parameter(Workspace(Repository.open(tmp_path)), "m.py", "A.on_key", "extra")
    told = "m.py A.on_key may be called by its name at m.py:6: see that nothing passes extra there"
    assert told in done.notes


def test_what_tests_put_in_the_place_of_a_function_is_told_where_they_name_the_parameter(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def fmt(x, size):\n    return size\n")
    (tmp_path / "test_m.py").write_text("def test(monkeypatch):\n    monkeypatch.setattr('m.fmt', lambda x, size: x)\n")
    (tmp_path / "test_n.py").write_text("def test(monkeypatch):\n    monkeypatch.setattr('m.fmt', print)\n")
    done = rename_parameter(Workspace(Repository.open(tmp_path)), "m.py", "fmt", "size", "width")
    assert done.notes == ("m.py fmt is replaced by its name at test_m.py:2: see that nothing takes size there",)


def test_what_an_object_decorates_may_be_passed_a_parameter_by_it(tmp_path: Path) -> None:
    done = renamed(tmp_path, "from web import app\n\n\n@app.get('/')\ndef f(size=1):\n    return size\n")
    assert done.notes == ("m.py f is handed on to @app.get('/'): see that nothing passes size there",)


def test_what_is_registered_for_a_function_that_dispatches_is_told(tmp_path: Path) -> None:
    text = "from functools import singledispatch\n\n\n@singledispatch\ndef f(x, size):\n    return size\n\n\n"
    text += (
        "@f.register\ndef _(x: list, size):\n    return size\n\n\n@f.register(str)\ndef _(x, width):\n    return 1\n"
    )
    assert "m.py:10 is run for m.py f by the type that it gets, and takes size still" in renamed(tmp_path, text).notes


def test_a_constructor_below_that_a_base_class_may_call_is_told(tmp_path: Path) -> None:
    text = "class B:\n    def __init__(self, size=1):\n        self.n = size\n\n    def copy(self):\n"
    text += "        return self.__class__(size=self.n)\n\n\nclass A(B):\n    def __init__(self, size=2):\n"
    text += "        super().__init__(size=size)\n"
    done = renamed(tmp_path, text, "B.__init__")
    assert "m.py A takes size still, and may be what m.py:6 makes: change it there too" in done.notes
