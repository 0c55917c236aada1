"""A parameter of a method is changed in its whole family, and no call is left behind in silence."""

import re
from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.rename import Refactoring
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

FAMILY = """class Link:
    def send(self, data, flags=0): ...

    def all(self):
        self.send(b"x", flags=1)


class Loud(Link):
    def send(self, data, flags=0):
        return super().send(data, flags=flags)


class Short(Link):
    def send(self, data): ...
"""
USE = """from link import Loud


def main(thing):
    Loud().send(b"x", flags=2)
    thing.send(b"x", flags=3)
"""
ELSEWHERE = "class Mail:\n    def send(self, flags=0): ...\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "link.py").write_text(FAMILY, encoding="utf-8")
    (tmp_path / "use.py").write_text(USE, encoding="utf-8")
    return tmp_path


def workspace(root: Path) -> Workspace:
    return Workspace(Repository.open(root))


def texts(done: Refactoring) -> dict[str, str]:
    return {change.path: change.after.decode() for change in done.changes.files if change.after is not None}


@pytest.mark.parametrize("symbol", ["Link.send", "Loud.send"])
def test_a_parameter_is_renamed_in_those_that_override_the_method_and_in_calls_on_anything(
    root: Path, symbol: str
) -> None:
    done = rename_parameter(workspace(root), "link.py", symbol, "flags", "marks")
    assert texts(done) == {"link.py": FAMILY.replace("flags", "marks"), "use.py": USE.replace("flags", "marks")}
    assert any("use.py:6" in note and "unknown type" in note for note in done.notes)


def test_calls_that_may_be_of_something_else_are_left_and_told(root: Path) -> None:
    (root / "mail.py").write_text(ELSEWHERE, encoding="utf-8")
    done = rename_parameter(workspace(root), "link.py", "Link.send", "flags", "marks")
    assert 'thing.send(b"x", flags=3)' in texts(done)["use.py"]
    assert 'Loud().send(b"x", marks=2)' in texts(done)["use.py"]
    assert any("use.py:6" in note and "left" in note for note in done.notes)


def test_a_parameter_goes_only_if_nothing_of_the_family_uses_it(root: Path) -> None:
    family = FAMILY.replace("return super().send(data, flags=flags)", "return flags")
    (root / "link.py").write_text(family, encoding="utf-8")
    with pytest.raises(EditRefusedError, match=r"Loud.send uses flags at line 10") as caught:
        remove_parameter(workspace(root), "link.py", "Link.send", "flags")
    assert caught.value.reason is Refusal.NOT_POSSIBLE


def test_a_parameter_goes_from_the_family_and_from_what_is_called_behind_super(root: Path) -> None:
    (root / "use.py").write_text(USE.replace('    thing.send(b"x", flags=3)\n', ""), encoding="utf-8")
    done = texts(remove_parameter(workspace(root), "link.py", "Link.send", "flags"))
    assert "flags" not in done["link.py"]
    assert "super().send(data)\n" in done["link.py"]
    assert 'Loud().send(b"x")\n' in done["use.py"]


def test_a_parameter_that_an_unknown_object_is_passed_stays(root: Path) -> None:
    (root / "link.py").write_text(FAMILY.replace("data, flags=flags)", "data)"), encoding="utf-8")
    with pytest.raises(EditRefusedError, match=r"use.py:6 passes it") as caught:
        remove_parameter(workspace(root), "link.py", "Link.send", "flags")
    assert caught.value.hint
    (root / "mail.py").write_text(ELSEWHERE, encoding="utf-8")
    done = remove_parameter(workspace(root), "link.py", "Link.send", "flags")
    assert any("use.py:6" in note and "left" in note for note in done.notes)


BUILT = """class Base:
    def __init__(self, name): ...


class Leaf(Base):
    def __init__(self, name, size):
        super().__init__(name=name)


class Twig(Leaf):
    def __init__(self):
        super().__init__(name="x", size=1)


class Other:
    def __init__(self, name): ...


Base(name="a")
Leaf(name="a", size=1)
Other(name="a")
"""


def test_a_constructor_stands_for_no_other_but_is_called_behind_super(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(BUILT, encoding="utf-8")
    done = texts(rename_parameter(workspace(tmp_path), "a.py", "Base.__init__", "name", "title"))
    wanted = BUILT.replace("self, name):", "self, title):", 1).replace("(name=name)", "(title=name)")
    assert done == {"a.py": wanted.replace("Base(name=", "Base(title=")}


OVERLOADED = """from typing import overload


class Shape:
    @overload
    def area(self, x: int, *, unit: str = ...) -> int: ...
    @overload
    def area(self, x: str, *, unit: str = ...) -> str: ...

    def area(self, x, *, unit="m"):
        return x


print(Shape().area(3, unit="cm"))
"""


def test_a_parameter_of_an_overloaded_function_is_renamed_in_every_overload(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(OVERLOADED, encoding="utf-8")
    for old, new in (("unit", "measure"), ("x", "length")):
        done = rename_parameter(workspace(tmp_path), "a.py", "Shape.area", old, new)
        assert texts(done) == {"a.py": re.sub(rf"\b{old}\b", new, OVERLOADED)}
        assert done.notes == ()


def test_a_parameter_goes_from_every_overload(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(OVERLOADED, encoding="utf-8")
    done = texts(remove_parameter(workspace(tmp_path), "a.py", "Shape.area", "unit"))
    wanted = re.sub(r', (\*, )?unit: str = \.\.\.|, \*, unit="m"|, unit="cm"', "", OVERLOADED)
    assert done == {"a.py": wanted}


STRICT = """def f(a, /, b, *, c: int = (1), **rest):
    def inner(c):
        return c

    return a, b, [c for _ in range(c)], f"{c} {a}", lambda: c, inner(c=a), rest


def g(
    a,
    /,  # nothing, else = 1
    *args: int,
    # a comment, with a comma
    c,
    b="*, c",
):
    return a, args, c, b


class Box:
    def __init__(self, *, c=1):
        self.c = c


class Small(Box):
    pass


def other(c):
    return f(1, a=2, b=3, c=c), g(1, 2, c=c), Box(c=c), Small(c=4), dict(a=c, c=5)
"""
# A bar stands before the name.
RENAMED = [
    ("f", "c", ["|c: int", "[|c for", "range(|c", "{|c}", "lambda: |c", "b=3, |c"]),
    ("f", "a", ["(|a, /, b", "return |a, b", "{|a}", "inner(c=|a"]),
    ("g", "c", ["    |c,\n    b", "return a, args, |c", "g(1, 2, |c"]),
    ("g", "a", ["    |a,\n", "return |a, args"]),
    ("Box.__init__", "c", ["*, |c=", "self.c = |c", "Box(|c", "Small(|c"]),
]


@pytest.mark.parametrize(("symbol", "old", "places"), RENAMED)
def test_what_is_passed_by_name_only_or_by_place_only_is_renamed_as_any(
    tmp_path: Path, symbol: str, old: str, places: list[str]
) -> None:
    imports = "from b import f, g, Box, Small\n\n\n"
    uses = STRICT.split("\n\n\n")[-1]
    (tmp_path / "a.py").write_text(imports + uses, encoding="utf-8")
    (tmp_path / "b.py").write_text(STRICT, encoding="utf-8")
    wanted = STRICT
    for place in places:
        assert STRICT.count(place.replace("|", "")) == 1
        wanted = wanted.replace(place.replace("|", ""), place.replace(f"|{old}", "new"))
    done = texts(rename_parameter(workspace(tmp_path), "b.py", symbol, old, "new"))
    assert done["b.py"] == wanted
    assert done.get("a.py", imports + uses) == imports + wanted.split("\n\n\n")[-1]


def test_a_new_name_that_means_something_else_inside_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(*, c):\n    return [c for d in range(3)]\n", encoding="utf-8")
    with pytest.raises(EditRefusedError, match=r"d"):
        rename_parameter(workspace(tmp_path), "a.py", "f", "c", "d")
    (tmp_path / "a.py").write_text("def f(a, /, *, c): ...\n", encoding="utf-8")
    with pytest.raises(EditRefusedError, match="uses the name a already") as caught:
        rename_parameter(workspace(tmp_path), "a.py", "f", "c", "a")
    assert caught.value.hint == "choose another name"


def test_what_the_rest_takes_by_the_name_of_a_parameter_passed_by_place_stays(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f(a, /, b, **rest):\n    return b, rest\n\n\nf(1, 2, a=3)\n", encoding="utf-8")
    done = texts(remove_parameter(workspace(tmp_path), "a.py", "f", "a"))
    assert done == {"a.py": "def f(b, **rest):\n    return b, rest\n\n\nf(2, a=3)\n"}


@pytest.mark.parametrize(
    ("head", "name", "wanted"),
    [
        ("def f(a, /): ...", "a", "def f(): ..."),
        ("def f(a, b, /, c): ...", "a", "def f(b, /, c): ..."),
        ("def f(\n    a,\n    # by name\n    *,\n    b,\n): ...", "b", "def f(\n    a,\n): ..."),
    ],
)
def test_a_mark_goes_with_the_last_parameter_that_needs_it(tmp_path: Path, head: str, name: str, wanted: str) -> None:
    (tmp_path / "a.py").write_text(f"{head}\n", encoding="utf-8")
    done = texts(remove_parameter(workspace(tmp_path), "a.py", "f", name))
    assert done == {"a.py": f"{wanted}\n"}


MADE = """class Base:
    def __init__(self, name, size=1): ...

    @classmethod
    def small(cls):
        return cls("small", size=0)


class Leaf(Base): ...


class Twig(Leaf):
    def __init__(self, name):
        super().__init__(name, 5)


class Other:
    def __init__(self, name, size=1): ...
"""
MAKING = """import made


Twig = made.Twig("t")


class Far(made.Leaf): ...


made.Base("a", 2)
made.Leaf(
    "b",
    size=3,
)
Far("c", size=4)
made.Other("d", 5)
"""


def test_what_a_constructor_does_not_take_any_more_goes_from_the_calls_of_its_classes(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(MADE, encoding="utf-8")
    (tmp_path / "making.py").write_text(MAKING, encoding="utf-8")
    done = texts(remove_parameter(workspace(tmp_path), "made.py", "Base.__init__", "size"))
    wanted = MADE.replace(", size=1", "", 1).replace(", size=0", "").replace("name, 5", "name")
    assert done["made.py"] == wanted
    assert done["making.py"] == MAKING.replace('"a", 2', '"a"').replace("    size=3,\n", "").replace(", size=4", "")


def test_a_parameter_of_a_constructor_is_renamed_in_the_calls_of_its_classes(tmp_path: Path) -> None:
    (tmp_path / "made.py").write_text(MADE, encoding="utf-8")
    (tmp_path / "making.py").write_text(MAKING, encoding="utf-8")
    done = texts(rename_parameter(workspace(tmp_path), "made.py", "Base.__init__", "size", "width"))
    assert done["made.py"] == MADE.replace("size=1", "width=1", 1).replace("size=0", "width=0")
    assert done["making.py"] == MAKING.replace("size=", "width=")


COMMENTED = """def f(
    a,  # first
    # of all
    b,  # second
    # at last
    c{0}  # third
):
    return 1


f(
    1,  # one
    "#,",  # two
    3{0}  # three
)
"""


@pytest.mark.parametrize("comma", [",", ""])
@pytest.mark.parametrize(
    ("name", "gone"),
    [
        ("a", ("    a,  # first\n", "    1,  # one\n")),
        ("b", ("    # of all\n    b,  # second\n", '    "#,",  # two\n')),
        ("c", ("    # at last\n    c{0}  # third\n", "    3{0}  # three\n")),
    ],
)
def test_each_comment_stays_with_its_parameter(tmp_path: Path, name: str, gone: tuple[str, str], comma: str) -> None:
    text = COMMENTED.format(comma)
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    after = texts(remove_parameter(Workspace(Repository.open(tmp_path)), "a.py", "f", name))["a.py"]
    for each in gone:
        text = text.replace(each.format(comma), "")
    assert after == text


def test_what_takes_any_number_of_arguments_is_renamed_in_its_function(tmp_path: Path) -> None:
    text = (
        'def f(a, *{0}, k=1, **{1}):\n    """Do.\n\n    Args:\n        {0}: What.\n    """\n'
        "    g = lambda x: {0}[x]\n    return f'{{{0}}}', [{1} for _ in {0}], g(*{0}, args=1, **{1})\n\n\n"
        "def h(*args):\n    return f(*args)\n"
    )
    (tmp_path / "a.py").write_text(text.format("args", "kwargs"), encoding="utf-8")
    workspace = Workspace(Repository.open(tmp_path))
    done = rename_parameter(workspace, "a.py", "f", "args", "items")
    assert done.changes.files[0].new_text == text.format("items", "kwargs")
    done = rename_parameter(workspace, "a.py", "f", "kwargs", "options")
    assert done.changes.files[0].new_text == text.format("args", "options")
    with pytest.raises(EditRefusedError, match="uses another kwargs"):
        rename_parameter(workspace, "a.py", "f", "args", "kwargs")


@pytest.mark.parametrize("method", ["__exit__(self, a, b, c)", "__get__(self, a, c=None)", "__eq__(self, c)"])
def test_what_python_itself_passes_stays_a_parameter(tmp_path: Path, method: str) -> None:
    (tmp_path / "a.py").write_text(f"class A:\n    def {method}: ...\n", encoding="utf-8")
    with pytest.raises(EditRefusedError, match="takes what Python passes, c too"):
        remove_parameter(Workspace(Repository.open(tmp_path)), "a.py", f"A.{method.partition('(')[0]}", "c")


def test_objects_that_may_be_called_by_any_name_are_told(tmp_path: Path) -> None:
    text = "class A:\n    def __call__(self, v, u=0):\n        return v\n\n\ndef use(handler):\n    handler({0}1)\n"
    note = "an object of A may be called by any name: see that nothing passes {0} there"
    (tmp_path / "a.py").write_text(text.format("v="), encoding="utf-8")
    workspace = Workspace(Repository.open(tmp_path))
    assert note.format("v") in rename_parameter(workspace, "a.py", "A.__call__", "v", "w").notes
    assert note.format("u") in remove_parameter(workspace, "a.py", "A.__call__", "u").notes
    (tmp_path / "a.py").write_text(text.format(""), encoding="utf-8")
    assert not rename_parameter(Workspace(Repository.open(tmp_path)), "a.py", "A.__call__", "v", "w").notes


def test_overloads_with_comments_between_them_are_one_function(tmp_path: Path) -> None:
    text = """class A:
    @overload
    def f(self, {0}: int): ...

    # Of several
    # lines,
    # this.
    @overload
    def f(self, {0}: str): ...

    # And then
    #
    # that.
    def f(self, {0}):
        return {0}
"""
    (tmp_path / "m.py").write_text(text.format("size"), encoding="utf-8")
    done = rename_parameter(Workspace(Repository.open(tmp_path)), "m.py", "A.f", "size", "width")
    assert [each.new_text for each in done.changes.files] == [text.format("width")]


def test_definitions_with_another_between_them_are_several(tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text("def f(a): ...\n\n\ndef g(): ...\n\n\ndef f(a, b): ...\n", encoding="utf-8")
    with pytest.raises(EditRefusedError, match=r"f is defined more than once in m\.py, at lines 1, 7"):
        rename_parameter(Workspace(Repository.open(tmp_path)), "m.py", "f", "a", "c")


def test_a_class_pattern_looks_at_an_attribute_and_no_parameter(tmp_path: Path) -> None:
    text = "class A:\n    def __init__(self, {0}):\n        self.name = {0}\n\n\ndef f(a):\n    match a:\n"
    text += "        case A(name='x'):\n            return A({0}='y')\n"
    (tmp_path / "m.py").write_text(text.format("name"), encoding="utf-8")
    done = rename_parameter(Workspace(Repository.open(tmp_path)), "m.py", "A.__init__", "name", "label")
    assert [each.new_text for each in done.changes.files] == [text.format("label")]
